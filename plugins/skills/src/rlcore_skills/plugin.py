"""The hooks of rlcore-skills. rlcore imports this module at every start, so it imports nothing heavy."""

from __future__ import annotations

from rlcore import CommandSpec, hookimpl


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="skills",
            target="rlcore_skills.command:skills_command",
            summary="List, show and install the skills for coding agents.",
        )
    ]
