"""The hooks of rlcore-migrate. rlcore imports this module at every start, and the hints only after a refusal."""

from __future__ import annotations

from rlcore import CommandSpec, KeyHints, hookimpl


@hookimpl
def rlcore_config_sections() -> list[KeyHints]:
    return [
        KeyHints(
            name="migrate",
            target="rlcore_migrate.hints:Hints",
            rewrites="rlcore_migrate.mlagents_keys:rewrite",
            accepts="rlcore_migrate.mlagents_keys:ACCEPTED",
            summary="what to write instead of keys of other frameworks and of old files of ML-Agents",
        )
    ]


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="convert",
            target="rlcore_migrate.command:convert_command",
            summary="Write a configuration from a file of RL Zoo or of ML-Agents before 1.1.",
        )
    ]
