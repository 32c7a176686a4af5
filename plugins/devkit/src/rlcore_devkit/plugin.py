"""The hooks of rlcore-devkit: the command ``rlcore plugins new``."""

from __future__ import annotations

from rlcore import CommandSpec, hookimpl


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="plugins new",
            target="rlcore_devkit.scaffold.command:new_command",
            summary="Write a new plugin package, tests included.",
        )
    ]
