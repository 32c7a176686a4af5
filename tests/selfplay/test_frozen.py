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

from rlcore import Run
from rlcore_torch import TorchTrainer

pytest.importorskip("rlcore_ppo", reason="a training needs a trainer")

ENOUGH = 0.9
SEEDS = (1, 2, 3, 4, 5)
DEEP, NIGHTLY = pytest.mark.deep, pytest.mark.learning
DAILY = {("simple_ghost_fails", True)}
ONE, TWO = ("Player",), ("First", "Second")


# ML-Agents' tests: names of the behaviors, ``max_steps``, whether both sides learn, and ``self_play``.
LATEST = {"play_against_latest_model_ratio": 1.0}
TRAININGS: dict[str, tuple[tuple[str, ...], int, bool, dict[str, Any]]] = {
    "simple_ghost": (ONE, 2500, True, {**LATEST, "save_steps": 2000, "swap_steps": 2000}),
    "simple_ghost_fails": (ONE, 2500, False, {**LATEST, "save_steps": 2000, "swap_steps": 4000}),
    "simple_asymm_ghost": (
        TWO, 4000, True, {**LATEST, "save_steps": 10_000, "swap_steps": 10_000, "team_change": 400},
    ),
    "simple_asymm_ghost_fails": (
        TWO, 3000, False,
        {"play_against_latest_model_ratio": 0.0, "save_steps": 5000, "swap_steps": 5000, "team_change": 2000},
    ),
}  # fmt: skip


def cases(*quick: tuple[str, bool]) -> pytest.MarkDecorator:
    """All names, kinds of actions and seeds; those that are not ``quick``, or have another seed than 1, are deep.

    Of those that are quick, one runs by default.
    """

    def marks(name: str, discrete: bool, seed: int) -> Any:
        if seed != 1 or (name, discrete) not in quick:
            return DEEP
        return () if (name, discrete) in DAILY else NIGHTLY

    every = list(product(TRAININGS, (True, False), SEEDS))
    return pytest.mark.parametrize(("name", "discrete", "seed"), [pytest.param(*c, marks=marks(*c)) for c in every])


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


def sides(
    directory: Path, name: str, discrete: bool, seed: int, episodes: int = 5, max_steps: int = 0, **options: Any
) -> list[float]:
    """The mean of the last returns of each side, ascending; ``options`` are those of the game."""
    names, steps, _, self_play = TRAININGS[name]
    block = {
        "trainer_type": "ppo",
        "hyperparameters": {
            "batch_size": 16, "buffer_size": 64, "learning_rate": 5e-3, "learning_rate_schedule": "constant",
        },
        "network_settings": {"num_layers": 1, "hidden_units": 32},
        "summary_freq": 500,
        "max_steps": max_steps or steps,
        "self_play": self_play,
    }  # fmt: skip
    game = {"names": list(names), "discrete": discrete, **options}
    config = {
        "environment": {"type": "game", "id": "two_sides", "num_envs": 1, "options": game},
        "behaviors": dict.fromkeys(names, block),
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


def as_expected(name: str, ends: list[float]) -> bool:
    """Whether both sides ended above 0.9, or only one of them, as ``name`` says."""
    return ends[1] > ENOUGH and (ends[0] > ENOUGH) == TRAININGS[name][2]


@cases(
    ("simple_ghost", False), ("simple_ghost_fails", True), ("simple_asymm_ghost", True),
    ("simple_asymm_ghost_fails", False),
)  # fmt: skip
def test_only_swapped_sides_get_better(tmp_path: Path, name: str, discrete: bool, seed: int) -> None:
    assert as_expected(name, sides(tmp_path, name, discrete, seed))


@cases(("simple_ghost", True), ("simple_ghost_fails", False))
def test_only_swapped_sides_get_better_in_a_game_of_one_step(
    tmp_path: Path, name: str, discrete: bool, seed: int
) -> None:
    assert as_expected(name, sides(tmp_path, name, discrete, seed, episodes=100, step_size=1.0))


@NIGHTLY
@pytest.mark.parametrize("name", [name for name, each in TRAININGS.items() if not each[2]])
def test_a_ghost_that_is_not_frozen_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    class Thawed:
        """Acts with the policy that learns, as it is now."""

        def __init__(self, trainer: Any) -> None:
            self.policy = trainer.policy

        def act(self, *arguments: Any) -> Any:
            return self.policy.act(*arguments)

        def seed(self, seed: int) -> None:
            pass

        def state_dict(self) -> dict[str, Any]:
            return {}

    monkeypatch.setattr(TorchTrainer, "snapshot", lambda trainer, state=None: Thawed(trainer))
    assert sides(tmp_path, name, True, 1)[0] > ENOUGH


@pytest.mark.parametrize("name", ["simple_ghost", "simple_asymm_ghost"])
def test_sides_that_have_not_learned_yet_are_found_out(tmp_path: Path, name: str) -> None:
    assert sides(tmp_path, name, True, 1, episodes=100, max_steps=128)[1] < ENOUGH
