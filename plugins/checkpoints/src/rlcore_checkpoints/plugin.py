"""The hooks of rlcore-checkpoints. rlcore imports this module at every start, so it must import nothing heavy."""

from __future__ import annotations

from rlcore import CommandSpec, hookimpl


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="checkpoints",
            target="rlcore_checkpoints.command:checkpoints_command",
            summary="List, verify and prune the checkpoints of a run.",
        )
    ]
