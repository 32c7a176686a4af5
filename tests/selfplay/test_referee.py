"""The referees print the figures that are known, and agree with calculations of another kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import selfplay_referee as referee
from selfplay_games.matrix import BIASED_RPS, SKEWED_PENNIES
from selfplay_games.tictactoe import seen_by

from rlcore import Run

pytest.importorskip("pyspiel")
near = pytest.approx
THIRD = np.full(3, 1 / 3)


# ------------------------------------------------------------ one step


def test_matrix_games() -> None:
    nash = np.array([1, 10, 5]) / 16
    assert referee.matrix_nash_conv(BIASED_RPS, nash, nash) == near(0.0, abs=1e-12)
    assert referee.matrix_nash_conv(BIASED_RPS, THIRD, THIRD) == near(1 / 3)
    pure = np.eye(3)
    assert max(referee.matrix_nash_conv(BIASED_RPS, a, b) for a in pure for b in pure) == near(2.0)
    half, nash = np.full(2, 0.5), np.array([0.4, 0.6])
    assert referee.matrix_nash_conv(SKEWED_PENNIES, half, half) == near(0.5)
    assert referee.matrix_nash_conv(SKEWED_PENNIES, nash, nash) == near(0.0, abs=1e-12)
    assert referee.matrix_value(SKEWED_PENNIES, nash, nash) == near(0.2)


# ------------------------------------------------------------ Kuhn poker


def test_kuhn_poker_of_two() -> None:
    for players, exact in ((2, 11 / 12), (3, 2.0625)):
        uniform = dict.fromkeys(referee.kuhn_states(players).names, np.full(2, 0.5))
        assert referee.kuhn_nash_conv(uniform, players) == near(exact)
    third = 1 / 3  # an equilibrium: bet or call with the middle card, bluff with the lowest one, as Kuhn found
    bets = {"0": 0, "1": 0, "2": 0, "0pb": 0, "1pb": third, "2pb": 1, "0p": third, "1p": 0, "2p": 1,
            "0b": 0, "1b": third, "2b": 1}  # fmt: skip
    nash = {name: np.array([1 - bet, bet]) for name, bet in bets.items()}
    assert referee.kuhn_nash_conv(referee.kuhn_mixture([nash, nash])) == near(0.0, abs=1e-12)
    assert referee.kuhn_nash_conv(nash) == near(0.0, abs=1e-12)
    np.testing.assert_allclose(referee.kuhn_values(nash), [-1 / 18, 1 / 18])


# ------------------------------------------------------------ tic-tac-toe


def test_tic_tac_toe_has_the_published_figures() -> None:
    uniform, minimax = referee.tictactoe_uniform(), referee.tictactoe_minimax()
    assert referee.tictactoe_result(uniform, uniform) == near((0.585, 0.127, 0.288), abs=5e-4)
    assert referee.tictactoe_result(minimax, minimax) == near((0, 1, 0))
    assert referee.tictactoe_result(minimax, uniform) == near((0.968, 0.032, 0), abs=1e-3)
    assert referee.tictactoe_result(uniform, minimax) == near((0, 0.223, 0.778), abs=1e-3)
    assert referee.tictactoe_score(uniform, uniform) == near(0.5)
    assert referee.tictactoe_score(minimax, uniform) == near(0.936, abs=5e-4)


# ------------------------------------------------------------ policies of trainers


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_probabilities_are_those_of_the_actions_drawn(trainer: str, tmp_path: Path) -> None:
    hyperparameters = {"batch_size": 16, "buffer_size": 64, "learning_rate": 0.01}
    behavior = {"trainer_type": trainer, "hyperparameters": hyperparameters, "max_steps": 128}
    run = Run({
        "environment": {"type": "game", "id": "tictactoe", "num_envs": 4}, "behaviors": {"Player": behavior},
        "checkpoint_settings": {"results_dir": str(tmp_path)}, "env_settings": {"seed": 3},
        "plugins": {"local": ["selfplay_games"]},
    })  # fmt: skip
    run.train()
    policy, boards = run.behaviors["Player"].policy, referee.tictactoe_boards()
    table = referee.tictactoe_table(policy)
    np.testing.assert_allclose(table.sum(1), ~boards.over, atol=1e-9)
    assert not table[~boards.allowed].any()
    seen = np.repeat(seen_by(boards.boards[600:601], boards.ply[600:601] % 2), 10_000, axis=0)
    mask = np.repeat(boards.allowed[600:601], 10_000, axis=0)
    drawn = policy.act({"board": seen}, mask, deterministic=False).discrete[:, 0]
    np.testing.assert_allclose(np.bincount(drawn, minlength=9) / 10_000, table[600], atol=0.02)
