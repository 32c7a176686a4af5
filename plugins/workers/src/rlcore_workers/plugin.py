"""The hooks of rlcore-workers: the executor ``processes`` of ``environment.workers``."""

from __future__ import annotations

from rlcore import ExecutorSpec, hookimpl


@hookimpl
def rlcore_executors() -> list[ExecutorSpec]:
    return [
        ExecutorSpec(
            name="processes",
            target="rlcore_workers.processes:create_environment",
            settings="rlcore_workers.settings:WorkerSettings",
            summary="processes of this machine that share memory",
        )
    ]
