"""PPO's ``hyperparameters``. Names and defaults are ML-Agents' where it has them."""

from __future__ import annotations

from operator import attrgetter

import attrs

from rlcore import setting
from rlcore_torch import OnPolicySettings

__all__ = ["PPOSettings"]


@attrs.frozen(kw_only=True)
class PPOSettings(OnPolicySettings):
    """How PPO collects and learns. A trainer that derives from PPOTrainer derives its settings from this class."""

    beta: float = setting(
        5e-3, "Weight of the entropy bonus; beta_schedule says how it falls to final_beta.", minimum=0.0
    )
    final_beta: float = setting(
        1e-5,
        "Value that beta_schedule falls to, or beta if that is smaller (an rlcore key).",
        minimum=0.0,
    )
    beta_schedule: str = setting(
        attrs.Factory(attrgetter("learning_rate_schedule"), takes_self=True),
        "How beta falls; without it, as learning_rate_schedule, which is linear by default.",
        record="schedule",
    )
    epsilon: float = setting(
        0.2,
        "Clip range of the probability ratio; epsilon_schedule says how it falls to final_epsilon.",
        exclusive_minimum=0.0,
    )
    final_epsilon: float = setting(
        0.1,
        "Value that epsilon_schedule falls to, or epsilon if that is smaller (an rlcore key).",
        minimum=0.0,
    )
    epsilon_schedule: str = setting(
        attrs.Factory(attrgetter("learning_rate_schedule"), takes_self=True),
        "How epsilon falls; without it, as learning_rate_schedule, which is linear by default.",
        record="schedule",
    )
    initial_log_std: float = setting(
        0.0,
        "Logarithm of the standard deviation continuous actions start with, where 1 is half their range "
        "(an rlcore key). ML-Agents starts with a third of the default's deviation: -1.0986.",
    )
    value_coefficient: float = setting(0.5, "Weight of the value loss of each reward (an rlcore key).", minimum=0.0)
    shared_critic: bool = setting(False, "One body for policy and value heads instead of two.")
    value_clip: float | None = setting(
        None, "Clip range of the change of a value; off without it (an rlcore key).", exclusive_minimum=0.0
    )
