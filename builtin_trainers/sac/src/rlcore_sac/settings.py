"""SAC's ``hyperparameters``. Names and defaults are ML-Agents'; the rest is marked as rlcore's own."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rlcore import SettingError, setting
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
    target_critics: int | None = setting(
        None,
        "Critics that each gradient step draws, of which the smallest value counts in its targets; null for all (an "
        "rlcore key).",
        minimum=1,
        maximum=100,
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

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.target_critics is not None and self.target_critics > self.num_critics:
            problem = f"must be at most num_critics ({self.num_critics}), not {self.target_critics}"
            raise SettingError("target_critics", problem, others=("num_critics",))


@attrs.frozen(kw_only=True)
class TQCSettings(SACSettings):
    """How TQC learns: SAC's settings with the paper's critics (Kuznetsov et al. 2020, arXiv:2005.04269)."""

    num_critics: int = setting(5, "Critics, N in the paper (an rlcore key).", minimum=1, maximum=100)
    policy_value: str = setting(
        "mean",
        "The value that the policy maximizes: the mean of all critics, or the smallest (an rlcore key).",
        choices=("min", "mean"),
    )
    num_quantiles: int = setting(25, "Quantiles of each critic, M in the paper.", minimum=1, maximum=10_000)
    dropped_quantiles: int = setting(
        2, "Largest quantiles that targets leave out, for each critic: d in the paper, M - k.", minimum=0
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.target_critics is not None:
            raise SettingError("target_critics", "is not for tqc, whose targets pool the quantiles of all critics")
        if self.dropped_quantiles >= self.num_quantiles:
            problem = f"must be below num_quantiles ({self.num_quantiles}), not {self.dropped_quantiles}"
            raise SettingError("dropped_quantiles", problem, others=("num_quantiles",))
