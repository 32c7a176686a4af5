"""The hooks of rlcore-devkit: the commands ``rlcore plugins new`` and ``rlcore schema``."""

from __future__ import annotations

from rlcore import CommandSpec, hookimpl


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="plugins new",
            target="rlcore_devkit.scaffold.command:new_command",
            summary="Write a new plugin package, tests included.",
        ),
        CommandSpec(
            name="schema",
            target="rlcore_devkit.schema:schema_command",
            summary="Print the JSON Schema of configuration files, for editors.",
        ),
    ]
