"""The rules of the self-play games that OpenSpiel does not have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import selfplay_games as games

from rlcore import Actions, AgentBatch, EpisodeSeeds, Run


def begun(game: games.Game) -> dict[str, AgentBatch]:
    return game.reset(EpisodeSeeds(5), np.zeros(game.num_envs, np.int64))


def discrete(options: Any) -> Actions:
    return Actions(discrete=np.asarray(options).reshape(-1, 1))


# ------------------------------------------------------------ two sides


@pytest.mark.parametrize("is_discrete", [True, False])
def test_a_side_that_walks_to_its_goal_gets_1_02_in_5_steps(is_discrete: bool) -> None:
    game = games.TwoSides(40, discrete=is_discrete)
    batch = begun(game)["Player"]
    goals = batch.observations["goal"][:, 0].copy()
    assert set(goals) == {-1.0, 1.0}
    total = np.zeros(80)
    for step in range(5):
        right = discrete((goals > 0).astype(np.int64)) if is_discrete else Actions(continuous=goals[:, None])
        batch = game.step({"Player": right})["Player"]
        total += batch.reward
        assert batch.terminated.all() == batch.terminated.any() == (step == 4)
    np.testing.assert_allclose(total, 1.02, atol=1e-6)
    assert game.episodes.tolist() == [0] * 40 and (game.numbers == 1).all()


def test_the_sides_end_apart_and_do_not_meet() -> None:
    """Left walks away from its goal; Right dithers and never ends."""
    game = games.TwoSides(3, names=("Left", "Right"))
    batches = begun(game)
    for step in range(20):
        away = (batches["Left"].observations["goal"][:, 0] < 0).astype(np.int64)
        before = batches["Right"].observations["goal"].copy()
        batches = game.step({"Left": discrete(away), "Right": discrete(np.full(3, step % 2))})
        assert not batches["Right"].terminated.any()
        np.testing.assert_array_equal(batches["Right"].observations["goal"], before)
        np.testing.assert_allclose(batches["Right"].reward, -0.01)
        np.testing.assert_allclose(batches["Left"].reward, -1.06 if step % 5 == 4 else -0.01)
    assert game.numbers.tolist() == [[4, 0]] * 3


def test_a_side_has_the_goals_of_its_own_episode_numbers() -> None:
    game, goals = games.TwoSides(30), []
    batch = begun(game)["Player"]
    for _ in range(4):
        goals.append(batch.observations["goal"].copy())
        for _ in range(5):
            batch = game.step({"Player": discrete(np.ones(60, np.int64))})["Player"]
    for episode, goal in enumerate(goals):
        fresh = game.reset(EpisodeSeeds(5), np.full(30, episode))["Player"]
        np.testing.assert_array_equal(fresh.observations["goal"], goal)
    assert len(np.unique(np.array(goals)[:, :, 0], axis=0)) > 1


# ------------------------------------------------------------ memory


def test_remembering_wins_half_a_point_against_guessing() -> None:
    game = games.Remember(2000)
    batch = begun(game)["Player"]
    cues = batch.observations["cue"][:, 1].reshape(-1, 2).astype(np.int64)
    for step in range(4):
        seen = batch.observations["cue"].reshape(-1, 2, 6)
        assert (seen[:, :, :2].sum(2) == (step == 0)).all() and (seen[:, :, 2 + step] == 1).all()
        guesses = np.stack([cues[:, 0], np.zeros(2000, np.int64)], axis=1)  # seat 0 remembers
        batch = game.step({"Player": discrete(guesses)})["Player"]
        assert batch.terminated.all() == (step == 3) and batch.reward.any() == (step == 3)
    reward = batch.reward.reshape(-1, 2)
    np.testing.assert_array_equal(reward.sum(1), 0.0)
    assert set(reward[:, 0]) == {0.0, 1.0} and abs(reward[:, 0].mean() - 0.5) < 4 * 0.5 / np.sqrt(2000)


# ------------------------------------------------------------ the pitch


def kick_off(game: games.Pitch, ball: tuple[float, float], velocity: tuple[float, float]) -> None:
    begun(game)
    game.place[...] = (0.0, -0.9)  # no agent is near the ball
    game.ball[...], game.velocity[...] = ball, velocity


def nothing(game: games.Pitch) -> dict[str, Actions]:
    return {
        role.name: Actions(discrete=np.zeros((game.num_envs * len(role.seats), 3), np.int64)) for role in game.roles
    }


@pytest.mark.parametrize(("speed", "winner"), [(0.3, 0), (-0.3, 1)])
def test_a_goal_ends_the_game_with_group_rewards(speed: float, winner: int) -> None:
    game = games.soccer_twos(2, steps=50)
    kick_off(game, (1.9 * np.sign(speed), 0.0), (speed, 0.0))
    batch = game.step(nothing(game))["SoccerTwos"]
    assert batch.terminated.all() and not batch.reward.any()
    assert batch.group_reward is not None
    expected = np.where(np.array([0, 0, 1, 1] * 2) == winner, 1 - 1 / 50, -1.0)
    np.testing.assert_allclose(batch.group_reward, expected, rtol=1e-6)


def test_the_ball_bounces_off_the_wall_beside_a_goal() -> None:
    game = games.soccer_twos(2)
    kick_off(game, (1.9, 0.8), (0.3, 0.0))
    assert not game.step(nothing(game))["SoccerTwos"].terminated.any()
    assert (game.velocity[:, 0] < 0).all() and (game.ball[:, 0] == 2.0).all()


def test_an_agent_near_the_ball_kicks_it_where_it_looks() -> None:
    game = games.soccer_twos(1)
    kick_off(game, (0.0, 0.0), (0.0, 0.0))
    game.place[0, 0], game.heading[0, 0] = (-0.2, 0.0), 0.0
    game.step(nothing(game))
    assert game.velocity[0, 0] > 0 and game.velocity[0, 1] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("make", "results"),
    [
        (games.soccer_twos, {"SoccerTwos": [0, 0, 0, 0]}),
        (games.strikers_vs_goalie, {"Striker": [-1, -1], "Goalie": [1]}),
    ],
)
def test_the_last_step_ends_the_game(make: Callable[..., games.Pitch], results: dict[str, list[int]]) -> None:
    game = make(1, steps=7)
    kick_off(game, (0.0, 0.5), (0.0, 0.0))
    for step in range(7):
        batches = game.step(nothing(game))
        for name, group_reward in results.items():
            assert batches[name].terminated.all() == (step == 6) and not batches[name].truncated.any()
            given = batches[name].group_reward
            assert given is not None and given.tolist() == (group_reward if step == 6 else [0] * len(group_reward))


def test_the_pitch_looks_alike_from_both_sides() -> None:
    """A game turned by half a circle, with the teams exchanged, gives the other team the same observations."""
    game = games.soccer_twos(4)
    begun(game)
    game.velocity[...] = 0.1
    seen = game.observe(game.roles[0])
    game.place[...], game.heading[...] = -game.place[:, [2, 3, 0, 1]], game.heading[:, [2, 3, 0, 1]] + np.pi
    game.ball *= -1
    game.velocity *= -1
    turned = game.observe(game.roles[0])
    np.testing.assert_allclose(turned[:, [2, 3, 0, 1]], seen, atol=1e-6)


def test_behaviors_teams_and_groups_of_the_pitch() -> None:
    soccer = games.soccer_twos(2).behaviors["SoccerTwos"]
    assert soccer.discrete == (3, 3, 3) and soccer.env_index.tolist() == [0] * 4 + [1] * 4
    assert soccer.team is not None and soccer.group is not None
    assert soccer.team.tolist() == [0, 0, 1, 1] * 2 and soccer.group.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    behaviors = games.strikers_vs_goalie(2).behaviors
    teams = {name: None if each.team is None else each.team.tolist() for name, each in behaviors.items()}
    assert teams == {"Striker": [0, 0, 0, 0], "Goalie": [1, 1]}


SOCCER = {
    "soccer_twos": {"SoccerTwos": {"team_change": 512}},
    "strikers_vs_goalie": {"Striker": {"team_change": 256}, "Goalie": {"team_change": 512}},
}


@pytest.mark.parametrize("game", SOCCER)
def test_self_play_blocks_of_mlagents_run_on_the_pitch(game: str, tmp_path: Path) -> None:
    """The keys are those of ML-Agents' files for these games, with fewer steps; PPO stands for POCA."""
    behavior = {
        "trainer_type": "ppo",
        "hyperparameters": {
            "batch_size": 64, "buffer_size": 256, "learning_rate": 3e-4, "beta": 0.005, "epsilon": 0.2, "lambd": 0.95,
            "num_epoch": 3, "learning_rate_schedule": "constant",
        },
        "network_settings": {"normalize": False, "hidden_units": 32, "num_layers": 2, "vis_encode_type": "simple"},
        "reward_signals": {"extrinsic": {"gamma": 0.99, "strength": 1.0}},
        "keep_checkpoints": 5,
        "max_steps": 1024,
        "time_horizon": 100,
        "summary_freq": 512,
    }  # fmt: skip
    play = {"save_steps": 256, "swap_steps": 128, "window": 10, "play_against_latest_model_ratio": 0.5,
            "initial_elo": 1200.0}  # fmt: skip
    results = Run({
        "environment": {"type": "game", "id": game, "num_envs": 4},
        "behaviors": {name: {**behavior, "self_play": {**play, **own}} for name, own in SOCCER[game].items()},
        "checkpoint_settings": {"results_dir": str(tmp_path)},
        "plugins": {"local": ["selfplay_games"]},
    }).train()  # fmt: skip
    assert all(result.updates and result.steps >= 1024 for result in results.values())
