"""The hooks of rlcore-devkit: its commands."""

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
            name="plugins doctor",
            target="rlcore_devkit.doctor:doctor_command",
            summary="Check plugins, and say how to fix them.",
        ),
        CommandSpec(
            name="plugins hooks",
            target="rlcore_devkit.hook_texts:hooks_command",
            summary="Show what each hook is for.",
        ),
        CommandSpec(
            name="schema",
            target="rlcore_devkit.schema:schema_command",
            summary="Print the JSON Schema of configuration files, for editors.",
        ),
    ]
