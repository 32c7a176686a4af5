"""Atari games of ale-py: rewards are scores, and films show the game that the observations are of."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from rlcore import Actions, EpisodeSeeds

ale_py = pytest.importorskip("ale_py", reason="Atari needs the extra 'atari'")
PACMAN = "ale_py:ALE/MsPacman-v5"


def noughts(shape: tuple[int, ...] = (1,)) -> np.ndarray:
    return np.zeros(shape, np.int64)


def rewards_of(environment, seed: int, steps: int) -> np.ndarray:
    environment.reset(EpisodeSeeds(seed), noughts())
    action = {"Agent": Actions(discrete=noughts((1, 1)))}
    rewards = [environment.step(action)["Agent"].reward[0] for _ in range(steps)]
    environment.close()
    return np.array(rewards)


def test_rewards_are_scores_unless_clipping_is_asked_for(make) -> None:
    game = gymnasium.make_vec("ALE/MsPacman-v5", num_envs=1, reward_clipping=False)
    game.reset(seed=EpisodeSeeds(5)(0, 0))
    scores = np.array([game.step(noughts())[1][0] for _ in range(200)])
    game.close()
    assert scores.max() >= 10, "a dot counts 10"
    np.testing.assert_array_equal(rewards_of(make(PACMAN, 1), 5, 200), scores)
    np.testing.assert_array_equal(rewards_of(make(PACMAN, 1, reward_clipping=True), 5, 200), np.clip(scores, -1, 1))


def test_a_film_shows_the_game_that_the_policy_sees(make, tmp_path) -> None:
    pytest.importorskip("moviepy", reason="films need the extra 'video'")
    filmed, native = make(PACMAN, 1, video=tmp_path), make(PACMAN, 1)
    (seen, trained) = (next(iter(each.behaviors["Agent"].observations)) for each in (filmed, native))
    assert seen == trained and seen.shape == (84, 84, 4)
    native.close()
    batch = filmed.reset(EpisodeSeeds(5), noughts())["Agent"]
    rng, rewards = np.random.default_rng(0), 0.0
    for _ in range(1000):
        batch = filmed.step({"Agent": Actions(discrete=rng.integers(9, size=(1, 1)))})["Agent"]
        rewards += float(batch.reward[0])
        if batch.ended.size:
            break
    filmed.close()
    assert batch.ended.size and rewards > 50 and rewards % 10 == 0
    assert [path.suffix for path in tmp_path.iterdir()] == [".mp4"]
