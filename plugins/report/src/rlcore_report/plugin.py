"""The hooks of rlcore-report. rlcore imports this module at every start, so it must import nothing heavy."""

from __future__ import annotations

from rlcore import CommandSpec, hookimpl


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="report",
            target="rlcore_report.command:report_command",
            summary="Write one HTML page about runs: curves, configurations, time, checkpoints.",
        )
    ]
