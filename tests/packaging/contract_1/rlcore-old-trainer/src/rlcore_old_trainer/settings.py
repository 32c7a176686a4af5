"""The ``hyperparameters`` of a behavior whose ``trainer_type`` is old-trainer."""

from __future__ import annotations

import attrs

from rlcore.config import setting


@attrs.frozen(kw_only=True)
class OldTrainerSettings:
    """Every field needs a default and a description; limits are checked for you."""

    buffer_size: int = setting(512, "Agent steps collected, over all agents, before an update.", minimum=1)
    learning_rate: float = setting(0.3, "Step size of the policy.", exclusive_minimum=0)
