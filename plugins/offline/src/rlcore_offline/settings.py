"""``hyperparameters`` of the trainers that learn from recorded data."""

from __future__ import annotations

import attrs

from rlcore import setting
from rlcore_torch import OfflineSettings


@attrs.frozen(kw_only=True)
class BCSettings(OfflineSettings):
    """How behavioral cloning learns."""

    batch_size: int = setting(256, "Recorded steps in one minibatch.", minimum=1, maximum=1_000_000_000)


@attrs.frozen(kw_only=True)
class IQLSettings(OfflineSettings):
    """How implicit Q-learning learns; defaults are the paper's for locomotion."""

    batch_size: int = setting(256, "Transitions in one minibatch.", minimum=1, maximum=1_000_000_000)
    expectile: float = setting(
        0.7,
        "Expectile of the recorded actions' values that a state is worth: 0.5 is their mean, 1 would be their maximum.",
        minimum=0.5,
        maximum=1.0,
    )
    tau: float = setting(
        0.005,
        "Share of the critics that enters the target critics in a gradient step.",
        exclusive_minimum=0.0,
        maximum=1.0,
    )
    inverse_temperature: float = setting(
        3.0,
        "Beta of the paper: an action is imitated with the weight exp(beta * advantage); 0 imitates all alike.",
        minimum=0.0,
    )
    max_weight: float = setting(100.0, "The largest such weight.", exclusive_minimum=0.0)
