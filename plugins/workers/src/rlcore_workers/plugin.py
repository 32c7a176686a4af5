"""The hooks of rlcore-workers: the executor ``processes`` of ``environment.workers``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

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


@hookimpl
def rlcore_status_printed(directory: Path) -> None:
    import_module("rlcore_workers.status").print_workers(directory)
