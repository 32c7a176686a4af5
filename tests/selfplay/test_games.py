"""The games for self-play keep the rules of environments, and those that OpenSpiel has play as there."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import selfplay_games as games

from rlcore import Actions, EpisodeSeeds, Run
from rlcore_devkit import EnvironmentConformance

pyspiel = pytest.importorskip("pyspiel")


# A game of each class, with as many teams and behaviors as it can have.
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "Saddle": (games.Saddle, {}),
    "Kuhn": (partial(games.Kuhn, players=3), {}),
    "Contest": (partial(games.Contest, teams=4, group=2), {}),
    # The episodes of agents end, those of environments do not.
    "TwoSides": (partial(games.TwoSides, names=("Left", "Right"), discrete=False), {"episodes_end": False}),
    "Remember": (games.Remember, {}),
    "Strikers": (games.strikers_vs_goalie, {}),
}
for name, (make, facts) in CASES.items():
    members = {"make": lambda self, num_envs, make=make: make(num_envs), **facts}
    globals()[f"Test{name}"] = type(f"Test{name}", (EnvironmentConformance,), members)


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
    [games.Kuhn(5, names=("First", "Second")), games.Kuhn(5, players=3), games.TicTacToe(5)],
    ids=["kuhn of two behaviors", "kuhn of three", "tictactoe"],
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


@pytest.mark.parametrize("game", [games.biased_rps(9), games.skewed_pennies(4)], ids=["rps", "pennies"])
def test_a_matrix_game_pays_what_the_matrix_says(game: games.Matrix) -> None:
    rows, columns = np.divmod(np.arange(game.num_envs), len(game.payoffs))
    chosen = np.stack([rows, columns], axis=1)
    game.reset(EpisodeSeeds(1), np.zeros(game.num_envs, np.int64))
    actions = {role.name: Actions(discrete=chosen[:, list(role.seats)].reshape(-1, 1)) for role in game.roles}
    reward = seat_columns(game, {name: batch.reward for name, batch in game.step(actions).items()})
    np.testing.assert_allclose(reward[:, 0], game.payoffs.ravel(), rtol=1e-6)
    np.testing.assert_array_equal(reward[:, 1], -reward[:, 0])


def test_self_play_blocks_of_mlagents_run_on_the_pitch(tmp_path: Path) -> None:
    """The keys are those of ML-Agents' file for this game, with fewer steps; PPO stands for POCA."""
    behavior = {
        "trainer_type": "ppo",
        "hyperparameters": {
            "batch_size": 64, "buffer_size": 256, "learning_rate": 3e-4, "beta": 0.005, "epsilon": 0.2, "lambd": 0.95,
            "num_epoch": 3, "learning_rate_schedule": "constant",
        },
        "network_settings": {"normalize": False, "hidden_units": 32, "num_layers": 2, "vis_encode_type": "simple"},
        "reward_signals": {"extrinsic": {"gamma": 0.99, "strength": 1.0}},
        "keep_checkpoints": 5, "max_steps": 1024, "time_horizon": 100, "summary_freq": 512,
    }  # fmt: skip
    play = {"save_steps": 256, "swap_steps": 128, "window": 10, "play_against_latest_model_ratio": 0.5,
            "initial_elo": 1200.0}  # fmt: skip
    team_change = {"Striker": 256, "Goalie": 512}
    blocks = {name: {**behavior, "self_play": {**play, "team_change": each}} for name, each in team_change.items()}
    results = Run({
        "environment": {"type": "game", "id": "strikers_vs_goalie", "num_envs": 4},
        "behaviors": blocks,
        "checkpoint_settings": {"results_dir": str(tmp_path)},
        "plugins": {"local": ["selfplay_games"]},
    }).train()  # fmt: skip
    assert all(result.updates and result.steps >= 1024 for result in results.values())
