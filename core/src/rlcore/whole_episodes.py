"""Playing whole episodes with policies that learn nothing: each copy of an environment its share of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.blame import environment_does
from rlcore.environment import AgentBatch, BehaviorSpec, Environment
from rlcore.episode_tap import EpisodeTap
from rlcore.errors import NonFiniteError
from rlcore.parameter_feed import ParameterFeed
from rlcore.results import BehaviorEvaluation, EvaluationResult
from rlcore.seeding import EpisodeSeeds, derive_seed
from rlcore.stats import EpisodeRecorder
from rlcore.trainer import Policy


class Abandoned(Exception):
    """Episodes were left half way because a stop was asked for; nothing was measured."""


def play(
    policies: Mapping[str, Policy],
    environment: Environment,
    episodes: int,
    seed: int,
    deterministic: bool,
    taps: Mapping[str, EpisodeTap],
    feed: ParameterFeed | None = None,
    max_episode_steps: int | None = None,
    stop_requested: Callable[[], bool] | None = None,
) -> EvaluationResult:
    """Plays until every copy has finished its share of ``episodes``, which ``taps`` of behaviors catch.

    ``feed`` says what episodes begin with, where the environment has parameters. An episode that has not ended after
    ``max_episode_steps`` environment steps counts as truncated there. Raises :class:`Abandoned` after the environment
    step in which ``stop_requested`` has become true.

    Each copy's share is fixed beforehand: taking the first episodes to finish would favour short ones.
    """
    share = np.full(environment.num_envs, episodes // environment.num_envs)
    share[: episodes % environment.num_envs] += 1
    counted = {
        name: _Counted(spec, share[spec.env_index].copy(), taps.get(name))
        for name, spec in environment.behaviors.items()
    }
    for name, policy in policies.items():
        policy.seed(derive_seed(seed, name))
    batches = _begin(environment, seed, np.zeros(environment.num_envs, np.int64), feed, counted)
    while any(each.unfinished for each in counted.values()):
        if stop_requested is not None and stop_requested():
            raise Abandoned
        if not any(each.playing for each in counted.values()):  # all that is missing waits behind episodes without end
            batches = _begin(environment, seed, environment.episodes + 1, feed, counted)
        actions = {
            name: policies[name].act(batch.observations, batch.action_mask, deterministic)
            for name, batch in batches.items()
        }
        for name, tap in taps.items():
            tap.act(batches[name], actions[name])
        with environment_does(environment, "step"):
            batches = environment.step(actions)
        for name, batch in batches.items():
            refuse_non_finite(batch, environment.behaviors[name], feed)
        if feed is not None:
            feed.restage(feed.after_step())
        for name, batch in batches.items():
            counted[name].observe(batch, max_episode_steps)
    return EvaluationResult({name: each.result() for name, each in counted.items()})


def _begin(
    environment: Environment,
    seed: int,
    episodes: NDArray[np.int64],
    feed: ParameterFeed | None,
    counted: Mapping[str, _Counted],
) -> Mapping[str, AgentBatch]:
    """Every copy c begins episode ``episodes[c]``."""
    if feed is not None:
        feed.before_reset(episodes)
    with environment_does(environment, "reset"):
        batches = environment.reset(EpisodeSeeds(seed), episodes)
    if feed is not None:
        feed.after_reset(episodes)
    for name, batch in batches.items():
        refuse_non_finite(batch, environment.behaviors[name], feed)
        counted[name].begin()
    return batches


@attrs.define(eq=False)
class _Counted:
    """The episodes of one behavior that are part of the result."""

    spec: BehaviorSpec
    left: NDArray[np.int64]  # [S] episodes still to be counted
    tap: EpisodeTap | None
    recorder: EpisodeRecorder = attrs.field(init=False)
    taken: int = 0  # environment steps
    began: NDArray[np.int64] = attrs.field(init=False)  # [S] the step at which the episode to be counted began
    waiting: NDArray[np.bool_] = attrs.field(init=False)  # [S] for a new episode: the open one was cut and goes on
    returns: list[float] = attrs.field(factory=list)
    group_returns: list[float] = attrs.field(factory=list)
    lengths: list[int] = attrs.field(factory=list)
    cut: int = 0

    def __attrs_post_init__(self) -> None:
        self.recorder = EpisodeRecorder(self.spec.slots)
        self.began = np.zeros(self.spec.slots, np.int64)
        self.waiting = np.zeros(self.spec.slots, np.bool_)

    @property
    def unfinished(self) -> bool:
        return bool((self.left > 0).any())

    @property
    def playing(self) -> bool:
        """Whether an episode to be counted is open."""
        return bool(((self.left > 0) & ~self.waiting).any())

    def begin(self) -> None:
        """All slots begin an episode: the environment was reset."""
        self.recorder.begin()
        self.began[:] = self.taken
        self.waiting[:] = False
        if self.tap is not None:
            self.tap.begin()

    def observe(self, batch: AgentBatch, max_steps: int | None) -> None:
        """Counts the episodes that ended in the latest step, and those that are open after ``max_steps`` of them."""
        self.taken += 1
        ended = batch.ended
        self.recorder.record(batch)
        wanted = (self.left[ended] > 0) & ~self.waiting[ended]
        if self.tap is not None:
            self.tap.observe(batch, ended[wanted])
        if ended.size:
            own, of_group, took = self.recorder.take_finished()
            self.returns.extend(np.array(own)[wanted].tolist())
            if of_group:
                self.group_returns.extend(np.array(of_group)[wanted].tolist())
            self.lengths.extend(np.array(took)[wanted].tolist())
            self.left[ended[wanted]] -= 1
            self.began[ended] = self.taken
            self.waiting[ended] = False
        if max_steps is not None and self.taken >= max_steps:
            late = (self.taken - self.began >= max_steps) & (self.left > 0) & ~self.waiting
            if late.any():
                self._cut(np.flatnonzero(late), batch)

    def _cut(self, rows: NDArray[np.intp], batch: AgentBatch) -> None:
        """Counts the open episodes of ``rows``.

        A single copy cannot be reset, so these slots wait until all others have played their share.
        """
        recorder = self.recorder
        self.returns.extend(recorder.returns[rows].tolist())
        if recorder.shared:
            self.group_returns.extend(recorder.group_returns[rows].tolist())
        self.lengths.extend(recorder.lengths[rows].tolist())
        self.left[rows] -= 1
        self.waiting[rows] = True
        self.cut += len(rows)
        if self.tap is not None:
            self.tap.cut(batch, rows)

    def result(self) -> BehaviorEvaluation:
        return BehaviorEvaluation(
            mean_reward=float(np.mean(self.returns)),
            std_reward=float(np.std(self.returns)),
            episodes=len(self.returns),
            mean_length=float(np.mean(self.lengths)),
            returns=tuple(self.returns),
            mean_group_reward=float(np.mean(self.group_returns)) if self.group_returns else None,
            cut=self.cut,
        )


def refuse_non_finite(batch: AgentBatch, spec: BehaviorSpec, feed: ParameterFeed | None) -> None:
    """Raises NonFiniteError for a NaN or an infinity in rewards or observations, with what its episode began with."""
    everyone = np.arange(spec.slots)
    played = [("reward", batch.reward, everyone), ("group reward", batch.group_reward, everyone)]
    for observation in spec.observations:
        if observation.dtype.kind == "f":
            name = observation.name
            played.append((f"observation {name!r}", batch.observations[name], everyone))
            if batch.final_observations is not None and batch.ended.size:
                played.append((f"final observation {name!r}", batch.final_observations[name], batch.ended))
    for what, values, slots in played:
        if values is not None and not isfinite(np.vdot(values, values)):
            _refuse_row(what, values, slots, spec, feed)


def _refuse_row(
    what: str, values: NDArray[Any], slots: NDArray[np.intp], spec: BehaviorSpec, feed: ParameterFeed | None
) -> None:
    """Raises NonFiniteError for the first of ``values`` [K, ...] that is not finite, if any is."""
    for row in np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1)).tolist():
        slot, copy = int(slots[row]), int(spec.env_index[slots[row]])
        shown = f"{values[row]:g}" if values.ndim == 1 else np.array2string(values[row], threshold=8)
        began = "" if feed is None else f" (its episode began with {feed.described(copy, what.startswith('observ'))})"
        raise NonFiniteError(
            f"behavior {spec.name!r}: {what} of slot {slot} (environment copy {copy}) is {shown} while evaluating; "
            f"mend the environment, or wrap it to keep its values finite{began}"
        )
