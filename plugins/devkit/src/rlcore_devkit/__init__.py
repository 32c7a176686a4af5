"""Tests for authors of plugins: conformance classes to inherit from, and environments with known best returns.

pytest adds the fixtures of :mod:`rlcore_devkit.fixtures` where this distribution is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlcore_devkit.conformance.environment import EnvironmentConformance
from rlcore_devkit.environments import ConstantReward, IdentityEnvironment, RememberedCue, TinyCorridor, tiny_env

if TYPE_CHECKING:
    from rlcore_devkit.conformance.curriculum import CurriculumConformance
    from rlcore_devkit.conformance.distributions import ActionDistributionConformance
    from rlcore_devkit.conformance.encoders import EncoderConformance
    from rlcore_devkit.conformance.exporters import ExporterConformance
    from rlcore_devkit.conformance.memory import MemoryTrainerConformance
    from rlcore_devkit.conformance.offline_trainers import OfflineTrainerConformance
    from rlcore_devkit.conformance.opponents import OpponentConformance
    from rlcore_devkit.conformance.optimizers import OptimizerConformance
    from rlcore_devkit.conformance.plugin import PluginConformance
    from rlcore_devkit.conformance.recording_formats import RecordingFormatConformance
    from rlcore_devkit.conformance.replay_samplers import ReplaySamplerConformance
    from rlcore_devkit.conformance.rewards import RewardProviderConformance
    from rlcore_devkit.conformance.schedules import ScheduleConformance
    from rlcore_devkit.conformance.status import StatusSectionConformance, StatusStoreConformance
    from rlcore_devkit.conformance.trainer import TrainerConformance
    from rlcore_devkit.conformance.writers import StatsWriterConformance

__all__ = [
    "ActionDistributionConformance",
    "ConstantReward",
    "CurriculumConformance",
    "EncoderConformance",
    "EnvironmentConformance",
    "ExporterConformance",
    "IdentityEnvironment",
    "MemoryTrainerConformance",
    "OfflineTrainerConformance",
    "OpponentConformance",
    "OptimizerConformance",
    "PluginConformance",
    "RecordingFormatConformance",
    "RememberedCue",
    "ReplaySamplerConformance",
    "RewardProviderConformance",
    "ScheduleConformance",
    "StatsWriterConformance",
    "StatusSectionConformance",
    "StatusStoreConformance",
    "TinyCorridor",
    "TrainerConformance",
    "tiny_env",
]

# pytest reads this name, because an entry point lists this package; it has no effect without pytest.
pytest_plugins = ["rlcore_devkit.fixtures"]


# These classes need pytest, which users of the environments may not have; some of them need PyTorch too.
_LAZY = {
    "ActionDistributionConformance": "rlcore_devkit.conformance.distributions",
    "CurriculumConformance": "rlcore_devkit.conformance.curriculum",
    "EncoderConformance": "rlcore_devkit.conformance.encoders",
    "ExporterConformance": "rlcore_devkit.conformance.exporters",
    "MemoryTrainerConformance": "rlcore_devkit.conformance.memory",
    "OfflineTrainerConformance": "rlcore_devkit.conformance.offline_trainers",
    "OpponentConformance": "rlcore_devkit.conformance.opponents",
    "OptimizerConformance": "rlcore_devkit.conformance.optimizers",
    "PluginConformance": "rlcore_devkit.conformance.plugin",
    "RecordingFormatConformance": "rlcore_devkit.conformance.recording_formats",
    "ReplaySamplerConformance": "rlcore_devkit.conformance.replay_samplers",
    "RewardProviderConformance": "rlcore_devkit.conformance.rewards",
    "ScheduleConformance": "rlcore_devkit.conformance.schedules",
    "StatsWriterConformance": "rlcore_devkit.conformance.writers",
    "StatusSectionConformance": "rlcore_devkit.conformance.status",
    "StatusStoreConformance": "rlcore_devkit.conformance.status",
    "TrainerConformance": "rlcore_devkit.conformance.trainer",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'rlcore_devkit' has no attribute {name!r}")
