"""Playing whole episodes with policies that do not learn; every environment plays its share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import Actions, AgentBatch, BehaviorSpec, Environment, Parameters
from rlcore.contracts.policy import Player, Policy
from rlcore.contracts.recordings import EpisodeRecorder
from rlcore.contracts.results import BehaviorEvaluation, EvaluationResult, Lineup
from rlcore.contracts.seeding import EpisodeSeeds, derive_seed
from rlcore.errors import EnvironmentFailed, NonFiniteError
from rlcore.plugins.failures import blame, blamed, policy_named
from rlcore.run.behaviors.behavior import EpisodeStatistics
from rlcore.run.behaviors.checks import BatchCheck, batch_of
from rlcore.run.curricula.parameters import ParameterFeed


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
    lineup: Lineup | None = None,
) -> EvaluationResult:
    """Play until every environment has finished its share of ``episodes``. ``recorders`` record them, by behavior.

    ``feed`` sets what episodes start with, if the environment has parameters; ``named`` is what messages call it.
    ``checks``, by behavior, are those of earlier evaluations in the same environment. An episode that has not ended
    after ``max_episode_steps`` environment steps counts as truncated there. Raises :class:`Abandoned` after the
    environment step in which ``stop_requested`` has become true.

    With a ``lineup`` for the same share, other policies play too: see :class:`rlcore.Lineup`.
    """
    played = PlayedEnvironment(environment, named, checks, feed)
    share = shares(environment.num_envs, episodes)
    counted = {
        name: _Counted(spec, share[spec.env_index].copy(), recorders.get(name))
        for name, spec in environment.behaviors.items()
    }
    acting = policies if lineup is None else lineup.policies(policies)
    for name, each in counted.items():
        each.players = None if lineup is None else lineup.players[name]
    players = {name: Player(policy, environment.behaviors[name].slots) for name, policy in acting.items()}
    for name, player in players.items():
        try:
            player.policy.seed(derive_seed(seed, name))
        except BaseException as error:
            blame(policy_named(name, policies[name]), "in seed", error)
    rounds: list[_Counted | Lineup] = [*counted.values(), *([] if lineup is None else [lineup])]
    batches = _begin(played, seed, np.zeros(environment.num_envs, np.int64), counted, lineup)
    while any(each.unfinished for each in rounds):
        if stop_requested is not None and stop_requested():
            raise Abandoned
        if not any(each.playing for each in rounds):  # all that is missing waits behind episodes without end
            batches = _begin(played, seed, environment.episodes + 1, counted, lineup)
            for player in players.values():
                player.begin()
        actions = {}
        for name, player in players.items():
            try:
                actions[name] = player.act(batches[name], deterministic)
            except BaseException as error:
                blame(policy_named(name, policies[name]), "in act", error)
        for name, recorder in recorders.items():
            recorder.act(batches[name], actions[name])
        batches = played.step(actions)
        for name, each in counted.items():
            each.observe(batches[name], max_episode_steps)
        for name, player in players.items():
            player.observe(batches[name])
        if lineup is not None:
            lineup.observe(batches, environment.episodes, max_episode_steps)
    return EvaluationResult({name: each.result() for name, each in counted.items() if each.returns})


def shares(num_envs: int, episodes: int) -> NDArray[np.int64]:
    """Return the number of episodes of each environment [N].

    It is fixed beforehand: counting the first episodes to finish would favor short ones.
    """
    share = np.full(num_envs, episodes // num_envs)
    share[: episodes % num_envs] += 1
    return share


def _begin(
    environment: PlayedEnvironment,
    seed: int,
    episodes: NDArray[np.int64],
    counted: Mapping[str, _Counted],
    lineup: Lineup | None,
) -> Mapping[str, AgentBatch]:
    """Begin episode ``episodes[c]`` in every environment c."""
    batches = environment.reset(EpisodeSeeds(seed), episodes)
    for name, each in counted.items():
        each.begin(batches[name])
    if lineup is not None:
        lineup.begin(environment.episodes)
    return batches


@attrs.define(eq=False)
class _Counted:
    """The episodes of one behavior that are part of the result."""

    spec: BehaviorSpec
    left: NDArray[np.int64]  # [S] episodes still to be counted
    recorder: EpisodeRecorder | None
    players: NDArray[np.int64] | None = None  # [S] of the line-up: 0 where the measured policy plays
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
        measured = wanted & self._measured(ended)
        if self.recorder is not None:
            self.recorder.observe(batch, ended[measured])
        if finished is not None:
            self.returns.extend(finished.returns[measured].tolist())
            if finished.group_returns is not None:
                self.group_returns.extend(finished.group_returns[measured].tolist())
            self.lengths.extend(finished.lengths[measured].tolist())
            self.left[ended[wanted]] -= 1
            self.began[ended] = self.steps
            self.waiting[ended] = False
        if max_steps is not None and self.steps >= max_steps:
            late = (self.steps - self.began >= max_steps) & (self.left > 0) & ~self.waiting
            if late.any():
                self._cut(np.flatnonzero(late), batch)

    def _measured(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return a mask [K] of the ``rows`` [K] whose agents play the measured policy."""
        return np.ones(len(rows), np.bool_) if self.players is None else self.players[rows] == 0

    def _cut(self, rows: NDArray[np.intp], batch: AgentBatch) -> None:
        """Counts the open episodes of ``rows``.

        A single environment cannot be reset, so these slots wait until all others have played their share.
        """
        statistics = self.statistics
        self.left[rows] -= 1
        self.waiting[rows] = True
        rows = rows[self._measured(rows)]
        self.returns.extend(statistics.returns[rows].tolist())
        if statistics.group_returns is not None:
            self.group_returns.extend(statistics.group_returns[rows].tolist())
        self.lengths.extend(statistics.lengths[rows].tolist())
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


# ---------------------------------------------------------------- the environment


class PlayedEnvironment:
    """An environment that is one itself: it names the environment inside in errors, and sets the parameters there.

    Attributes:
        behaviors: The behaviors by name.
        num_envs: N, the number of environments.
        episodes: [N] number of the episode that each environment is in.
    """

    def __init__(
        self,
        environment: Environment,
        named: str = "environment",
        checks: Mapping[str, BatchCheck] | None = None,
        feed: ParameterFeed | None = None,
    ) -> None:
        """``named`` is what messages call the environment, and ``feed`` sets what episodes start with.

        ``checks``, by behavior, are those of earlier episodes in the same environment.
        """
        self.behaviors: Mapping[str, BehaviorSpec] = environment.behaviors
        self.num_envs = environment.num_envs
        self.episodes: NDArray[np.int64] = environment.episodes
        self._environment, self._named, self._feed = environment, named, feed
        self._checks = checks_of(environment) if checks is None else checks

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Begin episode ``episodes[c]`` in every environment c. Raises EnvironmentFailed."""
        if self._feed is not None:
            self._feed.before_reset(episodes)
        with blamed(self._named, "in reset", EnvironmentFailed):
            batches = self._environment.reset(seeds, episodes)
        self.episodes = self._environment.episodes
        if self._feed is not None:
            self._feed.after_reset(episodes)
        self._check(batches, "reset")
        return batches

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        """Move every environment once. Raises EnvironmentFailed."""
        with blamed(self._named, "in step", EnvironmentFailed):
            batches = self._environment.step(actions)
        self.episodes = self._environment.episodes
        self._check(batches, "step")
        if self._feed is not None:
            self._feed.restage(self._feed.after_step())
        return batches

    def set_parameters(self, parameters: Parameters) -> None:
        """Set parameters of the next episodes that the task does not set."""
        self._environment.set_parameters(parameters)

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    def _check(self, batches: Mapping[str, AgentBatch], doing: str) -> None:
        """Raises EnvironmentFailed unless ``doing`` returned what every behavior's spec says.

        A NaN or an infinity is reported with the parameters that its episode started with.
        """
        for name, check in self._checks.items():
            try:
                check.check(batch_of(batches, name, self._named, doing))
            except NonFiniteError as error:
                if self._feed is None:
                    raise
                began = self._feed.described(error.env, error.latest)
                raise NonFiniteError(f"{error} (its episode began with {began})", error.env, error.latest) from None


def checks_of(environment: Environment) -> dict[str, BatchCheck]:
    """A check for the batches of each behavior, for evaluations."""
    return {name: BatchCheck(spec, lambda: "while evaluating") for name, spec in environment.behaviors.items()}
