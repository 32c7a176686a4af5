"""The environment block of the type ``godot``."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from rlcore import EnvironmentSettings, SettingError, setting

EDITOR_PORT = 11_008  # where a project of Godot RL Agents looks for a trainer
LARGEST_PORT = 65_535
MAX_SECONDS = 10_000_000
OWN_ARGUMENTS = {
    "--fixed-fps": "physics_ticks",
    "--port": "port",
    "--env_seed": "env_settings.seed",
    "--speedup": "speedup",
    "--action_repeat": "action_repeat",
    "--path": "project",
}
"""Arguments of the engine that follow from other keys."""


def _argument_problem(value: Any) -> str | None:
    name = value.partition("=")[0] if isinstance(value, str) else None
    return f"{name} follows from {OWN_ARGUMENTS[name]}; set that instead" if name in OWN_ARGUMENTS else None


@attrs.frozen(kw_only=True)
class GodotSettings(EnvironmentSettings):
    """The environment block of the type godot. ``num_envs`` is the number of engines that play side by side."""

    executable: str | None = setting(
        None, "The exported game; null, without project too, waits until Play is pressed in Godot's editor."
    )
    project: str | None = setting(None, "Folder of a project, with its project.godot, that the engine plays.")
    engine: str | None = setting(
        None, "Program that plays project; by default the first of godot4, godot, godot3-server and others on the PATH."
    )
    args: list[str] = setting(
        factory=list, description="Arguments of the game, after those from other keys.", check=_argument_problem
    )
    show_window: bool = setting(False, "Show the game; cameras of Godot 4 see nothing without it.")
    physics_ticks: int | None = setting(
        None,
        "Physics ticks in a second of game time; by default those in project.godot, or 60. The engine runs with a "
        "--fixed-fps of this number times speedup: each frame has one tick, and none waits for the clock.",
        minimum=1,
        maximum=100_000,
    )
    speedup: int = setting(
        1,
        "What the game's --speedup is: ticks and time scale times this number. An engine that is started here is as "
        "fast as it can be with 1.",
        minimum=1,
        maximum=1_000,
    )
    action_repeat: int | None = setting(
        None,
        "Physics ticks for which an action is repeated; by default the number in the project.",
        minimum=1,
        maximum=10_000,
    )
    port: int | None = setting(
        None,
        "Port of the first game, 1 more for each following one; by default free ones, and 11008 for the editor.",
        minimum=1,
        maximum=LARGEST_PORT,
    )
    timeout: float | None = setting(
        60.0,
        "Seconds that a game may take from one decision to the next; null for no limit. How long its start may take is "
        "env_settings.timeout_wait.",
        exclusive_minimum=0,
        maximum=MAX_SECONDS,
    )
    max_message_mb: int = setting(64, "Megabytes that one message of a game may have.", minimum=1, maximum=1_024)
    done_means: Literal["terminated", "truncated"] = setting(
        "terminated",
        "What an end of an episode means of which the game says nothing more: terminated by the task's own rule, or "
        "truncated by a time limit.",
    )
    repeatable: bool = setting(
        False,
        "The game draws random numbers from --env_seed alone and reads no clock. Every reset then starts the engine "
        "again with the seed of the episode, so that a resumed run equals one that was never stopped.",
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.executable is not None and self.project is not None:
            raise SettingError("project", "is a second game beside executable; leave one out", others=("executable",))
        if self.engine is not None and self.project is None:
            raise SettingError("engine", "plays a project; give project: FOLDER", others=("project",))
        if self.editor:
            if self.num_envs not in (None, 1):
                raise SettingError("num_envs", "the editor plays one game; give executable or project for several")
            if self.repeatable:
                raise SettingError("repeatable", "needs a game that is started here; give executable or project")
        if self.port is not None and self.port + (self.num_envs or 1) - 1 > LARGEST_PORT:
            raise SettingError("port", f"has no place for {self.num_envs} ports below {LARGEST_PORT + 1}")

    @property
    def editor(self) -> bool:
        """Whether the game is started in Godot's editor."""
        return self.executable is None and self.project is None
