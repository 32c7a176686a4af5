"""The hooks of rlcore-unity. rlcore imports this module at every start, so it must not import protobuf."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlcore import CommandSpec, EnvironmentSpec, RunOptionSpec, hookimpl

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
    values = {
        "base-port": ("base_port", "Port of the first Unity player."),
        "env-args": ("args", "Arguments of the Unity player: one text in quotes, or a list in brackets."),
        "width": ("width", "Width of the Unity player's window."),
        "height": ("height", "Height of the Unity player's window."),
        "quality-level": ("quality_level", "Quality level of the Unity player."),
        "time-scale": ("time_scale", "How much faster than real time the Unity player runs."),
        "target-frame-rate": ("target_frame_rate", "Frames that the Unity player renders in a second."),
        "capture-frame-rate": ("capture_frame_rate", "Frames of a second of the Unity player's game time."),
        "num-areas": ("num_areas", "Training areas in the scene of the Unity player."),
    }
    flags = {
        "no-graphics": ("no_graphics", "Start Unity players without graphics."),
        "no-graphics-monitor": ("no_graphics_monitor", "Start Unity players without graphics, but for the first."),
    }
    return [
        *(RunOptionSpec(name=name, sets=f"environment.{key}", summary=text) for name, (key, text) in values.items()),
        *(
            RunOptionSpec(name=name, sets=f"environment.{key}", summary=text, flag=True)
            for name, (key, text) in flags.items()
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
def rlcore_check_config(config: RunConfig) -> None:
    environment = config.environment
    if environment is not None and _is_unity(environment.type) and environment.workers is not None:
        log.warning(
            "environment.workers: statistics that players send in workers are not in the summaries, and neither is how "
            "often players were started again; num_envs alone plays several players side by side"
        )


def _is_unity(kind: str) -> bool:
    return kind.rpartition("/")[2] == "unity"


@hookimpl
def rlcore_process_summary(run: RunContext, behavior: str) -> Mapping[str, StatSummary | float] | None:
    if run.config.environment is None or not _is_unity(run.config.environment.type):
        return None
    from rlcore_unity.create import TRAINED_IN

    environment = run.stash.get(TRAINED_IN)
    return None if environment is None else environment.statistics.summaries(behavior)
