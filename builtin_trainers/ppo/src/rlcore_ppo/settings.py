"""PPO's ``hyperparameters``: those of the clipped objective, and two of PPO alone."""

from __future__ import annotations

import attrs

from rlcore import setting
from rlcore_torch import ClippedPolicySettings

__all__ = ["PPOSettings"]


@attrs.frozen(kw_only=True)
class PPOSettings(ClippedPolicySettings):
    """How PPO collects and learns. A trainer that derives from PPOTrainer derives its settings from this class."""

    shared_critic: bool = setting(False, "One body for policy and value heads instead of two.")
    value_clip: float | None = setting(
        None, "Clip range of the change of a value; off without it (an rlcore key).", exclusive_minimum=0.0
    )
