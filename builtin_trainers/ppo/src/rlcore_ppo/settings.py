"""PPO's ``hyperparameters``. Names and defaults are ML-Agents'; the rest is marked as rlcore's own."""

from __future__ import annotations

import attrs

from rlcore.config import setting
from rlcore.errors import ConfigError

SCHEDULES = ("linear", "constant")


@attrs.frozen(kw_only=True)
class PPOSettings:
    """How PPO collects and learns."""

    batch_size: int = setting(1024, "Transitions in one minibatch.", minimum=1)
    buffer_size: int = setting(10240, "Agent steps collected, over all agents, before an update.", minimum=2)
    learning_rate: float = setting(3e-4, "Step size of Adam.", exclusive_minimum=0.0)
    learning_rate_schedule: str = setting("linear", "How learning_rate falls over max_steps.", choices=SCHEDULES)
    beta: float = setting(5e-3, "Weight of the entropy bonus; a linear schedule ends at 1e-5.", minimum=0.0)
    beta_schedule: str = setting(
        attrs.Factory(lambda self: self.learning_rate_schedule, takes_self=True),
        "How beta falls; without it, as learning_rate_schedule.",
        choices=SCHEDULES,
    )
    epsilon: float = setting(
        0.2, "Clip range of the probability ratio; a linear schedule ends at 0.1.", exclusive_minimum=0.0
    )
    epsilon_schedule: str = setting(
        attrs.Factory(lambda self: self.learning_rate_schedule, takes_self=True),
        "How epsilon falls; without it, as learning_rate_schedule.",
        choices=SCHEDULES,
    )
    lambd: float = setting(0.95, "Lambda of generalised advantage estimation.", minimum=0.0, maximum=1.0)
    num_epoch: int = setting(3, "Passes over the rollout in one update.", minimum=1)
    shared_critic: bool = setting(False, "One body for policy and value heads instead of two.")
    max_grad_norm: float = setting(0.5, "L2 norm the gradient is clipped to (an rlcore key).", exclusive_minimum=0.0)
    value_coefficient: float = setting(0.5, "Weight of the value loss (an rlcore key).", minimum=0.0)
    value_clip: float | None = setting(
        None, "Clip range of the change of a value; off without it (an rlcore key).", exclusive_minimum=0.0
    )
    target_kl: float | None = setting(
        None,
        "An update stops after the first pass whose KL divergence exceeds 1.5 times this (an rlcore key).",
        exclusive_minimum=0.0,
    )
    advantage_normalization: str = setting(
        "rollout",
        "Advantages are standardised over the rollout, over each minibatch, or not (an rlcore key).",
        choices=("rollout", "minibatch", "none"),
    )
    adam_epsilon: float = setting(1e-5, "Epsilon of Adam (an rlcore key).", exclusive_minimum=0.0)

    def __attrs_post_init__(self) -> None:
        if self.batch_size > self.buffer_size:
            raise ConfigError(f"batch_size: must be at most buffer_size ({self.buffer_size}), not {self.batch_size}")
