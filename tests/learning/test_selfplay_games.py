"""Self-play of tic-tac-toe and of tag.

Tic-tac-toe is measured exactly, by following all moves; tag by many games against random play.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from selfplay_referee import (
    tictactoe_minimax,
    tictactoe_result,
    tictactoe_score,
    tictactoe_table,
    tictactoe_uniform,
    win_rates,
)
from small_runs import data
from workspace import ROOT

from rlcore import Run
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


@pytest.fixture
def tag() -> Iterator[Any]:
    """The module of the example."""
    sys.path.append(str(TAG))
    import tag

    yield tag
    sys.path.remove(str(TAG))


def tag_configuration(seed: int, directory: Path, max_steps: int, **self_play: Any) -> dict[str, Any]:
    """The example with so many steps of each side."""
    config = yaml.safe_load((TAG / "tag.yaml").read_text(encoding="utf-8"))
    config["default_settings"]["summary_freq"] = NEVER
    config["default_settings"]["self_play"] |= self_play
    for block in config["behaviors"].values():
        block["max_steps"] = max_steps
    config |= {"env_settings": {"seed": seed}, "stats": {"console": False}, "plugins": {"local": [str(TAG / "tag.py")]}}
    config["checkpoint_settings"]["results_dir"] = str(directory)
    return config  # type: ignore[no-any-return]


def of_tag(policies: dict[str, Any]) -> dict[str, tuple[int, Any]]:
    return {"Chaser": (0, policies["Chaser"]), "Runner": (1, policies["Runner"])}


def wins_against_random(game: Any, policies: dict[str, tuple[int, Any]], games: int = 1000) -> dict[str, float]:
    """How often each side wins against random play of the others; ``policies`` by behavior, with the team."""
    won = {}
    for name in policies:
        sides = {other: {team: policy if other == name else None} for other, (team, policy) in policies.items()}
        won[name] = win_rates(game(), sides, games)[name, policies[name][0]]
    return won


@first_is_quick(1)
def test_each_side_of_tag_beats_random_play(tmp_path: Path, tag: Any, seed: int, deep: bool) -> None:
    trainers = trained(tag_configuration(seed, tmp_path, 204_800 if deep else 102_400))

    def game() -> Any:
        return tag.Tag(64, tag.TagSettings())

    untrained = wins_against_random(game, of_tag({"Chaser": None, "Runner": None}))
    won = wins_against_random(game, of_tag({name: trainer.policy for name, trainer in trainers.items()}))
    print(f"seed {seed}: won {won}, untrained {untrained}")
    assert max(untrained.values()) < 0.85 <= min(won.values())
