"""Playing whole episodes with policies that do not learn; every environment plays its share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.batches import Actions, AgentBatch
from rlcore.contracts.behavior_spec import BehaviorSpec
from rlcore.contracts.curriculum import PlayedParameters
from rlcore.contracts.environment import DrawsParameters, Environment, Parameters
from rlcore.contracts.policy import Player, Policy
from rlcore.contracts.recordings import EpisodeRecorder
from rlcore.contracts.results import BehaviorEvaluation, EvaluationResult, FinishedEpisodes, Lineup
from rlcore.contracts.seeding import EpisodeSeeds, ProcessGenerators, derive_seed
from rlcore.errors import EnvironmentFailed
from rlcore.plugins.context import RunContext
from rlcore.plugins.failures import blamed, policy_named
from rlcore.run.behaviors.checks import BatchCheck
from rlcore.run.behaviors.episodes import EpisodeStatistics, Info
from rlcore.settings import EnvironmentParameter

# Steps without an action, after which an evaluation does not wait for an agent's episode: where agents come and go, a
# slot may stay empty. One whose turn comes later waits for others whose episodes count.
AWAY = 1_000


class Abandoned(Exception):
    """Episodes were abandoned because a stop was requested; nothing was measured."""


def play(
    policies: Mapping[str, Policy],
    environment: PlayedEnvironment,
    episodes: int,
    seed: int,
    deterministic: bool,
    recorders: Mapping[str, EpisodeRecorder],
    max_episode_steps: int | None = None,
    stop_requested: Callable[[], bool] | None = None,
    lineup: Lineup | None = None,
) -> EvaluationResult:
    """Play until every environment has finished its share of ``episodes``. ``recorders`` record them, by behavior.

    An episode that has not ended after ``max_episode_steps`` environment steps counts as truncated there. Raises
    :class:`Abandoned` after the environment step in which ``stop_requested`` has become true.

    With a ``lineup`` for the same share, other policies play too: see :class:`rlcore.Lineup`.
    """
    share = shares(environment.num_envs, episodes)
    counted = {}
    for name, spec in environment.behaviors.items():
        left = share[spec.env_index].copy()
        counted[name] = _Counted(spec, left, recorders.get(name), environment.info)
    acting = policies
    unfinished: list[_Counted | Lineup] = [*counted.values()]
    if lineup is not None:
        acting = lineup.policies(policies)
        unfinished.append(lineup)
        for name, of_behavior in counted.items():
            of_behavior.players = lineup.players[name]
    players = {}
    for name, policy in acting.items():
        player = Player(policy, environment.behaviors[name].slots)
        players[name] = player
        with blamed(policy_named(name, policies[name]), "in seed"):
            player.policy.seed(derive_seed(seed, name))
    # Numbered from 0, whatever the training has played: equal seeds play equal episodes.
    first_episodes: NDArray[np.int64] = np.zeros(environment.num_envs, np.int64)
    batches = _begin(environment, seed, first_episodes, counted, lineup)
    while any(part.unfinished for part in unfinished):
        if stop_requested is not None and stop_requested():
            raise Abandoned
        if not any(part.playing for part in unfinished):  # all that is missing waits behind episodes without end
            batches = _begin(environment, seed, environment.episodes + 1, counted, lineup)
            for player in players.values():
                player.begin()
        actions = {}
        for name, player in players.items():
            with blamed(policy_named(name, policies[name]), "in act"):
                actions[name] = player.act(batches[name], deterministic)
        for name, recorder in recorders.items():
            recorder.act(batches[name], actions[name])
        batches = environment.step(actions)
        for name, of_behavior in counted.items():
            of_behavior.observe(batches[name], max_episode_steps)
        for name, player in players.items():
            player.observe(batches[name])
        if lineup is not None:
            lineup.observe(batches, environment.episodes, max_episode_steps)
    results = {}
    for name, of_behavior in counted.items():
        if of_behavior.returns:  # agents may all have been away
            results[name] = of_behavior.result()
    return EvaluationResult(results)


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
    for name, of_behavior in counted.items():
        of_behavior.begin(batches[name])
    if lineup is not None:
        lineup.begin(batches, environment.episodes)
    return batches


@attrs.define(eq=False)
class _Counted:
    """The episodes of one behavior that are part of the result."""

    spec: BehaviorSpec
    left: NDArray[np.int64]  # [S] episodes still to be counted
    recorder: EpisodeRecorder | None
    reported: Info = None
    players: NDArray[np.int64] = attrs.field(init=False)  # [S] 0 where the measured policy plays
    statistics: EpisodeStatistics = attrs.field(init=False)
    steps: int = 0  # environment steps
    began: NDArray[np.int64] = attrs.field(init=False)  # [S] the step at which the episode to be counted started
    waiting: NDArray[np.bool_] = attrs.field(init=False)  # [S] for a new episode: the open one was cut and still runs
    idle: NDArray[np.int64] = attrs.field(init=False)  # [S] steps since the agent acted; one that is away has many
    returns: list[float] = attrs.field(factory=list)
    group_returns: list[float] = attrs.field(factory=list)
    lengths: list[int] = attrs.field(factory=list)
    cut: int = 0
    info: dict[str, list[float]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        slots = self.spec.slots
        self.statistics = EpisodeStatistics(slots, self.reported)
        self.players = np.zeros(slots, np.int64)
        self.began = np.zeros(slots, np.int64)
        self.waiting = np.zeros(slots, np.bool_)
        self.idle = np.zeros(slots, np.int64)

    @property
    def _wanted(self) -> NDArray[np.bool_]:
        """[S] whether an episode is still to be counted, of an agent that is there."""
        return (self.left > 0) & (self.idle < AWAY)

    @property
    def unfinished(self) -> bool:
        return bool(self._wanted.any())

    @property
    def playing(self) -> bool:
        """Whether an episode to be counted is open."""
        open_episodes = self._wanted & ~self.waiting
        return bool(open_episodes.any())

    def begin(self, batch: AgentBatch) -> None:
        """All slots start an episode with ``batch``: the environment was reset."""
        self.statistics.begin(batch)
        self.began[:] = self.steps
        self.waiting[:] = False
        self.idle[:] = 0
        if self.recorder is not None:
            self.recorder.begin()

    def observe(self, batch: AgentBatch, max_steps: int | None) -> None:
        """Counts the episodes that ended in the latest step, and those that are open after ``max_steps`` of them."""
        self.steps += 1
        if batch.needs_action is None:
            self.idle[:] = 0
        else:
            self.idle += 1
            self.idle[batch.needs_action] = 0
        ended = batch.ended
        finished = self.statistics.record(batch)
        wanted = (self.left[ended] > 0) & ~self.waiting[ended]
        measured = wanted & (self.players[ended] == 0)
        if self.recorder is not None:
            self.recorder.observe(batch, ended[measured])
        if finished is not None:
            self._add(finished, measured)
            for name, column in finished.info.items():
                values = column[measured]
                finite = values[np.isfinite(values)]
                self.info.setdefault(name, []).extend(finite.tolist())
            self.left[ended[wanted]] -= 1
            self.began[ended] = self.steps
            self.waiting[ended] = False
        if max_steps is not None and self.steps >= max_steps:
            too_long = self.steps - self.began >= max_steps
            late = too_long & self._wanted & ~self.waiting
            if late.any():
                self._cut(np.flatnonzero(late), batch)

    def _add(self, episodes: FinishedEpisodes | EpisodeStatistics, rows: NDArray[Any]) -> None:
        returns = episodes.returns[rows]
        lengths = episodes.lengths[rows]
        self.returns += returns.tolist()
        self.lengths += lengths.tolist()
        if episodes.group_returns is not None:
            group_returns = episodes.group_returns[rows]
            self.group_returns += group_returns.tolist()

    def _cut(self, rows: NDArray[np.intp], batch: AgentBatch) -> None:
        """Counts the open episodes of ``rows``.

        A single environment cannot be reset, so these slots wait until all others have played their share.
        """
        self.left[rows] -= 1
        self.waiting[rows] = True
        rows = rows[self.players[rows] == 0]  # those of other policies are over too, and not measured
        self._add(self.statistics, rows)
        self.cut += len(rows)
        if self.recorder is not None:
            self.recorder.cut(batch, rows)

    def result(self) -> BehaviorEvaluation:
        mean_group_reward = None
        if self.group_returns:
            mean_group_reward = float(np.mean(self.group_returns))
        info = {}
        for name, values in self.info.items():
            if values:
                info[name] = tuple(values)
        return BehaviorEvaluation(
            mean_reward=float(np.mean(self.returns)),
            std_reward=float(np.std(self.returns)),
            episodes=len(self.returns),
            mean_length=float(np.mean(self.lengths)),
            returns=tuple(self.returns),
            mean_group_reward=mean_group_reward,
            lengths=tuple(self.lengths),
            cut=self.cut,
            info=info,
        )


# ---------------------------------------------------------------- the environment


class PlayedEnvironment:
    """An environment that is one itself: it names the environment inside in errors, and sets the parameters there.

    Attributes:
        behaviors: The behaviors by name.
        num_envs: N, the number of environments.
        episodes: [N] number of the episode that each environment is in.
        feed: Sets what episodes start with; None if the environment has no parameters.
        drawing: The environment if it draws parameters by itself, else None.
        info: The numbers of ended episodes that count, as ``environment.info`` says.
    """

    def __init__(
        self,
        environment: Environment,
        named: str = "environment",
        feed: PlayedParameters | None = None,
        info: Info = None,
    ) -> None:
        """``named`` is what messages call the environment."""
        self.info = info
        self.behaviors: Mapping[str, BehaviorSpec] = environment.behaviors
        self.num_envs = environment.num_envs
        self.episodes: NDArray[np.int64] = environment.episodes
        self.named = named
        self.feed = feed
        self.drawing = environment if isinstance(environment, DrawsParameters) else None
        self._environment = environment
        self._checks = {}
        for name, spec in self.behaviors.items():
            self._checks[name] = BatchCheck(spec, lambda: "while evaluating")

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Begin episode ``episodes[c]`` in every environment c. Raises EnvironmentFailed."""
        for check in self._checks.values():
            check.environment = self.named
            check.began = None if self.feed is None else self.feed.described
        if self.feed is not None:
            self.feed.before_reset(episodes)
        ProcessGenerators.seed(seeds, episodes)
        with blamed(self.named, "in reset", EnvironmentFailed):
            batches = self._environment.reset(seeds, episodes)
        self.episodes = self._environment.episodes
        if self.feed is not None:
            self.feed.after_reset(episodes)
        return self._checked(batches, "reset")

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        """Move every environment once. Raises EnvironmentFailed."""
        with blamed(self.named, "in step", EnvironmentFailed):
            batches = self._environment.step(actions)
        self.episodes = self._environment.episodes
        checked = self._checked(batches, "step")
        if self.feed is not None:
            self.feed.after_step()
        return checked

    def set_parameters(self, parameters: Parameters) -> None:
        """Set parameters of the next episodes that the task does not set."""
        self._environment.set_parameters(parameters)

    @property
    def close_seconds(self) -> float:
        """How long :meth:`close` may take; 0 if the environment does not say."""
        return float(getattr(self._environment, "close_seconds", 0.0))

    def close(self) -> None:
        """Close the environment. Raises EnvironmentFailed."""
        with blamed(self.named, "in close", EnvironmentFailed):
            self._environment.close()

    def _checked(self, batches: Mapping[str, AgentBatch], doing: str) -> dict[str, AgentBatch]:
        """Raises EnvironmentFailed unless ``doing`` returned what every behavior's spec says."""
        return {name: check.batch_in(batches, doing) for name, check in self._checks.items()}


def target_parameters(
    parameters: Mapping[str, EnvironmentParameter],
    run: RunContext,
    environment: Environment,
    named: str,
    drawing: DrawsParameters | None = None,
) -> PlayedParameters | None:
    """The object that sets the task of training in ``environment``; None if it has no parameters."""
    if not parameters:
        return None
    source = run.plugins.parameter_source()
    return source.play(parameters, run, environment, named, drawing)
