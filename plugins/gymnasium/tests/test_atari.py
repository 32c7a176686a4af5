"""Atari games of ale-py in their vectorized form: options that are refused, and films."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from one_behavior import act, begin

from rlcore import ConfigError

pytest.importorskip("ale_py", reason="Atari needs the extra 'atari'")
PACMAN = "ALE/MsPacman-v5"


def test_what_would_change_reported_scores_is_refused_and_wrong_names_get_the_nearest_one(make) -> None:
    for options, words in (
        ({"reward_clipping": True}, "hyperparameters: {clip_rewards: 1.0}"),
        ({"life_loss_info": True}, "episodic_life: true"),
        ({"episodic_lives": True}, "did you mean 'episodic_life'?"),
        ({"frame_skip": 2}, "did you mean 'frameskip'?"),
        ({"episodic_life": "yes"}, "must be true or false, not 'yes'"),
    ):
        with pytest.raises(ConfigError) as refused:
            make(PACMAN, 1, **options)
        assert words in refused.value.message and refused.value.key == ("environment", "options", *options)
    make(PACMAN, 1, reward_clipping=False, noop_max=1, use_fire_reset=False, full_action_space=True).close()


def test_a_film_shows_the_game_that_the_policy_sees(make, tmp_path) -> None:
    pytest.importorskip("moviepy", reason="films need the extra 'video'")
    filmed = make(PACMAN, 1, video=tmp_path)
    native = make(PACMAN, 1)
    (seen, trained) = (next(iter(each.behaviors["Agent"].observations)) for each in (filmed, native))
    assert seen == trained and seen.shape == (84, 84, 4)
    native.close()
    batch = begin(filmed, 5)
    rng = np.random.default_rng(0)
    rewards = 0.0
    for _ in range(1000):
        batch = act(filmed, rng.integers(9))
        rewards += float(batch.reward[0])
        if batch.ended.size:
            break
    filmed.close()
    assert batch.ended.size and rewards > 50 and rewards % 10 == 0
    assert [path.suffix for path in tmp_path.iterdir()] == [".mp4"]


@pytest.mark.parametrize(
    ("env_id", "options", "more", "advice"),
    [
        ("MsPacmanNoFrameskip-v4", {}, {}, "write ALE/MsPacman-v5, which is preprocessed as in Stable-Baselines3 and"),
        ("ale_py:MsPacman-v4", {}, {}, "write ALE/MsPacman-v5, which is preprocessed"),
        (
            PACMAN,
            {},
            {"wrappers": [{"name": "TimeLimit", "max_episode_steps": 9}]},
            "without preprocessing; set env",
        ),
    ],
    ids=["without frameskip", "an old id", "a wrapper that does not change screens"],
)
def test_whole_screens_are_refused_with_the_form_that_is_preprocessed(
    make: Callable[..., Any], env_id: str, options: Any, more: Any, advice: str
) -> None:
    with pytest.raises(ConfigError, match=r"shows whole screens of 210x160x3 pixels") as caught:
        make(env_id, 1, **more, **options)
    assert advice in str(caught.value) and "name: AtariPreprocessing" in str(caught.value)
    assert caught.value.key == ("environment", "id")


def test_numbers_of_the_memory_and_chosen_pictures_are_no_whole_screens(make: Callable[..., Any]) -> None:
    ram = make("MsPacmanNoFrameskip-v4", 1, obs_type="ram")
    assert ram.behaviors["Agent"].observations[0].shape == (128,)
    smaller = make("MsPacmanNoFrameskip-v4", 1, wrappers=["GrayscaleObservation"])
    assert smaller.behaviors["Agent"].observations[0].shape == (210, 160, 1)
