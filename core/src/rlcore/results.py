"""What iterating over a run yields."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rlcore.stats import StatSummary


@attrs.frozen
class BehaviorResult:
    """Where one behavior stands at the end of an epoch."""

    steps: int  # agent steps so far
    episodes: int  # episodes finished so far
    updates: int  # trainer updates so far
    mean_reward: float | None  # mean return of the latest episodes; None before the first one ended
    stats: Mapping[str, StatSummary]  # everything its summary held, by tag; empty if none was due in this epoch


@attrs.frozen
class EpochResult:
    """One epoch: the stretch between two summaries."""

    epoch: int  # from 1, counted by this process
    behaviors: Mapping[str, BehaviorResult]
    seconds: float
    collect_seconds: float  # acting, stepping and recording
    update_seconds: float
    steps_per_second: float  # agent steps of all behaviors
