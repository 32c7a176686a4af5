"""Hyperparameters and networks of CrossQ and XQC.

Defaults are those of the authors' code (Bhatt et al. 2024, arXiv:1902.05605; Palenicek et al. 2026, arXiv:2509.25174).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from rlcore import BehaviorSettings, RunConfig, SettingError, setting
from rlcore_torch import NetworkSettings, OffPolicySettings

if TYPE_CHECKING:
    from rlcore import Plugins

MAX_ROWS = 1_000_000_000
MAX_STEPS = 10**15
MAX_ATOMS = 10_000


def _beta1(default: float) -> Any:
    return setting(
        default,
        "Share of the mean gradient that a step of the policy's and the critics' Adam keeps.",
        minimum=0.0,
        maximum=1.0,
    )


def _batch_norm(default: str) -> Any:
    return setting(
        default,
        "Normalize what enters the hidden layers, and the features of each, over the rows of a minibatch: before the "
        "non-linearity (pre) or after it (post).",
        choices=("none", "pre", "post"),
    )


@attrs.frozen(kw_only=True)
class CrossQSettings(OffPolicySettings):
    """How CrossQ learns."""

    batch_statistics: ClassVar[bool] = True

    batch_size: int = setting(256, "Transitions in one minibatch.", minimum=2, maximum=MAX_ROWS)
    buffer_size: int = setting(1_000_000, "Rows of the replay buffer, over all agents.", minimum=2, maximum=MAX_ROWS)
    buffer_init_steps: int = setting(5000, "Agent steps of random actions before the first gradient step.", minimum=0)
    learning_rate: float = setting(1e-3, "Step size of the optimizers.", exclusive_minimum=0.0)
    critic_learning_rate: float | None = setting(
        None, "Step size of the critics' optimizer; null for learning_rate.", exclusive_minimum=0.0
    )
    temperature_learning_rate: float | None = setting(
        None, "Step size of the temperature's optimizer; null for learning_rate.", exclusive_minimum=0.0
    )
    beta1: float = _beta1(0.5)
    policy_delay: int = setting(
        3, "Gradient steps of the critics for each of the policy and the temperature.", minimum=1
    )
    init_entcoef: float = setting(1.0, "Temperature at the start: the weight of entropy.", exclusive_minimum=0.0)
    target_entropy: float = setting(-1.0, "Target entropy, in nats for each part of an action.")


@attrs.frozen(kw_only=True)
class CrossQNetworkSettings(NetworkSettings):
    """The networks of CrossQ: batch renormalization after each non-linearity, as the authors' code has it."""

    batch_norm: str = _batch_norm("post")
    batch_renorm_after: int | None = setting(
        100_000,
        "Minibatches of a network after which batch_norm corrects them to its running statistics (batch "
        "renormalization); null for never.",
        minimum=0,
        maximum=MAX_STEPS,
    )


@attrs.frozen(kw_only=True)
class XQCSettings(CrossQSettings):
    """How XQC learns: what differs from CrossQ, and what it adds."""

    learning_rate: float = setting(3e-4, "Step size of the optimizers.", exclusive_minimum=0.0)
    learning_rate_schedule: str = setting("linear", "Schedule of learning_rate over max_steps.", record="schedule")
    final_learning_rate: float = setting(
        3e-5, "Value that the schedule lowers learning_rate to (an rlcore key).", minimum=0.0
    )
    beta1: float = _beta1(0.9)
    steps_per_update: float = setting(
        0.5, "Agent steps for each gradient step; any positive number.", exclusive_minimum=0.0
    )
    normalize_rewards: bool = setting(
        True, "Divide the environment's reward by the standard deviation of discounted returns so far (an rlcore key)."
    )
    normalize_rewards_clip: float | None = setting(
        None, "Largest absolute value of a normalized reward; null: any (an rlcore key).", exclusive_minimum=0.0
    )
    init_entcoef: float = setting(0.01, "Temperature at the start: the weight of entropy.", exclusive_minimum=0.0)
    target_entropy: float = setting(-0.5, "Target entropy, in nats for each part of an action.")
    tau: float = setting(
        0.005,
        "Share of the critics that enters the target critics in a gradient step.",
        exclusive_minimum=0.0,
        maximum=1.0,
    )
    num_atoms: int = setting(101, "Atoms of each value: returns that have a probability.", minimum=2, maximum=MAX_ATOMS)
    v_min: float = setting(-5.0, "Least atom, in discounted return with strength.")
    v_max: float = setting(5.0, "Greatest atom, in discounted return with strength.")

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.v_min >= self.v_max:
            problem = f"must be less than v_max ({self.v_max:g}), not {self.v_min:g}"
            raise SettingError("v_min", problem, others=("v_max",))

    def problems(
        self, behavior: BehaviorSettings, config: RunConfig, plugins: Plugins
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what of this block does not fit the rest of the configuration."""
        for key, problem in super().problems(behavior, config, plugins):
            if key != ("normalize_rewards",):  # a default, which changes nothing without the environment's reward
                yield key, problem


@attrs.frozen(kw_only=True)
class XQCNetworkSettings(NetworkSettings):
    """The networks of XQC: batch normalization before each non-linearity, without renormalization."""

    batch_norm: str = _batch_norm("pre")
