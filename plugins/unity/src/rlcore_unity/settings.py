"""The environment block of the type ``unity``."""

from __future__ import annotations

import re
from typing import Any

import attrs

from rlcore import EnvironmentSettings, SettingError, is_plain_name, setting

EDITOR_PORT = 5004  # where Unity's editor looks for a trainer
LARGEST_PORT = 65_535
MAX_AGENTS = 100_000
MAX_SIZE = 16_384  # pixels of a window
MAX_SECONDS = 10_000_000


def _version_problem(value: Any) -> str | None:
    if isinstance(value, str) and not re.fullmatch(r"\d{1,4}\.\d{1,4}\.\d{1,4}(\.\w{1,16})?", value):
        return "must be a version such as 1.1.0"
    return None


def _agents_problem(value: Any) -> str | None:
    counts = value.values() if hasattr(value, "values") else [value]
    if any(isinstance(count, int) and not 1 <= count <= MAX_AGENTS for count in counts):
        return f"must be from 1 to {MAX_AGENTS}, for all behaviors or for each by its name"
    return None


@attrs.frozen(kw_only=True)
class UnitySettings(EnvironmentSettings):
    """The environment block of the type unity. ``num_envs`` is the number of players.

    ML-Agents' keys in ``env_settings`` and ``engine_settings`` have the same names, but for ``env_path``
    (``executable``) and ``env_args`` (``args``). Where both are given, the key in ``environment`` counts.
    """

    executable: str | None = setting(
        None, "The player: the file that Unity built; null waits until Play is pressed in Unity's editor."
    )
    args: list[str] = setting(factory=list, description="Arguments of the player, after those that ML-Agents gives it.")
    no_graphics: bool = setting(False, "Start players without graphics; cameras then see nothing.")
    no_graphics_monitor: bool = setting(False, "Start all players but the first without graphics.")
    time_scale: float = setting(20.0, "How much faster than real time the game runs.", minimum=0.0, maximum=100.0)
    width: int = setting(84, "Width of a player's window in pixels.", minimum=1, maximum=MAX_SIZE)
    height: int = setting(84, "Height of a player's window in pixels.", minimum=1, maximum=MAX_SIZE)
    quality_level: int = setting(5, "Quality level of the player's graphics.", minimum=0, maximum=100)
    target_frame_rate: int = setting(
        -1, "Frames that the player renders in a second; -1 for as many as it can.", minimum=-1, maximum=100_000
    )
    capture_frame_rate: int = setting(
        60, "Frames of a second of game time, however long they take; 0 for real time.", minimum=0, maximum=100_000
    )
    timeout: float | None = setting(
        60.0,
        "Seconds that a player may take from one decision to the next; null for no limit. How long its start may take "
        "is env_settings.timeout_wait.",
        exclusive_minimum=0,
        maximum=MAX_SECONDS,
    )
    seed: int | None = setting(
        None,
        "Seed of the first player, 1 more for each following one; by default, the run's.",
        minimum=0,
        maximum=2**31 - 1,
    )
    num_areas: int = setting(1, "Training areas that the player makes in its scene.", minimum=1, maximum=MAX_AGENTS)
    agents: int | dict[str, int] | None = setting(
        None,
        "Places for agents of each behavior and team in one player: the largest number that is there at once, for all "
        "behaviors or for each by its name. By default, as many as there are in the first decisions.",
        check=_agents_problem,
    )
    base_port: int | None = setting(
        None,
        "Port of the first player, 1 more for each following one; by default a free one, and 5004 for the editor.",
        minimum=1,
        maximum=LARGEST_PORT,
    )
    address: str = setting(
        "127.0.0.1", "Address to listen at. Any other than this one lets other machines control the training."
    )
    log_folder: str | None = setting(None, "Folder for the logs of players; by default run_logs of the run.")
    announced_version: str = setting(
        "1.1.0",
        "Version of ML-Agents' Python package that players are told: 0.25.0 for players of package 1.x, which refuse "
        "later ones.",
        check=_version_problem,
        foreign=is_plain_name,
    )
    max_message_mb: int = setting(256, "Megabytes that one message of a player may have.", minimum=1, maximum=1_024)
    side_channels: list[str] = setting(
        factory=list, description="Side channels of plugins, beside those that every player has, by their names."
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.executable is None and self.num_envs not in (None, 1):
            raise SettingError("num_envs", "the editor plays one game; give executable for several players")
        if self.base_port is not None and self.base_port + (self.num_envs or 1) - 1 > LARGEST_PORT:
            raise SettingError("base_port", f"has no place for {self.num_envs} ports below {LARGEST_PORT + 1}")
