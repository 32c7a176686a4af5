"""Automatic domain randomization, compared with a plain model of the paper's algorithm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore import RunStateError
from rlcore_curriculum.adaptive_curricula.adaptive import Ranges
from rlcore_curriculum.adaptive_curricula.adr import AutomaticDomainRandomization
from rlcore_curriculum.adaptive_curricula.adr_settings import AdrSettings

Block = dict[str, Any]
LENGTH: Block = {
    "initial": 0.5, "limits": (0.25, 1.0), "step": 0.1, "lower_threshold": 0.25, "upper_threshold": 0.75, "episodes": 3,
}  # fmt: skip
START: Block = LENGTH | {"initial": 1.0, "limits": (1.0, 4.0), "step": 1.0, "integer": True}


@pytest.fixture(scope="session")
def adr(simulation: Any) -> Callable[..., AutomaticDomainRandomization]:
    """Create the curriculum of parameters: ``adr(length=LENGTH, start=START)``."""

    def make(**blocks: Block) -> AutomaticDomainRandomization:
        return AutomaticDomainRandomization(
            {name: AdrSettings(**block) for name, block in blocks.items()}, simulation.run
        )

    return make


def range_of(curriculum: AutomaticDomainRandomization, name: str) -> tuple[float, float]:
    tags = curriculum.stats()
    return tags[f"Environment/ADR Low/{name}"], tags[f"Environment/ADR High/{name}"]


class PlainAdr:
    """The paper's algorithm, one episode at a time: a bound is a number to which steps are added."""

    def __init__(self, blocks: dict[str, Block], uniform_of: Callable[..., list[float]]) -> None:
        self.blocks, self.uniform_of, self.moved = blocks, uniform_of, False
        self.began: dict[tuple[str, str], float] = {}
        for name, block in blocks.items():
            initial = block["initial"] if isinstance(block["initial"], tuple) else (block["initial"],) * 2
            self.began[name, "low"], self.began[name, "high"] = initial
        self.now = dict(self.began)
        self.played: dict[tuple[str, str], list[float]] = {key: [] for key in self.now}
        self.times_moved = dict.fromkeys(self.now, 0)

    def limit(self, name: str, side: str) -> float:
        return float(self.blocks[name]["limits"][side == "high"])

    def draw(self, env: int, episode: int) -> tuple[tuple[float, ...], Any]:
        values = {}
        for name, block in self.blocks.items():
            [number] = self.uniform_of(f"parameters/{name}", env, episode)
            low = self.now[name, "low"]
            high = self.now[name, "high"]
            values[name] = low + int(number * (high - low + 1)) if block.get("integer") else low + number * (high - low)
        [choice] = self.uniform_of("curriculum/adr", env, episode)
        share = next(iter(self.blocks.values())).get("boundary_probability", 0.5)
        if choice >= share:
            return tuple(values.values()), None
        movable = [key for key in self.now if self.began[key] != self.limit(*key)]
        key = movable[int(choice / share * len(movable))]
        values[key[0]] = self.now[key]
        return tuple(values.values()), (key, self.times_moved[key])

    def ended(self, told: Any, measure: float) -> None:
        if told is None or self.times_moved[told[0]] != told[1]:
            return
        key = name, side = told[0]
        block = self.blocks[name]
        played = self.played[key]
        played.append(measure)
        if len(played) < block["episodes"]:
            return
        mean = math.fsum(played) / len(played)
        played.clear()
        before = self.now[key]
        began = self.began[key]
        limit = self.limit(name, side)
        inward, outward = (max, min) if side == "high" else (min, max)  # the second one limits the move
        out = block["step"] if side == "high" else -block["step"]
        if mean >= block["upper_threshold"]:
            self.now[key] = outward(before + out, limit)
        elif mean <= block["lower_threshold"]:
            # If a limit is not a whole number of steps away, the last step was shorter.
            last = math.ceil(round((before - began) / out, 6)) - 1
            self.now[key] = inward(began + last * out, began)
        if abs(self.now[key] - before) > 1e-9:
            self.times_moved[key] += 1
            self.moved = True

    def redraw(self) -> bool:
        moved, self.moved = self.moved, False
        return moved


@st.composite
def blocks(draw: st.DrawFn) -> dict[str, Block]:
    made = {}
    share = draw(st.sampled_from([0.2, 0.5, 1.0]))
    for name in ("length", "start", "gravity")[: draw(st.integers(1, 3))]:
        base = START if name == "start" else LENGTH
        made[name] = base | {
            "episodes": draw(st.integers(1, 4)),
            "lower_threshold": draw(st.sampled_from([-1.0, 0.3, 0.45])),
            "upper_threshold": draw(st.sampled_from([0.5, 0.6, 2.0])),
            "boundary_probability": share,
        }
        if name != "start":
            made[name]["step"] = draw(st.sampled_from([0.05, 0.1, 0.125, 0.3, 2.0]))
            made[name]["initial"] = draw(st.sampled_from([0.5, 0.25, (0.4, 0.6), (0.25, 0.9)]))
    return made


@settings(deadline=None)
@given(made=blocks(), seed=st.integers(0, 10_000), steps=st.integers(5, 80))
def test_it_is_the_papers_algorithm(simulation: Any, adr: Any, made: dict[str, Block], seed: int, steps: int) -> None:
    curriculum = adr(**made)
    model = PlainAdr(made, simulation.uniform_of)
    loop = simulation.loop(curriculum, lambda values, noise: noise, seed)
    loop.run(steps)
    begun = simulation.plain_loop(model, lambda values, noise: noise, seed, steps)
    assert [each[:2] for each in loop.begun] == [each[:2] for each in begun]
    np.testing.assert_allclose([each[2] for each in loop.begun], [each[2] for each in begun], rtol=0, atol=1e-9)
    for name in made:
        assert range_of(curriculum, name) == pytest.approx((model.now[name, "low"], model.now[name, "high"]), abs=1e-9)


def moved(curriculum: AutomaticDomainRandomization, told: Any, side: int, mean: float, times: int = 1) -> float:
    """Return the bound of the only parameter after several judgements, the lower one with ``side`` -1."""
    for _ in range(times):
        bound = curriculum.bounds[0][side > 0]
        curriculum.episodes_ended(
            told([[side * (bound.moves + 1)]] * bound.block.episodes, [mean] * bound.block.episodes)
        )
        curriculum.advance({})
    return range_of(curriculum, "length")[side > 0]


@pytest.mark.parametrize(("mean", "steps"), [(0.76, 3), (0.75, 3), (0.74, 2), (0.26, 2), (0.25, 1), (0.24, 1)])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_mean_that_reaches_a_threshold_moves_a_bound(adr: Any, told: Any, side: int, mean: float, steps: int) -> None:
    curriculum = adr(length=LENGTH | {"limits": (0.0, 1.0)})
    assert moved(curriculum, told, side, 1.0, times=2) == pytest.approx(0.5 + 0.2 * side)
    assert moved(curriculum, told, side, mean) == pytest.approx(0.5 + 0.1 * side * steps)


def test_rounding_adds_neither_a_step_nor_a_bound(adr: Any, told: Any) -> None:
    curriculum = adr(length=LENGTH | {"initial": 0.7, "boundary_probability": 0.9})
    assert moved(curriculum, told, 1, 1.0, times=4) == 1.0
    assert curriculum.bounds[0][1].moves == 3  # although 1.0 - 0.7 is more than 3 * 0.1
    curriculum.uniforms = lambda *_: np.full((1, 2, 1), np.nextafter(0.9, 0.0))
    assert curriculum.draw(np.zeros(1, np.int64), np.zeros(1, np.int64)).draw_id.tolist() == [[4]]
    assert Ranges([(1e6, 1e6 + 2)], [True]).draw(np.array([[np.nextafter(1.0, 0.0)]])) == 1e6 + 2


@pytest.mark.parametrize(("measure", "high"), [("reward", 0.5), ("group_reward", 0.6), ("length", 0.6)])
def test_the_measure_says_what_of_an_episode_counts(adr: Any, told: Any, measure: str, high: float) -> None:
    curriculum = adr(length=LENGTH | {"measure": measure})
    curriculum.episodes_ended(told([[1]] * 3, [0.0] * 3, group_returns=[1.0] * 3, lengths=[5] * 3))
    curriculum.advance({})
    assert range_of(curriculum, "length")[1] == high


def test_the_entropy_is_that_of_the_ranges_per_parameter(adr: Any, told: Any) -> None:
    curriculum = adr(length=LENGTH, gravity=LENGTH | {"initial": (0.4, 0.6)})
    assert "Environment/ADR Entropy" not in curriculum.stats()  # it would be infinite for a point
    for _ in range(2):
        curriculum.episodes_ended(told([[curriculum.bounds[0][1].moves + 1, 0]] * 3, [1.0] * 3))
        curriculum.advance({})
    assert curriculum.stats()["Environment/ADR Entropy"] == pytest.approx((math.log(0.2) + math.log(0.2)) / 2)


def test_the_status_shows_what_is_missing_at_the_next_judged_bound(adr: Any, told: Any) -> None:
    curriculum = adr(length=LENGTH)
    moved(curriculum, told, 1, 1.0)
    curriculum.episodes_ended(told([[-1], [-1], [2]], [0.4, 0.5, 1.0]))
    assert curriculum.status()["length"] == {
        "lesson": "[0.5, 0.6]", "low": 0.5, "high": 0.6, "measure": "reward", "value": 0.45, "threshold": 0.75,
        "episodes_left": 1,
    }  # fmt: skip


def test_another_runs_status_gives_its_ranges(adr: Any, told: Any) -> None:
    one = adr(length=LENGTH, start=START)
    other = adr(length=LENGTH, start=START)
    for draw_id in ([1, 0], [2, 0], [3, 0], [-1, 0], [0, 1], [0, 2], [0, 3]):  # 0.8 - 0.5 is more than 3 * 0.1
        one.episodes_ended(told([draw_id] * 3, [1.0] * 3))
        one.advance({})
    other.load_status(one.status() | {"gravity": {"lesson_num": 3}})
    assert [range_of(other, name) for name in ("length", "start")] == [(0.4, 0.8), (1.0, 4.0)]
    drawn = [each.draw(np.zeros(20, np.int64), np.arange(20)).values for each in (one, other)]
    np.testing.assert_equal(drawn[1], drawn[0])


def test_a_status_beyond_the_limits_is_refused(adr: Any) -> None:
    curriculum = adr(length=LENGTH, start=START)
    with pytest.raises(RunStateError, match=r"length: .*range \[0.1, 0.6\], .*limits .* \[0.25, 1\]"):
        curriculum.load_status({"start": {"low": 1.0, "high": 3.0}, "length": {"low": 0.1, "high": 0.6}})
    assert range_of(curriculum, "start") == (1.0, 1.0)
    curriculum.load_status(curriculum.status())  # of ranges that are points
    curriculum.load_status({"length": {"lesson_num": 2}})  # from ML-Agents: this curriculum has no lessons
    assert range_of(curriculum, "length") == (0.5, 0.5)


def test_a_state_of_other_settings_is_refused(adr: Any, told: Any) -> None:
    saved = adr(length=LENGTH)
    moved(saved, told, 1, 1.0)
    curriculum = adr(length=LENGTH | {"limits": (0.25, 2.0)})
    before = curriculum.state_dict()
    with pytest.raises(RunStateError, match=r"length\.curriculum\.limits: .*\[0.25, 1.0\].*\[0.25, 2.0\]"):
        curriculum.load_state_dict(saved.state_dict())
    np.testing.assert_equal(curriculum.state_dict(), before)


def test_thresholds_may_change_between_a_checkpoint_and_going_on(adr: Any, told: Any) -> None:
    saved = adr(length=LENGTH)
    saved.episodes_ended(told([[1], [1]], [0.5, 0.5]))
    curriculum = adr(length=LENGTH | {"upper_threshold": 0.5, "episodes": 2})
    curriculum.load_state_dict(saved.state_dict())
    curriculum.episodes_ended(told([[1]], [0.5]))
    assert curriculum.advance({}).redraw and range_of(curriculum, "length") == (0.5, 0.6)


def test_evaluations_play_the_target_or_all_there_is(adr: Any) -> None:
    curriculum = adr(length=LENGTH, mass=LENGTH | {"target": (0.3, 0.4)})
    values = np.concatenate([curriculum.draw_target(np.arange(5), np.full(5, episode)) for episode in range(200)])
    assert [values.min(0), values.max(0)] == pytest.approx(np.array([[0.25, 0.3], [1.0, 0.4]]), abs=0.01)
