"""Prioritized level replay, compared with the formulas of its paper applied to a list of episodes per level."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore import RunStateError
from rlcore_curriculum.adaptive_curricula.prioritized_levels import PrioritizedLevels
from rlcore_curriculum.adaptive_curricula.prioritized_levels_settings import PrioritizedLevelsSettings

Block = dict[str, Any]
SEEDS: Block = {"levels": 6, "refresh": 1, "temperature": 0.5, "staleness": 0.2}


@pytest.fixture(scope="session")
def made(simulation: Any) -> Callable[..., PrioritizedLevels]:
    """Create the curriculum of parameters: ``made(seed=SEEDS)``."""

    def make(**blocks: Block) -> PrioritizedLevels:
        return PrioritizedLevels({n: PrioritizedLevelsSettings(**block) for n, block in blocks.items()}, simulation.run)

    return make


def weights_of_a_window(count: int, memory: int, prior: int = 0) -> np.ndarray:
    """Return the weights of ``count`` values in a running mean with ``prior`` values before them, [count].

    Up to ``memory`` values have equal weights. Each later one has a share of 1 / (memory + prior), which reduces the
    weights of the earlier values.
    """
    full = memory + prior
    newer = np.maximum(count - np.maximum(np.arange(1, count + 1), memory), 0)
    return (1.0 - 1.0 / full) ** newer / min(max(count, 1) + prior, full)


def score_of(measures: list[float], block: Block) -> float:
    """Return the score of a level whose episodes ended with these measures, in closed form."""
    memory = block["memory"]
    if block["score"] == "learnability":
        successes = np.array([measure >= block["success"] for measure in measures])
        weights = weights_of_a_window(len(measures), memory, prior=2)
        rate = weights @ successes + (1.0 - weights.sum()) / 2  # one of the two episodes before was a success
        return float(rate * (1.0 - rate))
    if len(measures) == 1:
        return math.inf
    changes = np.abs(np.diff(measures))
    return float(weights_of_a_window(len(changes), memory) @ changes)


def replay_shares(scores: np.ndarray, ended: np.ndarray, total: int, temperature: float, rho: float) -> np.ndarray:
    """Return P_replay of Jiang et al. 2021, equations 1 to 3, for levels with these scores.

    The latest episode of a level was number ``ended`` of ``total``. The rank of a level is its mean over all orders of
    levels with equal scores: each of the others is in front of it in half of them.
    """
    rank = np.ones(len(scores))
    for level, score in enumerate(scores):
        for other in np.delete(scores, level):
            rank[level] += 0.5 if np.isclose(other, score, rtol=1e-9, atol=1e-12) else float(other > score)
    by_score = np.exp(-np.log(rank) / temperature)
    staleness = total - ended
    by_age = staleness / staleness.sum() if staleness.any() else np.full(len(scores), 1 / len(scores))
    return (1.0 - rho) * by_score / by_score.sum() + rho * by_age


class PlainReplay:
    """A replay whose scores are sums over all episodes of a level, and whose ranks count pairs of levels."""

    def __init__(self, block: Block, uniform_of: Callable[..., list[float]]) -> None:
        self.block, self.uniform_of = {"score": "change", "memory": 10, "replay_probability": None} | block, uniform_of
        self.played: dict[int, list[tuple[int, float]]] = {}  # level: when it ended, and its measure
        self.total = self.counted = 0
        self.shares: dict[int, float] = {}

    def draw(self, env: int, episode: int) -> tuple[tuple[float, ...], int]:
        again, which = self.uniform_of("parameters/seed", env, episode, 2)
        new = [level for level in range(self.block["levels"]) if level not in self.shares]
        share = len(self.shares) / self.block["levels"]
        if self.block["replay_probability"] is not None and 0 < share < 1:
            share = self.block["replay_probability"]
        if again >= share:
            level = new[int(which * len(new))]
        else:
            below = 0.0
            for level in sorted(self.shares):
                below += self.shares[level]
                if which < below:
                    break
        return (float(level + self.block.get("first_level", 0)),), level

    def ended(self, told: int, measure: float) -> None:
        self.total += 1
        self.counted += 1
        self.played.setdefault(told, []).append((self.total, measure))

    def redraw(self) -> bool:
        if self.counted < self.block["refresh"]:
            return False
        self.counted = 0
        levels = sorted(self.played)
        scores = np.array([score_of([measure for _, measure in self.played[level]], self.block) for level in levels])
        ended = np.array([self.played[level][-1][0] for level in levels])
        shares = replay_shares(scores, ended, self.total, self.block["temperature"], self.block["staleness"])
        self.shares = dict(zip(levels, shares.tolist(), strict=True))
        return True


def outcome(values: Any, noise: float) -> float:
    return round(noise * (1 + float(values[0])), 1)


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    made: Block = {
        "levels": draw(st.integers(1, 12)),
        "first_level": draw(st.sampled_from([0, 100])),
        "refresh": draw(st.integers(1, 5)),
        "temperature": draw(st.sampled_from([0.1, 0.5, 2.0])),
        "staleness": draw(st.sampled_from([0.0, 0.3, 1.0])),
        "memory": draw(st.integers(1, 4)),
        "replay_probability": draw(st.sampled_from([None, 0.5, 1.0])),
    }
    return made | draw(st.sampled_from([{}, {"score": "learnability", "success": 1.0}]))


@settings(deadline=None)
@given(block=blocks(), seed=st.integers(0, 10_000), steps=st.integers(5, 80))
def test_it_is_the_plain_model(simulation: Any, made: Any, block: Block, seed: int, steps: int) -> None:
    curriculum = made(seed=block)
    loop = simulation.loop(curriculum, outcome, seed)
    for _ in range(steps):
        loop.step()
    model = PlainReplay(block, simulation.uniform_of)
    assert loop.begun == simulation.plain_loop(model, outcome, seed, steps)
    shares = curriculum.parts["seed"].shares
    expected = [model.shares.get(level, 0.0) for level in range(block["levels"])]
    np.testing.assert_allclose(shares, expected, rtol=1e-9, atol=1e-15)


def play(curriculum: PrioritizedLevels, told: Any, episodes: list[tuple[int, float]]) -> None:
    for level, measure in episodes:
        curriculum.episodes_ended(told([[level]], [measure]))
        curriculum.advance({})


@pytest.mark.parametrize(
    ("change", "message"),
    [({"levels": 7}, r"levels: the checkpoint has 6, this configuration 7"),
     ({"score": "learnability", "success": 1.0}, r"score: the checkpoint has change, this configuration learnability")],
)  # fmt: skip
def test_a_state_of_other_settings_is_refused(made: Any, change: Block, message: str) -> None:
    with pytest.raises(RunStateError, match=r"seed\.curriculum\." + message):
        made(seed=SEEDS | change).load_state_dict(made(seed=SEEDS).state_dict())


def test_the_largest_number_draws_the_last_level_although_the_shares_add_up_to_less_than_1(made: Any) -> None:
    replay = made(seed=SEEDS | {"levels": 10}).parts["seed"]
    replay.load_state_dict(replay.state_dict() | {"shares": np.full(10, 0.1), "played": np.ones(10, np.bool_)})
    assert replay.draw(np.array([[0.0, np.nextafter(1.0, 0.0)]])).tolist() == [9]


def test_stats_and_status_show_the_repeated_levels(made: Any, told: Any) -> None:
    curriculum = made(seed=SEEDS | {"staleness": 0.0})
    play(curriculum, told, [(0, 0.0), (0, 1.0), (3, 0.0)])
    assert curriculum.parts["seed"].known.scores()[[0, 3]].tolist() == [1.0, math.inf]
    entropy = -(0.8 * math.log(0.8) + 0.2 * math.log(0.2))
    assert curriculum.stats() == {
        "Environment/Levels Played/seed": 2.0,
        "Environment/Replay Share/seed": pytest.approx(1 / 3),
        "Environment/Effective Levels/seed": pytest.approx(math.exp(entropy)),
    }
    assert curriculum.status()["seed"] == {
        "lesson": "2 of 6 levels", "measure": "change", "episodes_left": 1, "replay_share": pytest.approx(1 / 3),
    }  # fmt: skip
