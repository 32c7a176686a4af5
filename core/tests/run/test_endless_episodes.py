"""Episodes of an evaluation that have no end: each is cut at a limit, and those that end are as they would be."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlcore.contracts.batches import Actions
from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationSpec
from rlcore.contracts.recordings import Recording
from rlcore.run.evaluation.episodes import PlayedEnvironment, play
from rlcore_devkit.environments import ArrayEnvironment
from rlcore_devkit.fixtures import RunRlcore
from rlcore_offline import SlotRecorder, recording_problem


class Guesses:
    """A policy that draws its actions."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)

    def seed(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def act(self, observations: Any, action_mask: Any = None, deterministic: bool = True) -> Any:
        rows = len(next(iter(observations.values())))
        return Actions(discrete=self.generator.integers(2, size=(rows, 1)))


class Counting(ArrayEnvironment):
    """Episode e of copy c takes ``lengths[c][e]`` steps, 0 being endless; each step is rewarded with its number.

    The last of ``lengths[c]`` is that of all later ones.
    """

    def __init__(self, lengths: list[list[int]]) -> None:
        self.lengths = lengths
        observation = ObservationSpec("step", (1,), np.float32)
        super().__init__(BehaviorSpec("A", (observation,), discrete=(2,), env_index=np.arange(len(lengths))))
        self.resets = 0

    def reset(self, seeds: Any, episodes: Any) -> Any:
        self.resets += 1
        return super().reset(seeds, episodes)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        """Steps are all there is."""

    def advance(self, actions: Any) -> Any:
        reward = (self._steps + 1).astype(np.float32)
        wanted = np.array(
            [lengths[min(e, len(lengths) - 1)] for lengths, e in zip(self.lengths, self.episodes, strict=True)]
        )
        return reward, self._steps + 1 == wanted

    def observe(self) -> Any:
        return {"step": self._steps[:, None].astype(np.float32)}


def returns(lengths: list[list[int]], episodes: int, limit: int | None, recorders: Any = None) -> Any:
    environment = Counting(lengths)
    result = play({"A": Guesses()}, PlayedEnvironment(environment), episodes, 0, True, recorders or {}, limit)
    return result.behaviors["A"], environment


def test_an_episode_without_end_is_counted_up_to_the_limit_and_the_copy_goes_on_with_its_next_one() -> None:
    """Copy 0 waits for the others after its endless episode; its next one begins with a reset."""
    result, environment = returns([[0, 3, 9], [2, 2, 9], [4, 4, 9]], 6, 10)
    assert sorted(result.returns) == sorted([sum(range(11)), 6.0, 3.0, 3.0, 10.0, 10.0])
    assert result.episodes == 6 and result.cut == 1 and environment.resets == 2
    assert result.mean_length == pytest.approx((10 + 3 + 2 + 2 + 4 + 4) / 6)


def test_an_episode_that_was_cut_and_ends_by_itself_is_not_counted_again() -> None:
    """Copy 0 would take 12 steps; copy 1 plays on meanwhile, so that copy 0 begins its next one without a reset."""
    result, environment = returns([[12, 3, 9], [9, 9, 9]], 4, 10)
    assert result.returns == (sum(range(10)), sum(range(11)), 6.0, sum(range(10)))
    assert result.cut == 1 and environment.resets == 1


def test_what_is_cut_is_recorded_as_truncated() -> None:
    caught: list[Recording] = []
    recorder = SlotRecorder(Counting([[0]]).behaviors["A"], caught.append)
    result, _ = returns([[0, 3, 9]], 2, 5, {"A": recorder})
    assert [float(each.reward.sum()) for each in caught] == list(result.returns) == [15.0, 6.0]
    endless, whole = caught
    assert recording_problem(endless) is None and recording_problem(whole) is None
    assert endless.truncated.tolist() == [False] * 4 + [True] and not endless.terminated.any()
    assert endless.observations["step"][:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert whole.terminated.tolist() == [False, False, True]


# ---------------------------------------------------------------- agents that are away


class Leaving(Counting):
    """The agent of copy 1 acts from step ``arrives`` on, and stops where ``leaves`` says."""

    def __init__(self, lengths: list[list[int]], arrives: int, leaves: int) -> None:
        super().__init__(lengths)
        self.arrives, self.leaves, self.taken = arrives, leaves, 0

    def step(self, actions: Any) -> Any:
        self.taken += 1
        batches = super().step(actions)
        batch = batches["A"]
        there = self.arrives <= self.taken < self.leaves
        batch.needs_action = np.array([True, there])
        batch.reward = np.where(batch.transition_closed, batch.reward, 0).astype(np.float32)
        return batches


@pytest.mark.parametrize(
    ("lengths", "arrives", "leaves", "expected"),
    [
        ([[3], [0]], 9_999, 9_999, [6.0]),  # a slot without an agent
        ([[3], [2, 0]], 1, 50, [6.0, 3.0]),  # an agent that leaves after its episode
        ([[3], [60]], 50, 9_999, [6.0, sum(range(50, 61))]),  # an agent that comes later is waited for
        ([[1500], [1200]], 1100, 9_999, [sum(range(1501)), sum(range(1100, 1201))]),  # also for long, while others play
    ],
)
def test_an_agent_that_is_away_is_not_waited_for(
    lengths: list[list[int]], arrives: int, leaves: int, expected: list[float]
) -> None:
    environment = Leaving(lengths, arrives, leaves)
    result = play({"A": Guesses()}, PlayedEnvironment(environment), 2, 0, True, {}, 10_000)
    assert sorted(result.behaviors["A"].returns) == sorted(expected)
    assert result.behaviors["A"].cut == 0 and environment.taken < 2_000


# ---------------------------------------------------------------- in runs


def test_a_run_says_once_that_episodes_were_cut_and_goes_on(
    make_run: Any, files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A policy that always walks left never arrives."""
    run = make_run({"evaluation": {"interval": 50, "episodes": 4, "max_episode_steps": 6}})
    run.train()
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    (line,) = [each for each in told if each.startswith("evaluation: ")]
    assert "of 4 episodes had not ended after 6 environment steps and count as truncated there" in line
    assert run.outcome == "done" and files().result["evaluation"]["score"] is not None


def test_the_limit_is_an_option_of_evaluate_too(
    make_run: Any, files: Any, configure: Any, run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    make_run().train()
    free = run_rlcore("evaluate", files().path, "--stochastic")
    assert free.exit_code == 0 and "had not ended" not in free.stderr
    cut = run_rlcore("evaluate", files().path, "--stochastic", "--max-episode-steps", "1")
    assert cut.exit_code == 0 and "episodes of 1.0 steps" in cut.stdout
    assert "had not ended after 1 environment steps and count as truncated there" in cut.stderr
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(configure({"evaluation": {"interval": 50, "max_episode_steps": 0}})))
    assert run_rlcore("validate", path).exit_code == 2
