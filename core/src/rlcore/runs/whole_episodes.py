"""Playing whole episodes with policies that do not learn; every environment plays its share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.curricula.parameter_feed import ParameterFeed
from rlcore.environment import AgentBatch, BehaviorSpec, Environment
from rlcore.errors import EnvironmentFailed, NonFiniteError
from rlcore.plugins.failures import blame, blamed, policy_named
from rlcore.recording.episode_recorder import EpisodeRecorder
from rlcore.results import BehaviorEvaluation, EvaluationResult
from rlcore.runs.batch_check import BatchCheck, batch_of
from rlcore.runs.episode_statistics import EpisodeStatistics
from rlcore.seeding import EpisodeSeeds, derive_seed
from rlcore.trainer import Player, Policy


class Abandoned(Exception):
    """Episodes were abandoned because a stop was requested; nothing was measured."""


def play(
    policies: Mapping[str, Policy],
    environment: Environment,
    episodes: int,
    seed: int,
    deterministic: bool,
    recorders: Mapping[str, EpisodeRecorder],
    feed: ParameterFeed | None = None,
    max_episode_steps: int | None = None,
    stop_requested: Callable[[], bool] | None = None,
    named: str = "environment",
    checks: Mapping[str, BatchCheck] | None = None,
) -> EvaluationResult:
    """Play until every environment has finished its share of ``episodes``. ``recorders`` record them, by behavior.

    ``feed`` sets what episodes start with, if the environment has parameters; ``named`` is what messages call it.
    ``checks``, by behavior, are those of earlier evaluations in the same environment. An episode that has not ended
    after ``max_episode_steps`` environment steps counts as truncated there. Raises :class:`Abandoned` after the
    environment step in which ``stop_requested`` has become true.

    Each environment's share is fixed beforehand: counting the first episodes to finish would favor short ones.
    """
    checks = checks_of(environment) if checks is None else checks
    share = np.full(environment.num_envs, episodes // environment.num_envs)
    share[: episodes % environment.num_envs] += 1
    counted = {
        name: _Counted(spec, share[spec.env_index].copy(), recorders.get(name))
        for name, spec in environment.behaviors.items()
    }
    players = {name: Player(policy, environment.behaviors[name].slots) for name, policy in policies.items()}
    for name, policy in policies.items():
        try:
            policy.seed(derive_seed(seed, name))
        except (Exception, SystemExit) as error:
            blame(policy_named(name, policy), "in seed", error)
    batches = _begin(environment, seed, np.zeros(environment.num_envs, np.int64), feed, counted, named, checks)
    while any(each.unfinished for each in counted.values()):
        if stop_requested is not None and stop_requested():
            raise Abandoned
        if not any(each.playing for each in counted.values()):  # all that is missing waits behind episodes without end
            batches = _begin(environment, seed, environment.episodes + 1, feed, counted, named, checks)
            for player in players.values():
                player.begin()
        actions = {}
        for name, player in players.items():
            try:
                actions[name] = player.act(batches[name], deterministic)
            except (Exception, SystemExit) as error:
                blame(policy_named(name, player.policy), "in act", error)
        for name, recorder in recorders.items():
            recorder.act(batches[name], actions[name])
        with blamed(named, "in step", EnvironmentFailed):
            batches = environment.step(actions)
        check_batches(batches, checks, named, "step", feed)
        if feed is not None:
            feed.restage(feed.after_step())
        for name, each in counted.items():
            each.observe(batches[name], max_episode_steps)
        for name, player in players.items():
            player.observe(batches[name])
    return EvaluationResult({name: each.result() for name, each in counted.items()})


def _begin(
    environment: Environment,
    seed: int,
    episodes: NDArray[np.int64],
    feed: ParameterFeed | None,
    counted: Mapping[str, _Counted],
    named: str,
    checks: Mapping[str, BatchCheck],
) -> Mapping[str, AgentBatch]:
    """Begin episode ``episodes[c]`` in every environment c."""
    if feed is not None:
        feed.before_reset(episodes)
    with blamed(named, "in reset", EnvironmentFailed):
        batches = environment.reset(EpisodeSeeds(seed), episodes)
    if feed is not None:
        feed.after_reset(episodes)
    check_batches(batches, checks, named, "reset", feed)
    for name, each in counted.items():
        each.begin(batches[name])
    return batches


@attrs.define(eq=False)
class _Counted:
    """The episodes of one behavior that are part of the result."""

    spec: BehaviorSpec
    left: NDArray[np.int64]  # [S] episodes still to be counted
    recorder: EpisodeRecorder | None
    statistics: EpisodeStatistics = attrs.field(init=False)
    steps: int = 0  # environment steps
    began: NDArray[np.int64] = attrs.field(init=False)  # [S] the step at which the episode to be counted started
    waiting: NDArray[np.bool_] = attrs.field(init=False)  # [S] for a new episode: the open one was cut and still runs
    returns: list[float] = attrs.field(factory=list)
    group_returns: list[float] = attrs.field(factory=list)
    lengths: list[int] = attrs.field(factory=list)
    cut: int = 0

    def __attrs_post_init__(self) -> None:
        self.statistics = EpisodeStatistics(self.spec.slots)
        self.began = np.zeros(self.spec.slots, np.int64)
        self.waiting = np.zeros(self.spec.slots, np.bool_)

    @property
    def unfinished(self) -> bool:
        return bool((self.left > 0).any())

    @property
    def playing(self) -> bool:
        """Whether an episode to be counted is open."""
        return bool(((self.left > 0) & ~self.waiting).any())

    def begin(self, batch: AgentBatch) -> None:
        """All slots start an episode with ``batch``: the environment was reset."""
        self.statistics.begin(batch)
        self.began[:] = self.steps
        self.waiting[:] = False
        if self.recorder is not None:
            self.recorder.begin()

    def observe(self, batch: AgentBatch, max_steps: int | None) -> None:
        """Counts the episodes that ended in the latest step, and those that are open after ``max_steps`` of them."""
        self.steps += 1
        ended = batch.ended
        finished = self.statistics.record(batch)
        wanted = (self.left[ended] > 0) & ~self.waiting[ended]
        if self.recorder is not None:
            self.recorder.observe(batch, ended[wanted])
        if finished is not None:
            self.returns.extend(finished.returns[wanted].tolist())
            if finished.group_returns is not None:
                self.group_returns.extend(finished.group_returns[wanted].tolist())
            self.lengths.extend(finished.lengths[wanted].tolist())
            self.left[ended[wanted]] -= 1
            self.began[ended] = self.steps
            self.waiting[ended] = False
        if max_steps is not None and self.steps >= max_steps:
            late = (self.steps - self.began >= max_steps) & (self.left > 0) & ~self.waiting
            if late.any():
                self._cut(np.flatnonzero(late), batch)

    def _cut(self, rows: NDArray[np.intp], batch: AgentBatch) -> None:
        """Counts the open episodes of ``rows``.

        A single environment cannot be reset, so these slots wait until all others have played their share.
        """
        statistics = self.statistics
        self.returns.extend(statistics.returns[rows].tolist())
        if statistics.group_returns is not None:
            self.group_returns.extend(statistics.group_returns[rows].tolist())
        self.lengths.extend(statistics.lengths[rows].tolist())
        self.left[rows] -= 1
        self.waiting[rows] = True
        self.cut += len(rows)
        if self.recorder is not None:
            self.recorder.cut(batch, rows)

    def result(self) -> BehaviorEvaluation:
        return BehaviorEvaluation(
            mean_reward=float(np.mean(self.returns)),
            std_reward=float(np.std(self.returns)),
            episodes=len(self.returns),
            mean_length=float(np.mean(self.lengths)),
            returns=tuple(self.returns),
            mean_group_reward=float(np.mean(self.group_returns)) if self.group_returns else None,
            lengths=tuple(self.lengths),
            cut=self.cut,
        )


def checks_of(environment: Environment) -> dict[str, BatchCheck]:
    """A check for the batches of each behavior, for evaluations."""
    return {name: BatchCheck(spec, lambda: "while evaluating") for name, spec in environment.behaviors.items()}


def check_batches(
    batches: Mapping[str, AgentBatch],
    checks: Mapping[str, BatchCheck],
    environment: str,
    doing: str,
    feed: ParameterFeed | None,
) -> None:
    """Raises EnvironmentFailed unless ``doing`` of the environment returned what every behavior's spec says.

    A NaN or an infinity is reported with the parameters that its episode started with.
    """
    for name, check in checks.items():
        try:
            check.check(batch_of(batches, name, environment, doing))
        except NonFiniteError as error:
            if feed is None:
                raise
            began = feed.described(error.env, error.latest)
            raise NonFiniteError(f"{error} (its episode began with {began})", error.env, error.latest) from None
