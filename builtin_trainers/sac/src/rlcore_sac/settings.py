"""SAC's ``hyperparameters``. Names and defaults are ML-Agents'; the rest is marked as rlcore's own."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rlcore import setting
from rlcore_torch import OffPolicySettings

MAX_DELAY = 100_000


@attrs.frozen(kw_only=True)
class SACSettings(OffPolicySettings):
    """How SAC learns."""

    needs_log_prob_of_draws: ClassVar[bool] = True

    critic_learning_rate: float | None = setting(
        None, "Step size of the critics' optimizers; null for learning_rate (an rlcore key).", exclusive_minimum=0.0
    )
    temperature_learning_rate: float | None = setting(
        None, "Step size of the temperature's optimizer; null for learning_rate (an rlcore key).", exclusive_minimum=0.0
    )
    tau: float = setting(
        0.005,
        "Share of the critics that enters the target critics in a gradient step.",
        exclusive_minimum=0.0,
        maximum=1.0,
    )
    num_critics: int = setting(
        2, "Critics, of which the smallest value counts in targets (an rlcore key).", minimum=1, maximum=100
    )
    policy_value: str = setting(
        "min",
        "The value that the policy maximizes: the smallest of the critics, or their mean (an rlcore key).",
        choices=("min", "mean"),
    )
    policy_delay: int = setting(
        1,
        "Gradient steps of the critics for each of the policy and of the temperature (an rlcore key).",
        minimum=1,
        maximum=MAX_DELAY,
    )
    init_entcoef: float = setting(1.0, "Temperature at the start: the weight of entropy.", exclusive_minimum=0.0)
    learn_entcoef: bool = setting(True, "Whether the temperature follows the target entropy (an rlcore key).")
    continuous_target_entropy: float = setting(
        -1.0, "Target entropy of continuous actions, in nats for each part (an rlcore key)."
    )
    discrete_target_entropy: float = setting(
        0.2,
        "Target entropy of a discrete branch, as a share of that of choosing among the allowed options at random "
        "(an rlcore key).",
        minimum=0.0,
        maximum=1.0,
    )
