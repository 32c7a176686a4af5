"""The results of epochs, which iterating over a run yields, of evaluations and of exports."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import attrs

from rlcore.stats import StatSummary


@attrs.frozen
class BehaviorResult:
    """Where one behavior stands at the end of an epoch, and what the epoch brought."""

    steps: int  # agent steps so far
    episodes: int  # episodes finished so far
    updates: int  # trainer updates so far
    mean_reward: float | None  # mean return of the latest episodes; None before the first one ended
    stats: Mapping[str, StatSummary]  # everything its summary held, by tag; empty if none was due in this epoch
    returns: StatSummary | None = None  # of the episodes that ended in this epoch; None: none did
    lengths: StatSummary | None = None  # of the same episodes, agent steps
    update_stats: Mapping[str, float] = attrs.field(factory=dict)  # mean over this epoch's updates, by tag
    moving_averages: Mapping[str, float] = attrs.field(factory=dict)  # mean of the latest 100 finite values, by tag


@attrs.frozen
class BehaviorEvaluation:
    """Returns of the counted episodes of one behavior: the agents' own rewards, as in "Cumulative Reward"."""

    mean_reward: float
    std_reward: float  # population standard deviation
    episodes: int
    mean_length: float  # environment steps
    returns: tuple[float, ...] = attrs.field(repr=False)
    mean_group_reward: float | None = None  # "Group Cumulative Reward"; None: no rewards are shared
    lengths: tuple[int, ...] = attrs.field(default=(), repr=False)  # agent steps of the episodes, like `returns`
    cut: int = 0  # of the episodes, those that had not ended after evaluation.max_episode_steps


@attrs.frozen
class EvaluationResult:
    """The result of one evaluation."""

    behaviors: Mapping[str, BehaviorEvaluation]

    @property
    def score(self) -> float:
        """Mean over behaviors of the mean reward of their episodes."""
        return fmean(behavior.mean_reward for behavior in self.behaviors.values())

    def to_json(self) -> dict[str, Any]:
        """Return plain values. ``mean_group_reward`` is there only for behaviors whose agents share rewards."""
        behaviors: dict[str, dict[str, Any]] = {
            name: {
                "mean_reward": b.mean_reward,
                "std_reward": b.std_reward,
                "episodes": b.episodes,
                "mean_length": b.mean_length,
                "returns": list(b.returns),
                "lengths": list(b.lengths),
            }
            for name, b in self.behaviors.items()
        }
        for name, b in self.behaviors.items():
            if b.mean_group_reward is not None:
                behaviors[name]["mean_group_reward"] = b.mean_group_reward
        return {"behaviors": behaviors}


@attrs.frozen
class ExportResult:
    """The export of one policy by a run: the file, or the problem."""

    exporter: str  # DISTRIBUTION/NAME
    behavior: str
    step: int  # agent steps of the run
    file: str | None  # relative to the run directory; None: it failed
    problem: str | None  # None: it did not


@attrs.frozen
class EpochResult:
    """One epoch: the stretch between two summaries."""

    epoch: int  # from 1, counted by this process
    behaviors: Mapping[str, BehaviorResult]
    seconds: float
    collect_seconds: float  # acting, stepping and recording
    update_seconds: float
    steps_per_second: float  # agent steps of all behaviors; the time of evaluations is not counted
    evaluate_seconds: float = 0.0
    evaluation: EvaluationResult | None = None  # the latest one of this epoch; None: there was none
    best_score: float | None = None  # of all evaluations of the run so far
    best_step: int | None = None  # where it was scored


def steps_per_second(steps: int, seconds: float) -> float:
    """A speed that is finite, and 0 where no time was measured."""
    return steps / seconds if seconds > 0 else 0.0
