"""Rewards are the scores of Atari games: the same actions in ale-py's emulator give them too."""

from __future__ import annotations

import numpy as np
import pytest
from one_behavior import act, begin

from rlcore import EpisodeSeeds

envpool = pytest.importorskip("envpool", reason="EnvPool has no wheel for this platform")
ale_py = pytest.importorskip("ale_py", reason="the emulator to compare with")

PLAIN = {"noop_max": 1, "use_fire_reset": False}  # an episode starts after one step of the emulator without action


def emulator(game: str) -> tuple[object, list[object]]:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(ale_py.roms.get_rom_path(game))
    return ale, list(ale.getMinimalActionSet())


@pytest.mark.parametrize(
    ("env_id", "game", "lives"),
    [("MsPacman-v5", "ms_pacman", False), ("Breakout-v5", "breakout", True)],
)
def test_rewards_are_what_the_emulator_scores(make, env_id, game, lives) -> None:
    """With ``lives``, an episode ends with each life; the next one continues the game."""
    environment = make(env_id, 1, episodic_life=lives, max_episode_steps=250, **PLAIN)
    begin(environment, 1)
    ale, choices = emulator(game)
    ale.reset_game()
    ale.act(0)
    rng = np.random.default_rng(0)
    scored = 0.0
    ends = 0
    games = 0
    steps = 0
    for _ in range(600):
        action = int(rng.integers(len(choices)))
        before = ale.lives()
        score = 0.0
        for _ in range(4):
            score += ale.act(choices[action])
            if ale.game_over():
                break
        steps += 1
        batch = act(environment, action)
        assert batch.reward[0] == score
        over = ale.game_over()
        late = steps >= 250
        assert bool(batch.ended.size) == (over or late or (lives and ale.lives() < before))
        assert bool(batch.truncated[0]) == late
        scored += abs(score)
        if batch.ended.size:
            ends += 1
            if over or late:
                ale.reset_game()
                steps = 0
                games = games + 1
            ale.act(0)
    assert scored >= 3 and games >= 2 and (ends > games) == lives


def test_observations_are_stacked_images(make) -> None:
    for options, channels in (({}, 4), ({"gray_scale": False}, 12)):
        environment = make("Pong-v5", 1, **options)
        (spec,) = environment.behaviors["Agent"].observations
        assert (spec.shape, spec.kind) == ((84, 84, channels), "image")
        batch = begin(environment, 1)
        picture = batch.observations["observation"][0]
        assert picture.shape == spec.shape and picture.dtype == np.uint8
        pool = envpool.make_gymnasium("Pong-v5", num_envs=1, env_seed=[EpisodeSeeds(1)(0, 0)], **options)
        for channel, plane in enumerate(pool.reset()[0][0]):
            assert plane.std() > 5, "a picture of a game"
            np.testing.assert_array_equal(picture[..., channel], plane)
