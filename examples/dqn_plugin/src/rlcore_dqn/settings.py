"""Hyperparameters of DQN, in addition to the ones of every off-policy trainer."""

from __future__ import annotations

import attrs

from rlcore import setting
from rlcore_torch import OffPolicySettings


@attrs.frozen(kw_only=True)
class DQNSettings(OffPolicySettings):
    """Hyperparameters of DQN."""

    exploration: float = setting(1.0, "Share of random actions at the start.", minimum=0.0, maximum=1.0)
    final_exploration: float = setting(0.05, "Share of random actions at the end.", minimum=0.0, maximum=1.0)
    exploration_steps: int = setting(5_000, "Agent steps over which exploration falls to final_exploration.", minimum=1)
    target_update_interval: int = setting(250, "Gradient steps between updates of the target network.", minimum=1)
