"""The games for self-play keep the rules of environments, and those that OpenSpiel has play as there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import selfplay_games as games

from rlcore import Actions, EpisodeSeeds, Run
from rlcore_devkit import EnvironmentConformance

pyspiel = pytest.importorskip("pyspiel")


class TestBiasedRPS(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return games.biased_rps(num_envs)


class TestSkewedPennies(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return games.skewed_pennies(num_envs)


class TestSaddle(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return games.Saddle(num_envs)


class TestKuhn(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return games.Kuhn(num_envs)


class TestKuhnOfTwoBehaviors(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return games.Kuhn(num_envs, names=("First", "Second"))


class TestKuhnOfThree(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return games.Kuhn(num_envs, players=3)


class TestTicTacToe(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return games.TicTacToe(num_envs)


class TestContestOfTwo(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return games.Contest(num_envs)


class TestContestOfFourPairs(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return games.Contest(num_envs, teams=4, group=2)


class TestTwoSides(EnvironmentConformance):
    episodes_end = False  # those of agents do, those of environments do not

    def make(self, num_envs: int) -> Any:
        return games.TwoSides(num_envs)


class TestTwoSidesOfTwoBehaviors(EnvironmentConformance):
    episodes_end = False

    def make(self, num_envs: int) -> Any:
        return games.TwoSides(num_envs, names=("Left", "Right"), discrete=False)


class TestRemember(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return games.Remember(num_envs)


class TestSoccerTwos(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return games.soccer_twos(num_envs)


class TestStrikersVsGoalie(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return games.strikers_vs_goalie(num_envs)


# ------------------------------------------------------------ OpenSpiel


def seat_columns(game: games.Game, arrays: dict[str, Any]) -> np.ndarray:
    """An array by behavior [S, ...] as one over seats [N, P, ...]."""
    parts = []
    for role in game.roles:
        array = arrays[role.name]
        parts.append((role.seats, array.reshape(game.num_envs, len(role.seats), *array.shape[1:])))
    order = np.argsort([seat for seats, _ in parts for seat in seats])
    return np.concatenate([array for _, array in parts], axis=1)[:, order]


def dealt(game: Any) -> list[Any]:
    """OpenSpiel's state of each environment of a game that just began."""
    spiel = pyspiel.load_game(
        "tic_tac_toe" if isinstance(game, games.TicTacToe) else f"kuhn_poker(players={game.seats})"
    )
    states = []
    for env in range(game.num_envs):
        states.append(spiel.new_initial_state())
        if isinstance(game, games.Kuhn):
            for card in game.cards[env].tolist():
                states[-1].apply_action(card)
    return states


@pytest.mark.parametrize(
    "game",
    [games.Kuhn(5), games.Kuhn(5, names=("First", "Second")), games.Kuhn(5, players=3), games.TicTacToe(5)],
    ids=["kuhn", "kuhn of two behaviors", "kuhn of three", "tictactoe"],
)
def test_games_in_turns_play_as_those_of_openspiel(game: Any) -> None:
    generator = np.random.default_rng(3)
    batches = game.reset(EpisodeSeeds(4), np.zeros(5, np.int64))
    states = dealt(game)
    finished = 0
    for _ in range(300):
        masks = seat_columns(game, {name: b.action_mask for name, b in batches.items()})
        needs = seat_columns(game, {name: b.needs_action for name, b in batches.items()})
        seen = seat_columns(game, {name: next(iter(b.observations.values())) for name, b in batches.items()})
        chosen = np.zeros((5, game.seats), np.int64)
        for env, state in enumerate(states):
            player = state.current_player()
            assert np.flatnonzero(needs[env]).tolist() == [player]
            assert np.flatnonzero(masks[env, player]).tolist() == state.legal_actions()
            if isinstance(game, games.Kuhn):
                assert seen[env, player].tolist() == state.information_state_tensor()
            else:
                empty, nought, cross = np.array(state.observation_tensor()).reshape(3, 9)
                own, other = (cross, nought) if player == 0 else (nought, cross)
                assert seen[env, player].tolist() == [*own, *other, *empty]
            chosen[env, player] = generator.choice(state.legal_actions())
            state.apply_action(int(chosen[env, player]))
        actions = {role.name: Actions(discrete=chosen[:, list(role.seats)].reshape(-1, 1)) for role in game.roles}
        batches = game.step(actions)
        reward = seat_columns(game, {name: b.reward for name, b in batches.items()})
        ended = seat_columns(game, {name: b.terminated for name, b in batches.items()})
        fresh = dealt(game)
        for env, state in enumerate(states):
            assert ended[env].tolist() == [state.is_terminal()] * game.seats
            if state.is_terminal():
                assert reward[env].tolist() == state.returns()
                states[env] = fresh[env]
                finished += 1
            else:
                assert not reward[env].any()
    assert finished > 100


def test_biased_rps_has_the_payoffs_of_openspiel_divided_by_50() -> None:
    game = pyspiel.load_game("matrix_brps")
    np.testing.assert_array_equal(np.array(game.row_utilities()).reshape(3, 3) / 50.0, games.matrix.BIASED_RPS)
    np.testing.assert_array_equal(np.array(game.col_utilities()).reshape(3, 3) / 50.0, -games.matrix.BIASED_RPS)


@pytest.mark.parametrize("game", [games.biased_rps(9), games.skewed_pennies(4)], ids=["rps", "pennies"])
def test_a_matrix_game_pays_what_the_matrix_says(game: games.Matrix) -> None:
    rows, columns = np.divmod(np.arange(game.num_envs), len(game.payoffs))
    chosen = np.stack([rows, columns], axis=1)
    game.reset(EpisodeSeeds(1), np.zeros(game.num_envs, np.int64))
    actions = {role.name: Actions(discrete=chosen[:, list(role.seats)].reshape(-1, 1)) for role in game.roles}
    reward = seat_columns(game, {name: batch.reward for name, batch in game.step(actions).items()})
    np.testing.assert_allclose(reward[:, 0], game.payoffs.ravel(), rtol=1e-6)
    np.testing.assert_array_equal(reward[:, 1], -reward[:, 0])


def test_cards_are_dealt_evenly() -> None:
    game = games.Kuhn(50)
    hands = []
    for episode in range(60):
        game.reset(EpisodeSeeds(7), np.full(50, episode))
        hands.append(game.cards.copy())
    _, counts = np.unique(np.concatenate(hands), axis=0, return_counts=True)
    assert len(counts) == 6 and np.abs(counts / 3000 - 1 / 6).max() < 4 * np.sqrt(5 / 36 / 3000)


@pytest.mark.parametrize("teams", [2, 3, 4])
def test_a_contest_is_zero_sum_over_teams(teams: int) -> None:
    game = games.Contest(64, teams=teams)
    game.reset(EpisodeSeeds(1), np.zeros(64, np.int64))
    bids = np.random.default_rng(0).integers(3, size=(64, teams))
    reward = game.step({"Player": Actions(discrete=bids.reshape(-1, 1))})["Player"].reward.reshape(64, teams)
    np.testing.assert_allclose(reward.sum(1), 0.0, atol=1e-6)
    assert (reward.max(1) == reward[np.arange(64), bids.argmax(1)]).all()


def test_a_configuration_names_a_game_and_its_options(tmp_path: Path) -> None:
    behavior = {"trainer_type": "ppo", "hyperparameters": {"batch_size": 16, "buffer_size": 64}, "max_steps": 128}
    config = {
        "environment": {"type": "game", "id": "kuhn", "num_envs": 4, "options": {"players": 3}},
        "behaviors": {"Player": behavior},
        "checkpoint_settings": {"results_dir": str(tmp_path)},
        "plugins": {"local": ["selfplay_games"]},
    }
    assert Run(config).train()["Player"].steps >= 128
