"""The ``stats.wandb`` block. This module does not import wandb: checking a configuration imports it."""

from __future__ import annotations

from typing import Literal

import attrs

from rlcore import setting
from rlcore_trackers.settings import TrackerSettings


@attrs.frozen(kw_only=True)
class WandbSettings(TrackerSettings):
    """Settings of Weights & Biases."""

    mode: Literal["offline", "online"] = setting(
        "offline",
        "offline writes files that 'wandb sync' uploads; online sends to the server of 'wandb login'.",
        foreign=False,
    )
    entity: str | None = setting(None, "User or team that the project belongs to; by default that of the login.")
    tags: list[str] = setting(
        factory=list, description="Tags of the run, beside the seed and the trial of a study or sweep.", foreign=True
    )
