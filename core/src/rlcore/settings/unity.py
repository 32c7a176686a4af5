"""ML-Agents' blocks about Unity: ``env_settings``, which also has the seed, and ``engine_settings``."""

from __future__ import annotations

import attrs

from rlcore.settings.fields import setting
from rlcore.settings.limits import MAX_RESTARTS, MAX_SECONDS


@attrs.frozen(kw_only=True)
class EnvSettings:
    """ML-Agents' ``env_settings``: the seed, and settings of Unity players. A file may also have ``num_envs`` here, an
    alias of ``environment.num_envs``.
    """

    env_path: str | None = setting(None, "Path of the Unity player.", not_supported="Unity environments")
    env_args: list[str] | None = setting(None, "Arguments of the Unity player.", not_supported="Unity environments")
    base_port: int = setting(
        5005, "Port of the first Unity player.", minimum=0, maximum=65535, not_supported="Unity environments"
    )
    num_areas: int = setting(1, "Training areas in a Unity scene.", minimum=1, not_supported="Unity environments")
    timeout_wait: int = setting(
        60, "Seconds that a worker may take to start; 0 for no limit.", minimum=0, maximum=MAX_SECONDS
    )
    seed: int = setting(-1, "Seed of the run; -1 draws a seed and records it.", minimum=-1, maximum=2**31 - 1)
    max_lifetime_restarts: int = setting(
        10, "Restarts of one worker; -1 for no limit.", minimum=-1, maximum=MAX_RESTARTS
    )
    restarts_rate_limit_n: int = setting(
        1, "Restarts of one worker within the period; -1 for no limit.", minimum=-1, maximum=MAX_RESTARTS
    )
    restarts_rate_limit_period_s: int = setting(
        60, "The period of restarts_rate_limit_n, in seconds.", minimum=1, maximum=MAX_SECONDS
    )


@attrs.frozen(kw_only=True)
class EngineSettings:
    """ML-Agents' ``engine_settings``: settings of Unity players."""

    width: int = setting(84, "Window width in pixels.", minimum=1, not_supported="Unity environments")
    height: int = setting(84, "Window height in pixels.", minimum=1, not_supported="Unity environments")
    quality_level: int = setting(5, "Unity quality level.", minimum=0, not_supported="Unity environments")
    time_scale: float = setting(20, "Unity time scale.", exclusive_minimum=0, not_supported="Unity environments")
    target_frame_rate: int = setting(
        -1, "Unity target frame rate; -1 for none.", minimum=-1, not_supported="Unity environments"
    )
    capture_frame_rate: int = setting(60, "Unity capture frame rate.", minimum=0, not_supported="Unity environments")
    no_graphics: bool = setting(False, "Run the player without graphics.", not_supported="Unity environments")
    no_graphics_monitor: bool = setting(
        False, "Show graphics only in the first player.", not_supported="Unity environments"
    )
