"""The results of epochs, of evaluations and of exports, and who plays in evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from rlcore.contracts.stats import StatSummary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rlcore.contracts.batches import AgentBatch
    from rlcore.contracts.behavior_spec import BehaviorSpec
    from rlcore.contracts.policy import Policy


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
        info: Mean of the latest 100 values of each number that the environment reports of ended episodes, by name.
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
    info: Mapping[str, float] = attrs.field(factory=dict)


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
        info: Numbers that the environment reports of ended episodes, by name: the value of each episode that has one.
    """

    mean_reward: float
    std_reward: float
    episodes: int
    mean_length: float
    returns: tuple[float, ...] = attrs.field(repr=False)
    mean_group_reward: float | None = None
    lengths: tuple[int, ...] = attrs.field(default=(), repr=False)
    cut: int = 0
    info: Mapping[str, tuple[float, ...]] = attrs.field(factory=dict, repr=False)

    @property
    def mean_info(self) -> dict[str, float]:
        """The mean of each number of ``info``, by name."""
        return {name: fmean(values) for name, values in self.info.items()}

    @classmethod
    def joined(cls, parts: Sequence[BehaviorEvaluation]) -> BehaviorEvaluation:
        """Return the result of the episodes of all ``parts``, of which there is at least one."""
        returns: list[float] = []
        lengths: list[int] = []
        info: dict[str, tuple[float, ...]] = {}
        group_rewards: list[float] = []
        group_episodes: list[int] = []
        for part in parts:
            returns += part.returns
            lengths += part.lengths
            for name, values in part.info.items():
                info[name] = (*info.get(name, ()), *values)
            if part.mean_group_reward is not None:
                group_rewards.append(part.mean_group_reward)
                group_episodes.append(part.episodes)
        mean_lengths = [part.mean_length for part in parts]
        episodes = [part.episodes for part in parts]
        return cls(
            mean_reward=fmean(returns),
            std_reward=pstdev(returns),
            episodes=len(returns),
            mean_length=fmean(mean_lengths, episodes),  # weighted, as if all had been played at once
            returns=tuple(returns),
            mean_group_reward=fmean(group_rewards, group_episodes) if group_rewards else None,
            lengths=tuple(lengths),
            cut=sum(part.cut for part in parts),
            info=info,
        )


@attrs.frozen
class OpponentEvaluation:
    """Episodes in which one team played the learned policies, and all other teams an opponent.

    The return of an episode is the mean over the agents of the learned team of their rewards, those that their group
    shares included. A positive return is a win, a negative one a loss, and zero a draw.

    Attributes:
        mean_reward: Mean return of the episodes.
        std_reward: Population standard deviation of the returns.
        episodes: Number of counted episodes.
        win_rate: Share of the episodes with a positive return, in [0, 1].
        draw_rate: Share of the episodes with a return of zero, in [0, 1].
        loss_rate: Share of the episodes with a negative return, in [0, 1].
        returns: Return of each episode.
        teams: Number of the team that played the learned policies in each episode, in the order of ``returns``.
        cut: Number of episodes that had not ended after ``evaluation.max_episode_steps``.
    """

    mean_reward: float
    std_reward: float
    episodes: int
    win_rate: float
    draw_rate: float
    loss_rate: float
    returns: tuple[float, ...] = attrs.field(repr=False)
    teams: tuple[int, ...] = attrs.field(repr=False)
    cut: int = 0

    @classmethod
    def of(cls, returns: Sequence[float], teams: Sequence[int], cut: int = 0) -> OpponentEvaluation:
        """Summarize the ``returns`` of episodes, at least one, in which ``teams`` played the learned policies."""
        wins = sum(value > 0 for value in returns)
        losses = sum(value < 0 for value in returns)
        count = len(returns)
        return cls(
            mean_reward=fmean(returns),
            std_reward=pstdev(returns),
            episodes=count,
            win_rate=wins / count,
            draw_rate=(count - wins - losses) / count,
            loss_rate=losses / count,
            returns=tuple(returns),
            teams=tuple(teams),
            cut=cut,
        )

    @property
    def summary(self) -> dict[str, float]:
        """The mean reward and the shares of wins, draws and losses, as plain values."""
        return {
            "mean_reward": self.mean_reward,
            "win_rate": self.win_rate,
            "draw_rate": self.draw_rate,
            "loss_rate": self.loss_rate,
        }


@attrs.define(eq=False)
class FinishedEpisodes:
    """K episodes of a behavior that ended in the same environment step, in the order of their slots.

    Attributes:
        slots: [K] the slots.
        returns: [K] sums of the agents' own rewards.
        lengths: [K] agent steps.
        group_returns: [K] sums of the rewards of their groups; None if no batch had such a reward so far.
        info: [K] for each number that the environment reports of ended episodes, by name; NaN where it has none.
    """

    slots: NDArray[np.intp]
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    group_returns: NDArray[np.float64] | None
    info: Mapping[str, NDArray[np.float64]] = attrs.field(factory=dict)


@attrs.frozen
class EvaluationResult:
    """The result of one evaluation.

    Attributes:
        behaviors: The result of each behavior by name; with opponents, of the agents that played the learned policies.
        opponents: The result against each opponent by name; empty without opponents.
        score_against: The opponent that alone decides the score; None if there is none.
    """

    behaviors: Mapping[str, BehaviorEvaluation]
    opponents: Mapping[str, OpponentEvaluation] = attrs.field(factory=dict)
    score_against: str | None = None

    @property
    def score(self) -> float:
        """Mean over opponents of the mean reward against them; without opponents, over behaviors of theirs.

        With ``score_against``, the mean reward against that opponent.
        """
        if self.score_against is not None:
            return self.opponents[self.score_against].mean_reward
        results = self.opponents or self.behaviors
        return fmean(result.mean_reward for result in results.values())

    @property
    def mean_info(self) -> dict[str, float]:
        """The mean over behaviors of each number that the environment reports of ended episodes, by name."""
        means: dict[str, list[float]] = {}
        for result in self.behaviors.values():
            for name, mean in result.mean_info.items():
                means.setdefault(name, []).append(mean)
        return {name: fmean(values) for name, values in means.items()}

    def to_json(self) -> dict[str, Any]:
        """Return plain values.

        ``mean_group_reward`` is there only for behaviors whose agents share rewards, ``info`` only if the environment
        reports numbers of ended episodes, and ``opponents`` only if there are any.
        """
        behaviors = {name: _plain(result) for name, result in self.behaviors.items()}
        if not self.opponents:
            return {"behaviors": behaviors}
        opponents = {name: _plain(result) for name, result in self.opponents.items()}
        return {"behaviors": behaviors, "opponents": opponents, "score": self.score}


def _plain(result: BehaviorEvaluation | OpponentEvaluation) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, value in attrs.asdict(result).items():
        if value is not None and name not in ("cut", "info"):
            plain[name] = list(value) if isinstance(value, tuple) else value
    if isinstance(result, BehaviorEvaluation) and result.info:
        means = result.mean_info
        info = {}
        for name, values in result.info.items():
            info[name] = {"mean": means[name], "episodes": len(values), "values": list(values)}
        plain["info"] = info
    return plain


@attrs.define
class PhaseTimes:
    """Where the time of an epoch went, until now.

    Attributes:
        acting: Seconds of computing actions.
        stepping: Seconds of steps of the environments.
        recording: Seconds of checking batches, of counting episodes, and of the trainers' ``observe``.
        updating: Seconds of updates.
        evaluating: Seconds of evaluations.
        environment_steps: Steps of all environments together.
        updates: Updates of trainers.
        updating_now: Whether an update is being made.
    """

    acting: float = 0.0
    stepping: float = 0.0
    recording: float = 0.0
    updating: float = 0.0
    evaluating: float = 0.0
    environment_steps: int = 0
    updates: int = 0
    updating_now: bool = False

    @property
    def collecting(self) -> float:
        """Seconds of everything but updates and evaluations."""
        return self.acting + self.stepping + self.recording


class Lineup(Protocol):
    """The episodes of an evaluation in which other policies play beside those that are measured.

    Shapes: S slots of a behavior, N environments.

    Attributes:
        players: [S] for each behavior, 0 where the measured policy plays the open episode of a slot. Only such episodes
            are counted and recorded. Changes where an episode ends.
    """

    players: Mapping[str, NDArray[np.int64]]

    @property
    def unfinished(self) -> bool:
        """Whether an episode is still to be counted."""

    @property
    def playing(self) -> bool:
        """Whether an episode to be counted is open."""

    def policies(self, measured: Mapping[str, Policy]) -> Mapping[str, Policy]:
        """Return the policy that acts for all slots of each behavior, given the ``measured`` policies."""

    def begin(self, batches: Mapping[str, AgentBatch], episodes: NDArray[np.int64]) -> None:
        """All environments were reset with these ``batches``, to the episodes with these numbers [N]."""

    def observe(
        self, batches: Mapping[str, AgentBatch], episodes: NDArray[np.int64], max_steps: int | None = None
    ) -> None:
        """Add a step. ``episodes`` [N] are the numbers after it; an episode is cut after ``max_steps`` steps."""


class EvaluationPlan(Protocol):
    """The part of a plugin in an evaluation: whom the policies play with, and what the results mean.

    :class:`rlcore.EvaluationSection` announces it. Each line-up plays the number of episodes that the evaluation has.
    """

    def lineups(self, behaviors: Mapping[str, BehaviorSpec], share: NDArray[np.int64]) -> Sequence[Lineup]:
        """Return the line-ups of one evaluation, new ones for each; none if only the measured policies play.

        ``share`` [N] is the number of episodes of each environment that count. Also called before the first step of a
        run, so that what is wrong with the environment is reported then. Raises ConfigError.
        """

    def result(self, lineups: Sequence[Lineup], measured: Sequence[EvaluationResult]) -> EvaluationResult:
        """Return the result of the evaluation from what was ``measured`` with each of the ``lineups``."""


@attrs.frozen
class ExportResult:
    """The export of one policy by a run: the file, or the problem.

    Attributes:
        exporter: The exporter, DISTRIBUTION/NAME.
        behavior: The name of the behavior.
        step: Agent steps of the run.
        file: The file, relative to the run directory; None if the export failed.
        problem: The problem in one line; None if there was none.
        report: The exporter's report in one line, such as the result of its check of the file; None without one.
    """

    exporter: str
    behavior: str
    step: int
    file: str | None
    problem: str | None
    report: str | None


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
