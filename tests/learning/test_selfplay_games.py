"""Self-play of tic-tac-toe and of tag.

Tic-tac-toe is measured exactly, by following all moves; tag by many games against random play.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from selfplay_referee import (
    tictactoe_minimax,
    tictactoe_result,
    tictactoe_score,
    tictactoe_table,
    tictactoe_uniform,
)
from small_runs import data
from workspace import ROOT

from rlcore import Run, SavedRun
from rlcore_ghost.selfplay.trainer import GhostTrainer

pytestmark = [pytest.mark.learning, pytest.mark.timeout(1800)]

SEEDS = (1, 2, 3, 4, 5)
TAG = ROOT / "examples/tag"

NEVER = 10**9  # agent steps


def first_is_quick(*quick: int) -> pytest.MarkDecorator:
    """All seeds; those that are not ``quick`` are for a deep run."""
    return pytest.mark.parametrize(
        "seed", [pytest.param(seed, marks=() if seed in quick else pytest.mark.deep) for seed in SEEDS]
    )


def trained(config: dict[str, Any]) -> dict[str, GhostTrainer]:
    """The trainers of a run at its end, by behavior."""
    with Run(config) as run:
        run.train()
        return {name: behavior.trainer for name, behavior in run.behaviors.items()}  # type: ignore[misc]


# ------------------------------------------------------------ tic-tac-toe

STEPS = 700_000
TICTACTOE = data("selfplay_blocks")["tictactoe"]


def tictactoe(seed: int, directory: Path, max_steps: int, **self_play: Any) -> GhostTrainer:
    block = {**TICTACTOE, "max_steps": max_steps, "self_play": {**TICTACTOE["self_play"], **self_play}}  # type: ignore[dict-item]
    config = {
        "environment": {"type": "game", "id": "tictactoe", "num_envs": 128},
        "behaviors": {"Player": block},
        "env_settings": {"seed": seed},
        "checkpoint_settings": {"results_dir": str(directory)},
        "stats": {"console": False},
        "plugins": {"local": ["selfplay_games"]},
    }
    return trained(config)["Player"]


def losses(table: Any, opponent: Any) -> float:
    """The share of games that a table [B, 9] loses, the mean of both seats."""
    return (tictactoe_result(table, opponent)[2] + tictactoe_result(opponent, table)[0]) / 2


def strength(trainer: GhostTrainer) -> dict[str, float]:
    """How strong the last policy is."""
    table, uniform = tictactoe_table(trainer.policy), tictactoe_uniform()
    return {
        "score": tictactoe_score(table, uniform),
        "losses": losses(table, uniform),
        "losses to minimax": losses(table, tictactoe_minimax()),
    }


def shown(what: str, measured: dict[str, float]) -> dict[str, float]:
    print(f"{what}: " + ", ".join(f"{name} {value:.4f}" for name, value in measured.items()))
    return measured


GATES: dict[str, Callable[[float], bool]] = {
    "score": lambda value: value >= 0.93,
    "losses": lambda value: value <= 0.02,
    "losses to minimax": lambda value: value <= 0.05,
}


def missed(measured: dict[str, float]) -> set[str]:
    return {name for name, gate in GATES.items() if not gate(measured[name])}


@first_is_quick()
def test_tictactoe_is_played_as_well_as_it_can_be(tmp_path: Path, seed: int) -> None:
    assert not missed(shown(f"seed {seed}", strength(tictactoe(seed, tmp_path, STEPS))))


def test_an_untrained_policy_misses_every_gate(tmp_path: Path) -> None:
    assert missed(shown("untrained", strength(tictactoe(1, tmp_path, 1)))) == set(GATES)


@pytest.mark.deep
def test_training_against_frozen_opponents_misses_what_random_play_cannot_show(tmp_path: Path) -> None:
    frozen = {"save_steps": NEVER, "play_against_latest_model_ratio": 0.0, "learn_from": "learning_team"}
    measured = shown("frozen opponents", strength(tictactoe(1, tmp_path, STEPS, **frozen)))
    assert missed(measured) >= {"losses to minimax"}


# ------------------------------------------------------------ tag


def wins_against_random(seed: int, directory: Path, max_steps: int) -> list[float]:
    """How often chasers and runners win against random play, after so many steps of each side of the example."""
    config = yaml.safe_load((TAG / "tag.yaml").read_text(encoding="utf-8"))
    config["default_settings"]["summary_freq"] = NEVER
    for block in config["behaviors"].values():
        block["max_steps"] = max_steps
    config |= {"env_settings": {"seed": seed}, "stats": {"console": False}, "plugins": {"local": [str(TAG / "tag.py")]}}
    config["evaluation"] = {"interval": None, "environment": {"num_envs": 64}, "opponents": {"random": {}}}
    config["checkpoint_settings"]["results_dir"] = str(directory)
    Run(config).train()
    evaluated = SavedRun.open(directory / "tag", allow_local=True).evaluate(1000, deterministic=False)
    result = evaluated.opponents["random"]
    won, teams = np.array(result.returns) > 0, np.array(result.teams)
    return [float(won[teams == team].mean()) for team in (0, 1)]


@first_is_quick(1)
def test_each_side_of_tag_beats_random_play(tmp_path: Path, seed: int, deep: bool) -> None:
    untrained = wins_against_random(seed, tmp_path / "untrained", 1)
    won = wins_against_random(seed, tmp_path, 204_800 if deep else 102_400)
    print(f"seed {seed}: won {won}, untrained {untrained}")
    assert max(untrained) < 0.85 <= min(won)
