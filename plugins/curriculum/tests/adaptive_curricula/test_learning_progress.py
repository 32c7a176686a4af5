"""Learning progress, compared with a plain model with a list of returns per region."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore import RunStateError
from rlcore_curriculum.adaptive_curricula.learning_progress import LearningProgress
from rlcore_curriculum.adaptive_curricula.learning_progress_settings import LearningProgressSettings

Block = dict[str, Any]
WIDTH: Block = {"limits": (0.0, 2.0), "bins": 4, "window": 6, "random_share": 0.2, "refresh": 3}
START: Block = WIDTH | {"limits": (1.0, 8.0), "integer": True}


@pytest.fixture(scope="session")
def made(simulation: Any) -> Callable[..., LearningProgress]:
    """Create the curriculum of parameters: ``made(width=WIDTH)``."""

    def make(**blocks: Block) -> LearningProgress:
        return LearningProgress({n: LearningProgressSettings(**block) for n, block in blocks.items()}, simulation.run)

    return make


class PlainProgress:
    def __init__(self, blocks: dict[str, Block], uniform_of: Callable[..., list[float]]) -> None:
        self.blocks, self.uniform_of = blocks, uniform_of
        self.returns: dict[str, list[list[float]]] = {
            name: [[] for _ in range(b["bins"])] for name, b in blocks.items()
        }
        self.shares = {name: [1 / block["bins"]] * block["bins"] for name, block in blocks.items()}
        self.counted = dict.fromkeys(blocks, 0)

    def draw(self, env: int, episode: int) -> tuple[tuple[float, ...], list[int]]:
        values = []
        regions = []
        for name, block in self.blocks.items():
            which, where = self.uniform_of(f"parameters/{name}", env, episode, 2)
            region = 0
            while region < block["bins"] - 1 and which >= math.fsum(self.shares[name][: region + 1]):
                region += 1
            low, high = block["limits"]
            width = (high - low + (1 if block.get("integer") else 0)) / block["bins"]
            value = low + width * region + width * where
            values.append(float(math.floor(value)) if block.get("integer") else value)
            regions.append(region)
        return tuple(values), regions

    def ended(self, told: list[int], measure: float) -> None:
        for name, region in zip(self.blocks, told, strict=True):
            self.returns[name][region].append(measure)
            self.counted[name] += 1

    def redraw(self) -> bool:
        anew = False
        for name, block in self.blocks.items():
            if self.counted[name] < block["refresh"]:
                continue
            found = []
            for returns in self.returns[name]:
                latest = returns[-block["window"] :]
                newer = latest[len(latest) - len(latest) // 2 :]
                older = latest[: len(latest) - len(latest) // 2]
                enough = len(latest) >= 3
                found.append(abs(sum(newer) / len(newer) - sum(older) / len(older)) if enough else 0.0)
            even = 1 / block["bins"]
            rest = [each / sum(found) if sum(found) > 0 else even for each in found]
            share = block["random_share"]
            self.shares[name] = [share * even + (1 - share) * each for each in rest]
            self.counted[name], anew = 0, True
        return anew


@st.composite
def blocks(draw: st.DrawFn) -> dict[str, Block]:
    return {
        name: base
        | {
            "bins": draw(st.integers(2, 6)),
            "window": draw(st.integers(4, 9)),
            "refresh": draw(st.integers(1, 5)),
            "random_share": draw(st.sampled_from([0.1, 0.5, 1.0])),
        }
        for name, base in [("width", WIDTH), ("start", START)][: draw(st.integers(1, 2))]
    }


def outcome(values: Any, noise: float) -> float:
    return noise * float(values[0])


@settings(deadline=None)
@given(given_blocks=blocks(), seed=st.integers(0, 10_000), steps=st.integers(5, 80))
def test_it_is_the_plain_model(
    simulation: Any, made: Any, given_blocks: dict[str, Block], seed: int, steps: int
) -> None:
    curriculum = made(**given_blocks)
    model = PlainProgress(given_blocks, simulation.uniform_of)
    loop = simulation.loop(curriculum, outcome, seed)
    loop.run(steps)
    begun = simulation.plain_loop(model, outcome, seed, steps)
    assert [each[:2] for each in loop.begun] == [each[:2] for each in begun]
    np.testing.assert_allclose([each[2] for each in loop.begun], [each[2] for each in begun], rtol=0, atol=1e-9)
    for name in given_blocks:
        np.testing.assert_allclose(curriculum.parts[name].shares, model.shares[name], atol=1e-12)


def feed(curriculum: LearningProgress, told: Any, region: int, returns: list[float]) -> None:
    curriculum.episodes_ended(told([[region]] * len(returns), returns))
    curriculum.advance({})


def test_a_state_of_other_settings_is_refused(made: Any) -> None:
    saved = made(width=WIDTH).state_dict()
    with pytest.raises(RunStateError, match=r"width\.curriculum\.bins: the checkpoint has 4, .* configuration 5"):
        made(width=WIDTH | {"bins": 5}).load_state_dict(saved)


def test_the_window_may_change_between_a_checkpoint_and_going_on(made: Any, told: Any) -> None:
    saved = made(width=WIDTH)
    curriculum = made(width=WIDTH | {"window": 4, "refresh": 2})
    feed(saved, told, 0, [9.0, 9.0, 1.0, 1.0, 1.0, 1.0])  # of the latest four, none differs
    curriculum.load_state_dict(saved.state_dict())
    assert curriculum.stats()["Environment/Learning Progress/width"] > 0.0  # as it was saved, until the next refresh
    feed(curriculum, told, 1, [0.0, 0.0])
    assert curriculum.stats()["Environment/Learning Progress/width"] == 0.0


def test_stats_and_status_show_the_drawn_regions(made: Any, told: Any) -> None:
    curriculum = made(width=WIDTH)
    feed(curriculum, told, 3, [0.0, 0.0, 1.0, 1.0])
    assert curriculum.stats() == {
        "Environment/Learning Progress/width": 0.25,
        "Environment/Mean Drawn/width": pytest.approx(0.05 * (0.25 + 0.75 + 1.25) + 0.85 * 1.75),
    }
    whole = made(width=WIDTH | {"limits": (0.0, 3.0), "integer": True})
    assert whole.stats()["Environment/Mean Drawn/width"] == pytest.approx((0 + 1 + 2 + 3) / 4)
    section = curriculum.status()["width"]
    assert section == {
        "lesson": "[1.5, 2]", "measure": "progress of reward", "value": 1.0, "episodes_left": 3,
        "shares": pytest.approx([0.05, 0.05, 0.05, 0.85]),
    }  # fmt: skip
