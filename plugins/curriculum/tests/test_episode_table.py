"""The numbers of an episode are its own, whatever else they are asked for with."""

from __future__ import annotations

import numpy as np

from rlcore import derive_generator
from rlcore_curriculum.episode_table import EpisodeUniforms


def test_episodes_of_several_blocks_of_one_copy_have_their_own_numbers() -> None:
    env_index = np.array([1, 0, 1, 1, 0, 1])
    episodes = np.array([3, 530, 256, 3, 2, 2800])
    numbers = EpisodeUniforms(5, ["a", "b"], num_envs=2, width=2)(env_index, episodes)
    for k, (env, episode) in enumerate(zip(env_index.tolist(), episodes.tolist(), strict=True)):
        for column, stream in enumerate("ab"):
            block = derive_generator(5, stream, env, episode // 256).random((256, 2))
            assert numbers[k, column].tolist() == block[episode % 256].tolist()
