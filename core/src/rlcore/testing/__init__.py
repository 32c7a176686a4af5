"""Tests for authors of plugins: conformance classes to inherit from, and environments with known best returns.

In ``conftest.py``, ``pytest_plugins = ["rlcore.testing"]`` adds the fixtures of :mod:`rlcore.testing.fixtures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlcore.testing.conformance.environment import EnvironmentConformance
from rlcore.testing.environments import ConstantReward, IdentityEnvironment, RememberedCue, TinyCorridor, tiny_env

if TYPE_CHECKING:
    from rlcore.testing.conformance.curriculum import CurriculumConformance
    from rlcore.testing.conformance.distributions import ActionDistributionConformance
    from rlcore.testing.conformance.encoders import EncoderConformance
    from rlcore.testing.conformance.exporters import ExporterConformance
    from rlcore.testing.conformance.memory import MemoryTrainerConformance
    from rlcore.testing.conformance.offline_trainers import OfflineTrainerConformance
    from rlcore.testing.conformance.opponents import OpponentConformance
    from rlcore.testing.conformance.optimizers import OptimizerConformance
    from rlcore.testing.conformance.plugin import PluginConformance
    from rlcore.testing.conformance.recording_formats import RecordingFormatConformance
    from rlcore.testing.conformance.replay_samplers import ReplaySamplerConformance
    from rlcore.testing.conformance.rewards import RewardProviderConformance
    from rlcore.testing.conformance.schedules import ScheduleConformance
    from rlcore.testing.conformance.status import StatusSectionConformance, StatusStoreConformance
    from rlcore.testing.conformance.trainer import TrainerConformance
    from rlcore.testing.conformance.writers import StatsWriterConformance

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

# pytest reads this name if a conftest.py lists this package; it has no effect without pytest.
pytest_plugins = ["rlcore.testing.fixtures"]


# These classes need pytest, which users of the environments may not have; some of them need PyTorch too.
_LAZY = {
    "ActionDistributionConformance": "rlcore.testing.conformance.distributions",
    "CurriculumConformance": "rlcore.testing.conformance.curriculum",
    "EncoderConformance": "rlcore.testing.conformance.encoders",
    "ExporterConformance": "rlcore.testing.conformance.exporters",
    "MemoryTrainerConformance": "rlcore.testing.conformance.memory",
    "OfflineTrainerConformance": "rlcore.testing.conformance.offline_trainers",
    "OpponentConformance": "rlcore.testing.conformance.opponents",
    "OptimizerConformance": "rlcore.testing.conformance.optimizers",
    "PluginConformance": "rlcore.testing.conformance.plugin",
    "RecordingFormatConformance": "rlcore.testing.conformance.recording_formats",
    "ReplaySamplerConformance": "rlcore.testing.conformance.replay_samplers",
    "RewardProviderConformance": "rlcore.testing.conformance.rewards",
    "ScheduleConformance": "rlcore.testing.conformance.schedules",
    "StatsWriterConformance": "rlcore.testing.conformance.writers",
    "StatusSectionConformance": "rlcore.testing.conformance.status",
    "StatusStoreConformance": "rlcore.testing.conformance.status",
    "TrainerConformance": "rlcore.testing.conformance.trainer",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'rlcore.testing' has no attribute {name!r}")
