"""The block of one behavior: its trainer, network, rewards, and how long it trains."""

from __future__ import annotations

from typing import Any

import attrs

from rlcore.settings.fields import Choice, setting
from rlcore.settings.limits import MAX_CHECKPOINTS, MAX_STEPS
from rlcore.settings.trainers import AbsentRewardSettings, PolicySettings
from rlcore.storage.files.paths import network_problem


@attrs.frozen(kw_only=True)
class BehaviorSettings:
    """How one behavior learns: a block of ``behaviors``, or ``default_settings``."""

    trainer_type: str = setting("ppo", "Trainer of the behavior: a registered name, or DISTRIBUTION/NAME.")
    hyperparameters: Any = setting(None, "The trainer's own settings.", chooses=Choice("trainer", "trainer_type"))
    network_settings: Any = setting(
        factory=PolicySettings,
        description="Network of the policy and the critic.",
        chooses=Choice("trainer", "trainer_type", attribute="network"),
    )
    reward_signals: dict[str, Any] = setting(
        factory=dict,
        description="Rewards by provider name; by default, the environment's own (extrinsic).",
        chooses=Choice("reward", by="name", absent=AbsentRewardSettings),
    )
    init_path: str | None = setting(
        None,
        "Checkpoint directory, or run directory, whose weights the behavior starts with.",
        check=network_problem,
    )
    keep_checkpoints: int = setting(5, "Number of checkpoints to keep; 0 or less keeps all.", maximum=MAX_CHECKPOINTS)
    even_checkpoints: bool = setting(
        False, "Spread keep_checkpoints evenly over max_steps instead of using checkpoint_interval."
    )
    checkpoint_interval: int | None = setting(
        None,
        "Agent steps between checkpoints; by default a tenth of max_steps, at most 500000. If each checkpoint restarts "
        "all episodes, because the environment cannot save its state: what ten minutes take, if these are more.",
        minimum=1,
        maximum=MAX_STEPS,
    )
    max_steps: int = setting(500_000, "Agent steps to train.", minimum=1, maximum=MAX_STEPS)
    time_horizon: int = setting(
        64, "Agent steps of one agent before its trainer bootstraps.", minimum=1, maximum=MAX_STEPS
    )
    summary_freq: int = setting(50_000, "Agent steps between summaries.", minimum=1, maximum=MAX_STEPS)
    threaded: bool = setting(
        False, "ML-Agents' scheduling of trainers in threads: accepted without effect, because results do not need it."
    )
    sections: dict[str, Any] = setting(
        factory=dict,
        description="Plugins' own blocks of the behavior, by key.",
        chooses=Choice("behavior", by="claim", attribute="target"),
    )
