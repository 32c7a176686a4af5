"""How one behavior learns: a block of ``behaviors``."""

from __future__ import annotations

from typing import Any

import attrs

from rlcore.settings.fields import setting
from rlcore.settings.limits import MAX_CHECKPOINTS, MAX_STEPS
from rlcore.settings.trainers import BehavioralCloningSettings, NetworkSettings


@attrs.frozen(kw_only=True)
class BehaviorSettings:
    """How one behavior learns: a block of ``behaviors``, or ``default_settings``."""

    trainer_type: str = setting("ppo", "Which trainer learns it: a registered name, or DISTRIBUTION/NAME.")
    hyperparameters: Any = setting(None, "The trainer's own settings.")
    network_settings: NetworkSettings = setting(factory=NetworkSettings, description="Network of policy and critic.")
    reward_signals: dict[str, Any] = setting(
        factory=dict, description="Rewards by provider name; without any, the environment's own (extrinsic)."
    )
    init_path: str | None = setting(
        None, "Checkpoint directory, or run directory, whose weights the behavior starts from."
    )
    keep_checkpoints: int = setting(5, "How many checkpoints to keep; 0 or less keeps all.", maximum=MAX_CHECKPOINTS)
    even_checkpoints: bool = setting(
        False, "Spread keep_checkpoints evenly over max_steps instead of using checkpoint_interval."
    )
    checkpoint_interval: int | None = setting(
        None,
        "Agent steps between checkpoints; without it, a tenth of max_steps, at most 500000.",
        minimum=1,
        maximum=MAX_STEPS,
    )
    max_steps: int = setting(500_000, "Agent steps to learn from.", minimum=1, maximum=MAX_STEPS)
    time_horizon: int = setting(
        64, "Agent steps a trainer may see of one agent before it bootstraps.", minimum=1, maximum=MAX_STEPS
    )
    summary_freq: int = setting(50_000, "Agent steps between summaries.", minimum=1, maximum=MAX_STEPS)
    threaded: bool = setting(False, "Learn in a thread beside the environment.", not_supported="threaded training")
    self_play: dict[str, Any] | None = setting(None, "Self-play.", not_supported="the ghost trainer")
    behavioral_cloning: BehavioralCloningSettings | None = setting(
        None, "Imitate demonstrations beside reinforcement learning."
    )
