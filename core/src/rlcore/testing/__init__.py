"""Tests for authors of plugins: conformance classes to inherit from, and environments with known best returns.

In ``conftest.py``, ``pytest_plugins = ["rlcore.testing"]`` adds the fixtures of :mod:`rlcore.testing.fixtures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlcore.testing.conformance.environment import EnvironmentConformance
from rlcore.testing.environments import ConstantReward, IdentityEnvironment, TinyCorridor, tiny_env

if TYPE_CHECKING:
    from rlcore.testing.conformance.curriculum import CurriculumConformance
    from rlcore.testing.conformance.distributions import ActionDistributionConformance
    from rlcore.testing.conformance.exporters import ExporterConformance
    from rlcore.testing.conformance.plugin import PluginConformance
    from rlcore.testing.conformance.replay_samplers import ReplaySamplerConformance
    from rlcore.testing.conformance.rewards import RewardProviderConformance
    from rlcore.testing.conformance.trainer import TrainerConformance
    from rlcore.testing.conformance.writers import StatsWriterConformance

__all__ = [
    "ActionDistributionConformance",
    "ConstantReward",
    "CurriculumConformance",
    "EnvironmentConformance",
    "ExporterConformance",
    "IdentityEnvironment",
    "PluginConformance",
    "ReplaySamplerConformance",
    "RewardProviderConformance",
    "StatsWriterConformance",
    "TinyCorridor",
    "TrainerConformance",
    "tiny_env",
]

# pytest reads this name if a conftest.py lists this package; it has no effect without pytest.
pytest_plugins = ["rlcore.testing.fixtures"]


# These classes need pytest, which users of the environments may not have; that of distributions needs PyTorch too.
_LAZY = {
    "ActionDistributionConformance": "rlcore.testing.conformance.distributions",
    "CurriculumConformance": "rlcore.testing.conformance.curriculum",
    "ExporterConformance": "rlcore.testing.conformance.exporters",
    "PluginConformance": "rlcore.testing.conformance.plugin",
    "ReplaySamplerConformance": "rlcore.testing.conformance.replay_samplers",
    "RewardProviderConformance": "rlcore.testing.conformance.rewards",
    "StatsWriterConformance": "rlcore.testing.conformance.writers",
    "TrainerConformance": "rlcore.testing.conformance.trainer",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'rlcore.testing' has no attribute {name!r}")
