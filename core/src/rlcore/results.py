"""The results of epochs, which iterating over a run yields, of evaluations and of exports."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import attrs

from rlcore.stats import StatSummary

__all__ = ["BehaviorEvaluation", "BehaviorResult", "EpochResult", "EvaluationResult", "ExportResult"]


@attrs.frozen
class BehaviorResult:
    """The progress of one behavior at the end of an epoch, and the results of the epoch.

    Attributes:
        steps: Agent steps so far.
        episodes: Episodes finished so far.
        updates: Updates of the trainer so far.
        mean_reward: Mean return of the latest episodes; None before the first one ended.
        stats: The summary of the behavior by tag; empty if none was due in this epoch.
        returns: Returns of the episodes that ended in this epoch; None if none did.
        lengths: Lengths of the episodes that ended in this epoch, in agent steps; None if none did.
        update_stats: Mean over this epoch's updates, by tag.
        moving_averages: Mean of the latest 100 finite values, by tag.
    """

    steps: int
    episodes: int
    updates: int
    mean_reward: float | None
    stats: Mapping[str, StatSummary]
    returns: StatSummary | None = None
    lengths: StatSummary | None = None
    update_stats: Mapping[str, float] = attrs.field(factory=dict)
    moving_averages: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen
class BehaviorEvaluation:
    """Returns of the counted episodes of one behavior: the agents' own rewards, as in "Cumulative Reward".

    Attributes:
        mean_reward: Mean return of the episodes.
        std_reward: Population standard deviation of the returns.
        episodes: Number of counted episodes.
        mean_length: Mean length of the episodes, in environment steps.
        returns: Return of each episode.
        mean_group_reward: Mean return of the rewards that groups share; None: no rewards are shared.
        lengths: Length of each episode in agent steps, in the order of ``returns``.
        cut: Number of episodes that had not ended after ``evaluation.max_episode_steps``.
    """

    mean_reward: float
    std_reward: float
    episodes: int
    mean_length: float
    returns: tuple[float, ...] = attrs.field(repr=False)
    mean_group_reward: float | None = None
    lengths: tuple[int, ...] = attrs.field(default=(), repr=False)
    cut: int = 0


@attrs.frozen
class EvaluationResult:
    """The result of one evaluation.

    Attributes:
        behaviors: The result of each behavior by name.
    """

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
    """The export of one policy by a run: the file, or the problem.

    Attributes:
        exporter: The exporter, DISTRIBUTION/NAME.
        behavior: The name of the behavior.
        step: Agent steps of the run.
        file: The file, relative to the run directory; None if the export failed.
        problem: The problem in one line; None if there was none.
    """

    exporter: str
    behavior: str
    step: int
    file: str | None
    problem: str | None


@attrs.frozen
class EpochResult:
    """One epoch: the stretch between two summaries.

    Attributes:
        epoch: Number of the epoch, from 1, counted by this process.
        behaviors: The result of each behavior by name.
        seconds: Duration of the epoch, in seconds.
        collect_seconds: Seconds for acting, stepping and recording.
        update_seconds: Seconds for updates.
        steps_per_second: Agent steps of all behaviors per second; the time of evaluations is not counted.
        evaluate_seconds: Seconds for evaluations.
        evaluation: The latest evaluation of this epoch; None if there was none.
        best_score: Best score of all evaluations of the run so far; None if there was none.
        best_step: Agent steps at the best score; None if there was none.
    """

    epoch: int
    behaviors: Mapping[str, BehaviorResult]
    seconds: float
    collect_seconds: float
    update_seconds: float
    steps_per_second: float
    evaluate_seconds: float = 0.0
    evaluation: EvaluationResult | None = None
    best_score: float | None = None
    best_step: int | None = None


def steps_per_second(steps: int, seconds: float) -> float:
    """A speed that is finite, and 0 where no time was measured."""
    return steps / seconds if seconds > 0 else 0.0
