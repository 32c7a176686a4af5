"""Games of pgx: turns, masks and rewards of players, compared with pgx's own functions."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import jax_worlds
import numpy as np
import pytest
from one_behavior import act, begin

from rlcore import EnvironmentFailed, ObservationSpec

pgx = pytest.importorskip("pgx", reason="pgx is not installed: pip install './plugins/jax[pgx]'")

make = partial(jax_worlds.make, jax_worlds.PGX)


def test_players_take_turns_and_both_end() -> None:
    """A game of connect four that the first player wins, against pgx's own step of one game."""
    import jax

    environment = make("connect_four", 1)
    batch = begin(environment, 0)
    spec = environment.behaviors["Agent"]
    assert spec.env_index.tolist() == [0, 0] and spec.team is not None and spec.team.tolist() == [0, 1]
    assert batch.needs_action is not None and batch.action_mask is not None
    first = int(batch.needs_action.argmax())
    assert batch.needs_action.sum() == 1

    game = pgx.make("connect_four")
    step = jax.jit(game.step)
    key = jax.random.key(0)
    for _ in range(3):
        key = jax.random.fold_in(key, 0)
    state = game.init(key)
    assert int(state.current_player) == first
    mover = first
    for column in (0, 1, 0, 1, 0, 1, 0):
        actions = [6, 6]  # of the player who waits, which is ignored
        actions[mover] = column
        batch = act(environment, actions)
        state = step(state, column)
        ended = bool(state.terminated)
        for player in (0, 1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seen = np.asarray(game.observe(state, player), np.float32)
            ours = batch.final_observations if ended else batch.observations
            np.testing.assert_array_equal(ours["observation"][player], seen)
        mover = 1 - mover
        if not ended:
            assert batch.needs_action.tolist() == [mover == 0, mover == 1]
            np.testing.assert_array_equal(batch.action_mask[mover], state.legal_action_mask)
            assert batch.action_mask[1 - mover].all()
            assert not batch.reward.any()
    assert batch.terminated.tolist() == [True, True] and not batch.truncated.any()
    assert batch.reward[first] == 1 and batch.reward[1 - first] == -1
    assert environment.episodes.tolist() == [1]


def test_the_mask_follows_what_was_played() -> None:
    environment = make("tic_tac_toe", 2)
    batch = begin(environment, 0)
    assert batch.action_mask.all()
    batch = act(environment, [4, 4, 7, 7])
    (acting,) = np.flatnonzero(batch.needs_action[:2])
    assert batch.action_mask[acting].tolist() == [field != 4 for field in range(9)]
    (acting,) = 2 + np.flatnonzero(batch.needs_action[2:])
    assert batch.action_mask[acting].tolist() == [field != 7 for field in range(9)]


def test_an_action_against_the_rules_loses_the_game() -> None:
    environment = make("tic_tac_toe", 1)
    batch = begin(environment, 0)
    first = int(batch.needs_action.argmax())
    batch = act(environment, 4, steps=2)
    assert batch.terminated.all()
    assert batch.reward[first] == 1 and batch.reward[1 - first] == -1


def test_rewards_are_added_up_until_the_player_acts_again() -> None:
    """Each move gives the players 1 and 10; player 0 moves twice, then player 1 once."""
    import jax.numpy as jnp

    from rlcore_jax.simulator import Result, View

    class Turns:
        """The state is the number of moves."""

        name = "turns"
        players = 2
        teams = True
        discrete = (2,)
        low = high = np.empty(0, np.float32)
        observations = (ObservationSpec("moves", (1,), np.float32),)

        def init(self, key: Any) -> Any:
            return jnp.int32(0)

        def step(self, state: Any, action: Any, key: Any) -> Any:
            return state + 1

        def view(self, state: Any) -> View:
            acts = jnp.stack([state % 3 < 2, state % 3 == 2])
            return View({"moves": jnp.stack([state, state]).astype(jnp.float32)}, None, acts)

        def result(self, state: Any) -> Result:
            return Result(jnp.array([1.0, 10.0]), state >= 7)

    environment = jax_worlds.playing(Turns(), 1)
    begin(environment, 0)
    rewards = [act(environment).reward.tolist() for _ in range(8)]
    # Moves 1 to 7 of an episode, and the first of the next one.
    assert rewards == [[1, 0], [0, 20], [2, 0], [1, 0], [0, 30], [2, 0], [1, 20], [1, 0]]


def test_minatar_has_no_mask_and_one_slot_for_each_environment() -> None:
    environment = make("minatar-breakout", 3, observation="image", arguments={"sticky_action_prob": 0.0})
    batch = begin(environment, 0)
    spec = environment.behaviors["Agent"]
    assert spec.observations[0].kind == "image" and spec.observations[0].shape == (10, 10, 4)
    assert spec.discrete == (3,) and spec.team is None
    assert batch.needs_action is None and batch.action_mask is None


def test_an_error_of_the_simulator_becomes_one_line() -> None:
    with pytest.raises(EnvironmentFailed, match=r"pgx hex: cannot be made with .*wrong"):
        make("hex", 1, arguments={"size": "wrong"})
