"""The hooks of the plugin ``report``. rlcore imports this module at every start, so it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore import CommandSpec, hookimpl

if TYPE_CHECKING:
    from pluggy import PluginManager


@hookimpl
def rlcore_addhooks(manager: PluginManager) -> None:
    from rlcore_study.report import hookspecs

    manager.add_hookspecs(hookspecs)


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="report",
            target="rlcore_study.report.command:report_command",
            summary="Write one HTML page about runs: curves, configurations, time, checkpoints.",
        )
    ]
