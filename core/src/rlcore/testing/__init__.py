"""What authors of plugins test with: conformance classes to inherit, and environments with known best returns."""

from __future__ import annotations

from rlcore.testing.environment import EnvironmentConformance
from rlcore.testing.environments import ConstantReward, IdentityEnvironment, TinyCorridor, tiny_env

__all__ = ["ConstantReward", "EnvironmentConformance", "IdentityEnvironment", "TinyCorridor", "tiny_env"]
