"""The referees print the figures that are known, and agree with calculations of another kind."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import selfplay_referee as referee
from selfplay_games.matrix import BIASED_RPS, SKEWED_PENNIES, Contest
from selfplay_games.tictactoe import seen_by
from selfplay_referee import Moments

from rlcore import Actions, Run

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


def test_the_saddle() -> None:
    assert referee.saddle_nash_conv(Moments(0.0), Moments(0.0)) == near(0.5)
    assert referee.saddle_nash_conv(Moments(0.2), Moments(-0.6)) == near(0.0, abs=1e-12)
    actions = np.linspace(-1.0, 1.0, 2001)
    generator = np.random.default_rng(0)
    for _ in range(5):
        x, y = generator.uniform(-1, 1, 4), generator.uniform(-1, 1, 3)  # mixtures of pure actions

        def reward(x: Any, y: Any) -> Any:
            return -((x - 0.5) ** 2) + (y + 0.5) ** 2 + x * y

        best_x = reward(actions[:, None], y).mean(1).max()
        best_y = reward(x[:, None], actions).mean(0).min()
        found = referee.saddle_nash_conv(
            Moments.of_mixture([Moments(each) for each in x]), Moments.of_mixture([Moments(each) for each in y])
        )
        assert found == near(best_x - best_y, abs=1e-5)


# ------------------------------------------------------------ Kuhn poker


def by_all_plans(table: referee.KuhnTable) -> float:
    """The NashConv of two players: each of the 64 plans of a seat against the table, for 6 deals."""
    names = {seat: [n for n, s in zip(*_states(), strict=True) if s == seat] for seat in (0, 1)}

    def bets(name: str, seat: int, plan: dict[str, int], planner: int) -> float:
        return float(plan[name]) if seat == planner else float(table[name][1])

    def value(plan: dict[str, int], planner: int) -> float:
        total = 0.0
        for mine, other in itertools.permutations(range(3), 2):
            high = 1 if mine > other else -1
            first = bets(f"{mine}", 0, plan, planner)
            call = bets(f"{other}b", 1, plan, planner)
            raises = bets(f"{other}p", 1, plan, planner)
            answer = bets(f"{mine}pb", 0, plan, planner)
            after_bet = call * 2 * high + (1 - call)
            after_pass = raises * (answer * 2 * high - (1 - answer)) + (1 - raises) * high
            total += (first * after_bet + (1 - first) * after_pass) / 6
        return total if planner == 0 else -total

    plans = {
        seat: [dict(zip(names[seat], p, strict=True)) for p in itertools.product((0, 1), repeat=6)] for seat in names
    }
    return sum(max(value(plan, seat) for plan in plans[seat]) for seat in (0, 1))


def _states() -> tuple[tuple[str, ...], list[int]]:
    states = referee.kuhn_states()
    return states.names, states.seats.tolist()


def random_table(players: int, seed: int) -> dict[str, Any]:
    names = referee.kuhn_states(players).names
    bets = np.random.default_rng(seed).uniform(0, 1, len(names))
    return {name: np.array([1 - bet, bet]) for name, bet in zip(names, bets, strict=True)}


def test_kuhn_poker_of_two() -> None:
    uniform = referee.kuhn_uniform()
    assert referee.kuhn_nash_conv(uniform) == near(11 / 12)
    assert len(uniform) == 12
    for table in (uniform, random_table(2, 1), random_table(2, 2)):
        assert referee.kuhn_nash_conv(table) == near(by_all_plans(table), abs=1e-12)
    third = 1 / 3  # an equilibrium: bet or call with the middle card, bluff with the lowest one, as Kuhn found
    bets = {"0": 0, "1": 0, "2": 0, "0pb": 0, "1pb": third, "2pb": 1, "0p": third, "1p": 0, "2p": 1,
            "0b": 0, "1b": third, "2b": 1}  # fmt: skip
    nash = {name: np.array([1 - bet, bet]) for name, bet in bets.items()}
    assert referee.kuhn_nash_conv(nash) == near(0.0, abs=1e-12)
    np.testing.assert_allclose(referee.kuhn_values(nash), [-1 / 18, 1 / 18])


def test_kuhn_poker_of_three() -> None:
    uniform = referee.kuhn_uniform(3)
    assert len(uniform) == 48
    assert referee.kuhn_nash_conv(uniform, 3) == near(2.0625)
    assert referee.kuhn_values(uniform, 3).sum() == near(0.0, abs=1e-12)


@pytest.mark.parametrize("players", [2, 3])
def test_a_mixture_of_tables_scores_their_mean_against_anyone(players: int) -> None:
    tables = [random_table(players, seed) for seed in range(3)]
    mixed, other = referee.kuhn_mixture(tables, players), random_table(players, 9)
    states = referee.kuhn_states(players)
    seats = dict(zip(states.names, states.seats.tolist(), strict=True))
    for seat in range(players):

        def against(table: Any, seat: int = seat) -> Any:
            return {name: table[name] if seats[name] == seat else other[name] for name in seats}

        mean = np.mean([referee.kuhn_values(against(table), players) for table in tables], axis=0)
        np.testing.assert_allclose(referee.kuhn_values(against(mixed), players), mean, atol=1e-12)


# ------------------------------------------------------------ tic-tac-toe


def test_the_boards() -> None:
    boards = referee.tictactoe_boards()
    assert len(boards.boards) == 5478 and boards.over.sum() == 958


def test_tic_tac_toe_has_the_published_figures() -> None:
    uniform, minimax = referee.tictactoe_uniform(), referee.tictactoe_minimax()
    assert referee.tictactoe_result(uniform, uniform) == near((0.585, 0.127, 0.288), abs=5e-4)
    assert referee.tictactoe_result(minimax, minimax) == near((0, 1, 0))
    assert referee.tictactoe_result(minimax, uniform) == near((0.968, 0.032, 0), abs=1e-3)
    assert referee.tictactoe_result(uniform, minimax) == near((0, 0.223, 0.778), abs=1e-3)
    value, best = referee.tictactoe_best_response(uniform, 0)
    wins, draws, losses = referee.tictactoe_result(best, uniform)
    assert (wins, draws, losses) == near((0.995, 0.005, 0), abs=1e-3) and value == near(wins - losses)
    value, best = referee.tictactoe_best_response(uniform, 1)
    wins, draws, losses = referee.tictactoe_result(uniform, best)
    assert (wins, draws, losses) == near((0.007, 0.061, 0.932), abs=1e-3) and value == near(losses - wins)
    assert referee.tictactoe_nash_conv(uniform) == near(1.9196593915343914)
    assert referee.tictactoe_nash_conv(minimax) == near(0.0, abs=1e-12)
    assert referee.tictactoe_score(uniform, uniform) == near(0.5)
    assert referee.tictactoe_score(minimax, uniform) == near(0.936, abs=5e-4)


def test_a_mixture_of_tic_tac_toe() -> None:
    uniform, minimax = referee.tictactoe_uniform(), referee.tictactoe_minimax()
    one = referee.tictactoe_mixture_nash_conv([uniform])
    assert one == near(referee.tictactoe_nash_conv(uniform))
    assert referee.tictactoe_mixture_nash_conv([minimax, minimax]) == near(0.0, abs=1e-12)
    both = referee.tictactoe_mixture_nash_conv([uniform, minimax])
    assert one / 2 - 0.1 < both <= one / 2 + 1e-12  # a best response to both gains at most their mean


# ------------------------------------------------------------ games won


class Bids:
    """Bids 2 in the contest."""

    def act(self, observations: Any, mask: Any = None, deterministic: bool = True) -> Actions:
        assert not deterministic
        return Actions(discrete=np.full((len(observations["constant"]), 1), 2))

    def seed(self, seed: int) -> None:
        pass


@pytest.mark.parametrize("group", [1, 2])
def test_games_won_are_those_of_the_team(group: int) -> None:
    game = Contest(50, teams=2, group=group)
    random = referee.win_rates(game, {"Player": {0: None, 1: None}}, 5000)
    draw = 1 / 3 if group == 1 else 19 / 81  # two bids of 0 to 2, or two sums of two of them, are equal
    assert random == near({("Player", 0): (1 - draw) / 2, ("Player", 1): (1 - draw) / 2}, abs=0.03)
    against_random = referee.win_rates(game, {"Player": {0: None, 1: Bids()}}, 5000)
    wins = 2 / 3 if group == 1 else 8 / 9
    assert against_random == near({("Player", 0): 0.0, ("Player", 1): wins}, abs=0.03)


# ------------------------------------------------------------ policies of trainers

HYPERPARAMETERS = {
    "ppo": {"batch_size": 16, "buffer_size": 32, "learning_rate": 0.01},
    "sac": {"batch_size": 16, "buffer_size": 100, "buffer_init_steps": 16, "learning_rate": 0.01},
}


def policies(trainer: str, game: str, behaviors: Sequence[str], directory: Path, **options: Any) -> list[Any]:
    """The policies that a trainer has after a few updates, for the ``behaviors``."""
    behavior = {"trainer_type": trainer, "hyperparameters": HYPERPARAMETERS[trainer], "max_steps": 128}
    run = Run({
        "environment": {"type": "game", "id": game, "num_envs": 4, "options": options},
        "behaviors": dict.fromkeys(behaviors, behavior),
        "checkpoint_settings": {"results_dir": str(directory)},
        "env_settings": {"seed": 3},
        "plugins": {"local": ["selfplay_games"]},
    })  # fmt: skip
    run.train()
    return [run.behaviors[name].policy for name in behaviors]


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_probabilities_are_those_of_the_actions_drawn(trainer: str, tmp_path: Path) -> None:
    [policy] = policies(trainer, "tictactoe", ["Player"], tmp_path)
    table, boards = referee.tictactoe_table(policy), referee.tictactoe_boards()
    np.testing.assert_allclose(table.sum(1), ~boards.over, atol=1e-9)
    assert not table[~boards.allowed].any()
    for row in (0, 1, 600):
        assert not boards.over[row]
        seen = np.repeat(seen_by(boards.boards[row : row + 1], boards.ply[row : row + 1] % 2), 10_000, axis=0)
        mask = np.repeat(boards.allowed[row : row + 1], 10_000, axis=0)
        drawn = policy.act({"board": seen}, mask, deterministic=False).discrete[:, 0]
        np.testing.assert_allclose(np.bincount(drawn, minlength=9) / 10_000, table[row], atol=0.02)


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_moments_are_those_of_the_actions_drawn(trainer: str, tmp_path: Path) -> None:
    for policy in policies(trainer, "saddle", ["X", "Y"], tmp_path):
        found = Moments.of(policy)
        drawn = policy.act({"constant": np.ones((40_000, 1), np.float32)}, deterministic=False).continuous
        assert abs(drawn.mean() - found.mean) < 0.02 and abs(drawn.var() - found.variance) < 0.02
        assert found.variance > 0.01 and Moments.of_mean_action(policy).variance == 0.0


def test_policies_of_two_behaviors_play_their_own_seats(tmp_path: Path) -> None:
    first, second = policies("ppo", "kuhn", ["First", "Second"], tmp_path, names=["First", "Second"])
    both, one, two = (referee.kuhn_table(each) for each in ([first, second], first, second))
    states = referee.kuhn_states()
    for name, seat in zip(states.names, states.seats, strict=True):
        np.testing.assert_array_equal(both[name], (one, two)[seat][name])
    assert any((one[name] != two[name]).any() for name in both)
