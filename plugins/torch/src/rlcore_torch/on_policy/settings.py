"""The keys that PPO and POCA have alike. Names and defaults are ML-Agents' where it has them."""

from __future__ import annotations

from operator import attrgetter

import attrs

from rlcore import setting
from rlcore_torch.settings import OnPolicySettings

__all__ = ["ClippedPolicySettings"]


@attrs.frozen(kw_only=True)
class ClippedPolicySettings(OnPolicySettings):
    """``hyperparameters`` of a trainer with PPO's clipped objective (Schulman et al. 2017, eqs. 7 and 9); a base class.

    ML-Agents' files have one set of keys for PPO and for POCA.
    """

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
