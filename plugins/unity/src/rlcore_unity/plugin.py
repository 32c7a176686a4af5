"""The hooks of rlcore-unity. rlcore imports this module at every start, so it must not import protobuf."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore import CommandSpec, ConfigError, EnvironmentSpec, RunOptionSpec, hookimpl

if TYPE_CHECKING:
    from pluggy import PluginManager

    from rlcore import RunConfig, RunContext, StatSummary

log = logging.getLogger("rlcore.plugin.unity")


@hookimpl
def rlcore_addhooks(manager: PluginManager) -> None:
    from rlcore_unity import hookspecs

    manager.add_hookspecs(hookspecs)


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="unity",
            target="rlcore_unity.create:make_environment",
            block="rlcore_unity.settings:UnitySettings",
            libraries=("protobuf",),
            summary="a player that Unity built with ML-Agents, or Unity's editor",
        )
    ]


@hookimpl
def rlcore_commands() -> list[CommandSpec | RunOptionSpec]:
    return [  # written out, because `rlcore run --help` reads them without importing this module
        RunOptionSpec(name="base-port", sets="environment.base_port", summary="Port of the first Unity player."),
        RunOptionSpec(
            name="env-args",
            sets="environment.args",
            summary="Arguments of the Unity player: the rest of the line, or one text in quotes.",
            rest=True,
        ),
        RunOptionSpec(name="width", sets="environment.width", summary="Width of the Unity player's window."),
        RunOptionSpec(name="height", sets="environment.height", summary="Height of the Unity player's window."),
        RunOptionSpec(
            name="quality-level", sets="environment.quality_level", summary="Quality level of the Unity player."
        ),
        RunOptionSpec(
            name="time-scale",
            sets="environment.time_scale",
            summary="How much faster than real time the Unity player runs.",
        ),
        RunOptionSpec(
            name="target-frame-rate",
            sets="environment.target_frame_rate",
            summary="Frames that the Unity player renders in a second.",
        ),
        RunOptionSpec(
            name="capture-frame-rate",
            sets="environment.capture_frame_rate",
            summary="Frames of a second of the Unity player's game time.",
        ),
        RunOptionSpec(
            name="num-areas", sets="environment.num_areas", summary="Training areas in the scene of the Unity player."
        ),
        RunOptionSpec(
            name="no-graphics",
            sets="environment.no_graphics",
            summary="Start Unity players without graphics.",
            flag=True,
        ),
        RunOptionSpec(
            name="no-graphics-monitor",
            sets="environment.no_graphics_monitor",
            summary="Start Unity players without graphics, but for the first.",
            flag=True,
        ),
        RunOptionSpec(
            name="timeout-wait", sets="env_settings.timeout_wait", summary="Seconds that a player may take to start."
        ),
    ]


@hookimpl
def rlcore_modify_config(document: dict[str, Any]) -> None:
    from rlcore_unity.mlagents_keys import translate

    translate(document)


@hookimpl
def rlcore_check_config(config: RunConfig) -> str | None:
    environment = config.environment
    if environment is None or not _is_unity(environment.type):
        return None
    if environment.workers is not None:
        log.warning(
            "environment.workers: statistics that players send in workers are not in the summaries, and neither is how "
            "often players were started again; num_envs alone plays several players side by side"
        )
    return _unusable_player(getattr(environment, "executable", None))


def _unusable_player(executable: str | None) -> str | None:
    """Say what is wrong with a player here. A configuration may be checked on another machine than that of the run."""
    from rlcore_unity.executable import find_player

    try:
        if executable is not None:
            find_player(Path.cwd() / Path(executable).expanduser())
    except ConfigError as error:
        return f"environment.executable: {error.message}"
    return None


def _is_unity(kind: str) -> bool:
    return kind.rpartition("/")[2] == "unity"


@hookimpl
def rlcore_process_summary(run: RunContext, behavior: str) -> Mapping[str, StatSummary | float] | None:
    if run.config.environment is None or not _is_unity(run.config.environment.type):
        return None
    from rlcore_unity.create import TRAINED_IN

    environment = run.stash.get(TRAINED_IN)
    return None if environment is None else environment.statistics.summaries(behavior)
