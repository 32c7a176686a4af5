"""Ghosts are frozen: the four tests of ML-Agents' ghost trainer, on its environment with its settings.

Two sides walk to goals of their own. A side whose policy is frozen learns nothing, so where opponents are never
swapped, one side ends above 0.9 and the other one below. The four are in ``test_simple_rl.py`` of ML-Agents 1.1.0.
"""

from __future__ import annotations

from collections import deque
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import selfplay_games
import yaml

from rlcore import Run

pytest.importorskip("rlcore_ppo", reason="a training needs a trainer")

ENOUGH = 0.9
NIGHTLY = {("simple_ghost", False), ("simple_asymm_ghost", True), ("simple_asymm_ghost_fails", False)}


TRAININGS = yaml.safe_load((Path(__file__).parent / "data/mlagents_ghosts.yaml").read_text(encoding="utf-8"))


class Recorded(selfplay_games.TwoSides):
    """Remembers the returns of each side."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.returns: tuple[deque[float], ...] = (deque(maxlen=100), deque(maxlen=100))
        self._sums = np.zeros(2)
        super().__init__(*arguments, **options)

    def advance(self, actions: Any) -> Any:
        reward, over = super().advance(actions)
        self._sums += reward[0]
        for side in np.flatnonzero(over[0]).tolist():
            self.returns[side].append(float(self._sums[side]))
            self._sums[side] = 0.0
        return reward, over


@pytest.fixture(autouse=True)
def _recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(selfplay_games.GAMES, "two_sides", Recorded)  # type: ignore[arg-type]


def sides(directory: Path, name: str, discrete: bool, seed: int, episodes: int = 5, max_steps: int = 0) -> list[float]:
    """The mean of the last returns of each side, ascending."""
    training = TRAININGS[name]
    block = {
        "trainer_type": "ppo",
        "hyperparameters": {
            "batch_size": 16, "buffer_size": 64, "learning_rate": 5e-3, "learning_rate_schedule": "constant",
        },
        "network_settings": {"num_layers": 1, "hidden_units": 32},
        "summary_freq": 500,
        "max_steps": max_steps or training["max_steps"],
        "self_play": training["self_play"],
    }  # fmt: skip
    game = {"names": training["behaviors"], "discrete": discrete}
    config = {
        "environment": {"type": "game", "id": "two_sides", "num_envs": 1, "options": game},
        "behaviors": dict.fromkeys(training["behaviors"], block),
        "env_settings": {"seed": seed},
        "checkpoint_settings": {"results_dir": str(directory)},
        "stats": {"console": False},
        "plugins": {"local": ["selfplay_games"]},
    }
    with Run(config) as run:
        run.train()
        returns = run.environment.returns  # type: ignore[union-attr]
    worse, better = sorted(float(np.mean(list(each)[-episodes:])) for each in returns)
    print(f"{name}, {'discrete' if discrete else 'continuous'}, seed {seed}: {worse:.3f} and {better:.3f}")
    return [worse, better]


def case(name: str, discrete: bool, seed: int) -> Any:
    """One training by default, one of each name in the night, and all in a deep run."""
    kind = (name, discrete) if seed == 1 else None
    marks = pytest.mark.learning if kind in NIGHTLY else pytest.mark.deep
    return pytest.param(name, discrete, seed, marks=() if kind == ("simple_ghost_fails", True) else marks)


@pytest.mark.parametrize(
    ("name", "discrete", "seed"), [case(*each) for each in product(TRAININGS, (True, False), range(1, 6))]
)
def test_only_swapped_sides_get_better(tmp_path: Path, name: str, discrete: bool, seed: int) -> None:
    """Both sides end above 0.9, or only one of them, as ``name`` says."""
    worse, better = sides(tmp_path, name, discrete, seed)
    assert better > ENOUGH and (worse > ENOUGH) == TRAININGS[name]["both_learn"]


@pytest.mark.parametrize("name", ["simple_ghost", "simple_asymm_ghost"])
def test_sides_that_have_not_learned_yet_are_found_out(tmp_path: Path, name: str) -> None:
    assert sides(tmp_path, name, True, 1, episodes=100, max_steps=128)[1] < ENOUGH
