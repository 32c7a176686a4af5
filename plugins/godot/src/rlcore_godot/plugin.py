"""The hooks of rlcore-godot."""

from __future__ import annotations

from rlcore import EnvironmentSpec, hookimpl


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="godot",
            target="rlcore_godot.environment:make_environment",
            block="rlcore_godot.settings:GodotSettings",
            summary="games of the Godot engine with the plugin Godot RL Agents, or the game in Godot's editor",
        )
    ]
