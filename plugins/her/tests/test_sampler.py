"""The goals, rewards and ends of relabeled transitions, compared with a log of what happened."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore import (
    AgentBatch,
    BehaviorSpec,
    ConfigError,
    ObservationSpec,
    RunConfig,
    RunContext,
    SettingError,
    load_plugins,
)
from rlcore_her.sampler import HindsightSampler
from rlcore_her.settings import HindsightSettings
from rlcore_torch import ReplayBuffer, Sample

pytestmark = pytest.mark.smoke

Array = NDArray[Any]
NO_GOAL = -1.0


class Parity:
    """Rules of numbers as goals: a reward of 10 if both are even or both odd; a multiple of 5 ends the episode."""

    def reward(self, achieved: Array, desired: Array) -> Array:
        return np.where((achieved + desired)[:, 0] % 2 == 0, 10.0, -3.0).astype(np.float32)

    def terminated(self, achieved: Array, desired: Array) -> Array | None:
        return achieved[:, 0] % 5 == 0


class Endless(Parity):
    """An environment without ``compute_terminated``."""

    def terminated(self, achieved: Array, desired: Array) -> Array | None:
        return None


def behavior(slots: int = 1, rules: Any = None, **shapes: Any) -> BehaviorSpec:
    shapes = shapes or {"achieved_goal": (1,), "desired_goal": (1,)}
    observations = tuple(ObservationSpec(name, shape, np.float32) for name, shape in shapes.items())
    return BehaviorSpec("Agent", observations, 1, env_index=np.arange(slots), goal_rules=rules)


def sampler(spec: BehaviorSpec, tmp_path: Path, **settings: Any) -> HindsightSampler:
    run = RunContext(RunConfig(), load_plugins(), tmp_path, 1, spec.slots)
    return HindsightSampler(HindsightSettings(type="her", **settings), spec, run)


class Log:
    """Plays episodes into a replay buffer. Every observation achieves a number that no other one achieves."""

    def __init__(self, spec: BehaviorSpec, rows_per_slot: int) -> None:
        self.slots = spec.slots
        self.buffer = ReplayBuffer(spec, rows_per_slot * self.slots)
        self.numbers = 0
        self.episodes: list[list[list[float]]] = [[[]] for _ in range(self.slots)]  # what each slot's episodes achieved
        self.buffer.begin(self._batch())

    def step(self, **flags: Any) -> None:
        """One step of all slots; ``terminated``, ``truncated`` and ``aborted`` list slots."""
        self.buffer.act(np.zeros((self.slots, 1), np.float32), None)
        self.buffer.observe(self._batch(**flags))

    def _batch(self, terminated: Any = (), truncated: Any = (), aborted: Any = ()) -> AgentBatch:
        ended = sorted([*terminated, *truncated])
        lost = list(aborted)
        finals = None
        if ended:
            finals = self._seen(ended)
        for slot in [*ended, *lost]:
            self.episodes[slot].append([])
        masks = [np.isin(np.arange(self.slots), slots) for slots in (terminated, truncated, lost)]
        return AgentBatch(
            self._seen(range(self.slots)), np.full(self.slots, 0.5, np.float32), masks[0], masks[1],
            final_observations=finals, aborted=masks[2],
        )  # fmt: skip

    def _seen(self, slots: Any) -> dict[str, Array]:
        achieved = []
        for slot in slots:
            self.numbers += 1
            self.episodes[slot][-1].append(self.numbers)
            achieved.append([self.numbers])
        return {
            "achieved_goal": np.array(achieved, np.float32),
            "desired_goal": np.full((len(achieved), 1), NO_GOAL, np.float32),
        }

    def episode_of(self, achieved: float) -> tuple[list[float], int]:
        """The episode with an observation that achieved this number, and its place there."""
        for episodes in self.episodes:
            for episode in episodes:
                if achieved in episode:
                    return episode, episode.index(achieved)
        raise AssertionError(achieved)


def played(spec: BehaviorSpec, steps: int, rows_per_slot: int) -> Log:
    """Episodes of different lengths in each slot, which end in every way; the last ones are open."""
    log = Log(spec, rows_per_slot)
    chance = np.random.default_rng(3)
    for _ in range(steps):
        how = chance.choice(4, size=spec.slots, p=(0.85, 0.05, 0.05, 0.05))
        log.step(**{name: np.flatnonzero(how == k) for k, name in enumerate(("terminated", "truncated", "aborted"), 1)})
    return log


def reachable(strategy: str, episode: list[float], place: int) -> list[float]:
    """The numbers that a transition from ``place`` of an episode may get as its goal."""
    return {"future": episode[place + 1 :], "final": episode[-1:], "episode": episode[1:]}[strategy]


def drawn(log: Log, hindsight: HindsightSampler, size: int = 4000) -> tuple[Sample, Array]:
    """A sample, and which of its rows have another goal."""
    sample = hindsight.sample(log.buffer, size, np.random.default_rng(7), 0.5)
    assert sample.steps is not None
    return sample, sample.steps.observations["desired_goal"][:, 0] != NO_GOAL


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
@pytest.mark.parametrize(
    ("steps", "rows"), [(1, 200), (40, 200), (400, 90), (300, 300)], ids=["one", "filling", "wrapped", "long"]
)
def test_goals_are_those_that_the_strategy_allows_and_each_of_them_is_drawn(
    tmp_path: Path, strategy: str, steps: int, rows: int
) -> None:
    """The ring is filling, full and written several times. ``long`` has episodes of more than a hundred steps."""
    spec = behavior(2)
    log = played(spec, steps, rows) if steps != 300 else Log(spec, rows)
    for _ in range(steps if steps == 300 else 0):
        log.step(truncated=[0] if log.numbers == 281 else [])
    sample, relabeled = drawn(log, sampler(spec, tmp_path, strategy=strategy, tolerance=0.0, relabeled=1.0))
    assert relabeled.all()
    goals = sample.steps.observations["desired_goal"][:, 0]
    now = sample.steps.observations["achieved_goal"][:, 0]
    np.testing.assert_array_equal(goals, sample.steps.next_observations["desired_goal"][:, 0])
    there = set(log.buffer.observations["achieved_goal"][: log.buffer.filled, 0].tolist())
    of_first: dict[float, set[float]] = {}
    for achieved, goal in zip(now.tolist(), goals.tolist(), strict=True):
        episode, place = log.episode_of(achieved)
        assert goal in reachable(strategy, episode, place)
        of_first.setdefault(achieved, set()).add(goal)
    # A short episode: all of its goals that are still stored, with the transition before them, come up.
    found = 0
    for achieved, goals_of_row in of_first.items():
        episode, place = log.episode_of(achieved)
        stored = [n for before, n in pairwise(episode) if {before, n} <= there]
        wanted = set(reachable(strategy, episode, place)) & set(stored)
        if len(wanted) <= 3 and steps <= 40:
            assert goals_of_row == wanted
            found += 1
    assert found or steps > 40


def test_the_share_of_relabeled_transitions_is_the_one_of_the_settings(tmp_path: Path) -> None:
    log = played(behavior(), 300, 400)
    for share in (0.0, 0.8, 1.0):
        _, relabeled = drawn(log, sampler(behavior(), tmp_path, tolerance=0.0, relabeled=share))
        assert relabeled.mean() == pytest.approx(share, abs=0.02)


def test_rewards_and_ends_are_computed_for_the_new_goal_and_no_other_row_changes(tmp_path: Path) -> None:
    spec = behavior(2, Parity())
    log = played(spec, 200, 300)
    sample, relabeled = drawn(log, sampler(spec, tmp_path))
    steps = sample.steps
    stored = log.buffer.transitions(sample.rows)
    reached = steps.next_observations["achieved_goal"][:, 0]
    goals = steps.observations["desired_goal"][:, 0]
    even = (reached + goals) % 2 == 0
    np.testing.assert_array_equal(steps.reward, np.where(relabeled, np.where(even, 10.0, -3.0), 0.5))
    np.testing.assert_array_equal(steps.terminated, np.where(relabeled, reached % 5 == 0, stored.terminated))
    assert (steps.terminated & ~stored.terminated).any() and (stored.terminated & ~steps.terminated).any()
    np.testing.assert_array_equal(steps.truncated, stored.truncated)


def test_an_environment_that_does_not_say_what_ends_an_episode_keeps_its_ends(tmp_path: Path) -> None:
    spec = behavior(2, Endless())
    log = played(spec, 200, 300)
    sample, relabeled = drawn(log, sampler(spec, tmp_path))
    stored = log.buffer.transitions(sample.rows)
    np.testing.assert_array_equal(sample.steps.terminated, stored.terminated)
    assert (stored.terminated & relabeled).any()


@pytest.mark.parametrize("ends", [False, True])
def test_with_a_tolerance_rewards_are_zero_near_the_goal_and_minus_one_elsewhere(tmp_path: Path, ends: bool) -> None:
    spec = behavior()
    log = played(spec, 200, 300)
    sample, relabeled = drawn(log, sampler(spec, tmp_path, tolerance=2.0, ends_at_goal=ends, relabeled=1.0))
    reached, goals = (
        sample.steps.next_observations[name][:, 0].astype(float) for name in ("achieved_goal", "desired_goal")
    )
    near = abs(reached - goals) <= 2.0
    assert near.any() and not near.all() and relabeled.all()
    np.testing.assert_array_equal(sample.steps.reward, np.where(near, 0.0, -1.0))
    np.testing.assert_array_equal(sample.steps.terminated, near if ends else np.zeros_like(near))


def test_an_episode_that_a_reset_cut_is_not_joined_with_the_next_one(tmp_path: Path) -> None:
    """A run that is resumed without the state of its environment resets it while episodes are open."""
    spec = behavior()
    log = Log(spec, 50)
    for _ in range(5):
        log.step()
    log.episodes[0].append([])
    log.buffer.begin(log._batch())
    for _ in range(5):
        log.step()
    sample, _ = drawn(log, sampler(spec, tmp_path, strategy="final", tolerance=0.0, relabeled=1.0))
    last = {episode[-1] for episode in log.episodes[0]}
    assert len(last) == 2
    assert set(sample.steps.observations["desired_goal"][:, 0].tolist()) == last


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"seen": (3,)}, "needs the observations achieved_goal and desired_goal of a goal environment, and there are "),
        ({"achieved_goal": (2,), "desired_goal": (3,)}, "their shapes are [2] and [3]; choose another sampler"),
        ({"achieved_goal": (2,), "desired_goal": (2,)}, "has no method compute_reward(achieved_goal, desired_goal, "),
    ],
)
def test_agents_without_goals_and_environments_without_rules_are_refused(
    tmp_path: Path, shapes: dict[str, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        sampler(behavior(**shapes), tmp_path)
    assert message in str(refused.value)
    assert "behaviors.Agent.hyperparameters.replay_sampler" in str(refused.value)


def test_ends_at_goal_needs_a_tolerance() -> None:
    with pytest.raises(SettingError, match="needs tolerance"):
        HindsightSettings(type="her", ends_at_goal=True)
    assert HindsightSettings(type="her", ends_at_goal=True, tolerance=0.1).ends_at_goal
