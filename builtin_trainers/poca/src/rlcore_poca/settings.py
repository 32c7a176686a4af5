"""POCA's ``hyperparameters``: those of PPO without ``shared_critic``, as in ML-Agents, and without ``value_clip``."""

from __future__ import annotations

import attrs

from rlcore_torch import ClippedPolicySettings

__all__ = ["POCASettings"]


@attrs.frozen(kw_only=True)
class POCASettings(ClippedPolicySettings):
    """How POCA collects and learns. A trainer that derives from POCATrainer derives its settings from this class."""
