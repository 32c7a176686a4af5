"""The hooks of ray. rlcore imports this module at every start, so it must not import ray or numpy."""

from __future__ import annotations

from rlcore import CommandSpec, ExecutorSpec, hookimpl


@hookimpl
def rlcore_executors() -> list[ExecutorSpec]:
    return [
        ExecutorSpec(
            name="ray",
            target="rlcore_workers.ray.executor:create_environment",
            settings="rlcore_workers.ray.settings:RaySettings",
            summary="Ray actors on this machine or on the hosts of a cluster",
        )
    ]


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="ray",
            target="rlcore_workers.ray.command:ray_command",
            summary="Start the ranks of a run on this machine or on a cluster.",
        )
    ]
