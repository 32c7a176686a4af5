"""The hooks of the plugin hub. rlcore imports this module at every start, so it must import nothing heavy."""

from __future__ import annotations

from rlcore import CommandSpec, hookimpl


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="push",
            target="rlcore_zoo.hub.command:push_command",
            summary="Upload a run, with a model card, to a model hub.",
        ),
        CommandSpec(
            name="pull",
            target="rlcore_zoo.hub.command:pull_command",
            summary="Download a run from a model hub.",
        ),
    ]
