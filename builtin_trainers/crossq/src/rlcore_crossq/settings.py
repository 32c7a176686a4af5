"""CrossQ's hyperparameters and networks. Defaults are those of the authors' code (Bhatt et al. 2024, 1902.05605)."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rlcore import setting
from rlcore_torch import NetworkSettings, OffPolicySettings

MAX_ROWS = 1_000_000_000
MAX_STEPS = 10**15


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
    beta1: float = setting(
        0.5,
        "Share of the mean gradient that a step of the policy's and the critics' Adam keeps.",
        minimum=0.0,
        maximum=1.0,
    )
    policy_delay: int = setting(
        3, "Gradient steps of the critics for each of the policy and the temperature.", minimum=1
    )
    init_entcoef: float = setting(1.0, "Temperature at the start: the weight of entropy.", exclusive_minimum=0.0)
    target_entropy: float = setting(-1.0, "Target entropy, in nats for each part of an action.")


@attrs.frozen(kw_only=True)
class CrossQNetworkSettings(NetworkSettings):
    """The networks of CrossQ: batch renormalization after each non-linearity, as the authors' code has it."""

    batch_norm: str = setting(
        "post",
        "Normalize what enters the hidden layers, and the features of each, over the rows of a minibatch: before the "
        "non-linearity (pre) or after it (post).",
        choices=("none", "pre", "post"),
    )
    batch_renorm_after: int | None = setting(
        100_000,
        "Minibatches of a network after which batch_norm corrects them to its running statistics (batch "
        "renormalization); null for never.",
        minimum=0,
        maximum=MAX_STEPS,
    )
