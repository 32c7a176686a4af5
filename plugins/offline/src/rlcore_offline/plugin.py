"""The hooks of rlcore-offline. Imported whenever rlcore starts, so Minari and torch are imported with the targets."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rlcore import TrainerSpec, hookimpl
from rlcore_offline.records import RecordingFormatSpec

if TYPE_CHECKING:
    from pluggy import PluginManager

    from rlcore import Plugins, Recordings


@hookimpl
def rlcore_addhooks(manager: PluginManager) -> None:
    from rlcore_offline import hookspecs

    manager.add_hookspecs(hookspecs)


@hookimpl
def rlcore_create_recordings(plugins: Plugins) -> Recordings:
    made: Recordings = import_module("rlcore_offline.recordings").InstalledRecordings(plugins)
    return made


@hookimpl
def rlcore_recording_formats() -> list[RecordingFormatSpec]:
    return [
        RecordingFormatSpec(
            name="minari",
            target="rlcore_offline.minari_format:MinariFormat",
            summary="datasets of the Minari library, D4RL's among them",
        ),
        RecordingFormatSpec(
            name="mlagents",
            target="rlcore_offline.mlagents_format:MLAgentsFormat",
            summary="demonstrations of Unity ML-Agents (.demo)",
            on_request=True,
        ),
    ]


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="bc",
            target="rlcore_offline.bc:BCTrainer",
            settings="rlcore_offline.settings:BCSettings",
            network="rlcore_torch:NetworkSettings",
            summary="behavioral cloning: imitates recorded agents by maximum likelihood",
            offline=True,
            action_distributions=True,
            memory=True,
        ),
        TrainerSpec(
            name="iql",
            target="rlcore_offline.iql:IQLTrainer",
            settings="rlcore_offline.settings:IQLSettings",
            network="rlcore_torch:NetworkSettings",
            summary="implicit Q-learning: learns from recorded agents to do better than they did",
            offline=True,
            action_distributions=True,
            memory=True,
            critic=True,
        ),
    ]
