"""The hooks of the plugin ``checkpoints``. rlcore imports this module at every start, so it imports nothing heavy."""

from __future__ import annotations

from rlcore import CommandSpec, hookimpl


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="checkpoints",
            target="rlcore_study.checkpoints.command:checkpoints_command",
            summary="List, verify and prune the checkpoints of a run.",
        )
    ]
