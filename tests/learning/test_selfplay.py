"""Self-play comes near the equilibria of games whose equilibria are known, and wins tag against random play.

NashConv is the sum over seats of what a best response would gain; 0 in an equilibrium. It is measured exactly, of the
last policy and of the uniform mixture of the snapshots in the window.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from selfplay_games import BIASED_RPS, SKEWED_PENNIES
from small_runs import data
from workspace import ROOT

from rlcore import Run, SavedRun

pytestmark = [pytest.mark.learning, pytest.mark.timeout(1200)]

NEVER = 10**9  # agent steps
TAG = ROOT / "examples/tag"
# The game, its behaviors, its environments and its payoffs; the largest NashConv of the last policy and of the window.
GAMES = {
    "biased_rps": (("Player",), 512, BIASED_RPS, 0.15, 0.08),
    "skewed_pennies": (("Row", "Column"), 256, SKEWED_PENNIES, 0.15, 0.08),
}


def strategy(policies: list[Any]) -> Any:
    """The mean probabilities [options] of policies in a game of one step: the softmax of their logits."""
    found = []
    for policy in policies:
        _, logits = policy.parameters({"constant": np.ones((1, 1), np.float32)}, None)
        weights = np.exp(logits[0].astype(np.float64) - logits[0].max())
        found.append(weights / weights.sum())
    return np.mean(found, axis=0)


def nash_conv(payoffs: Any, strategies: list[Any]) -> float:
    """The NashConv in the zero-sum game with the row player's ``payoffs`` [A, A']; one strategy may be that of both."""
    row = strategies[0]
    column = strategies[-1]
    return float((payoffs @ column).max() - (row @ payoffs).min())


def learned(game: str, seed: int, directory: Path, **self_play: Any) -> list[float]:
    """NashConv of the untrained policies, of the last ones, and of the mixture of the window."""
    names, num_envs, payoffs, _, _ = GAMES[game]
    block = data("equilibria")[game]
    block = {**block, "summary_freq": block["max_steps"], "self_play": {**block["self_play"], **self_play}}
    with Run({
        "plugins": {"local": ["selfplay_games"]}, "stats": {"console": False}, "env_settings": {"seed": seed},
        "environment": {"type": "game", "id": game, "num_envs": num_envs}, "behaviors": dict.fromkeys(names, block),
        "checkpoint_settings": {"results_dir": str(directory)},
    }) as run:  # fmt: skip
        run.start()
        behaviors = [run.behaviors[name] for name in names]
        untrained = nash_conv(payoffs, [strategy([each.policy]) for each in behaviors])
        next(run)  # the first summary is at max_steps
        last = nash_conv(payoffs, [strategy([each.policy]) for each in behaviors])
        windows = [[member.policy for member in each.trainer.snapshots] for each in behaviors]  # type: ignore[attr-defined]
        return [untrained, last, nash_conv(payoffs, [strategy(window) for window in windows])]


@pytest.mark.parametrize("game", ["biased_rps", pytest.param("skewed_pennies", marks=pytest.mark.deep)])
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in (2, 3, 4, 5))])
def test_self_play_comes_near_the_equilibrium(game: str, seed: int, tmp_path: Path) -> None:
    *_, most, most_in_window = GAMES[game]
    untrained, last, window = found = learned(game, seed, tmp_path)
    print(f"{game}, seed {seed}: {found}")
    assert last <= most < untrained and window <= most_in_window


def test_training_against_frozen_opponents_does_not(tmp_path: Path) -> None:
    frozen = {"window": 1, "play_against_latest_model_ratio": 0.0}
    never = dict.fromkeys(("save_steps", "swap_steps", "team_change"), NEVER)
    assert learned("biased_rps", 1, tmp_path, **frozen, **never)[1] > GAMES["biased_rps"][3]


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
    won = np.array(result.returns) > 0
    teams = np.array(result.teams)
    return [float(won[teams == team].mean()) for team in (0, 1)]


def test_each_side_of_tag_beats_random_play(tmp_path: Path) -> None:
    untrained = wins_against_random(1, tmp_path / "untrained", 1)
    won = wins_against_random(1, tmp_path, 102_400)
    print(f"won {won}, untrained {untrained}")
    assert max(untrained) < 0.85 <= min(won)
