"""The values that samplers draw for episodes, computed in blocks: drawing is then a lookup.

K episodes, P parameters, N environments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlcore_curriculum.arrays import Floats, Ints
from rlcore_curriculum.episode_table import EpisodeTable, EpisodeUniforms
from rlcore_curriculum.samplers import SeededSampler


class EpisodeValues:
    """Returns the values with which an environment starts an episode; equal arguments give equal values.

    The value of (parameter, environment, episode) comes from the random stream ``parameters/NAME`` with the sampler's
    seed, so two samplers that alternate use the same numbers.
    """

    def __init__(self, run_seed: int, names: Sequence[str], samplers: Sequence[SeededSampler], num_envs: int) -> None:
        self._run_seed = run_seed
        self._names = tuple(names)
        self._num_envs = num_envs
        self._samplers: list[SeededSampler] = list(samplers)
        self._uniforms: dict[tuple[str, int], EpisodeUniforms] = {}  # by stream and seed
        self._constants: Floats = np.zeros(len(names))  # [P]
        self._random: list[int] = []  # the columns that are not constant
        self._table = EpisodeTable(num_envs, (len(names),), self._sample)  # used if a column is random
        self._update_columns()

    def set(self, column: int, sampler: SeededSampler) -> None:
        """Draw parameter ``column`` from ``sampler`` from now on."""
        self._samplers[column] = sampler
        self._update_columns()

    def __call__(self, env_index: Ints, episodes: Ints) -> Floats:
        """Return the values [K, P] for the episodes ``episodes[k]`` of the environments ``env_index[k]``."""
        if self._random:
            return self._table(env_index, episodes)
        shape = (len(env_index), len(self._names))
        values = np.empty(shape)
        values[:] = self._constants
        return values

    def _sample(self, env_index: Ints, blocks: Ints) -> Floats:
        shape = (len(env_index), EpisodeTable.BLOCK, len(self._names))
        values = np.empty(shape)
        values[:] = self._constants
        for column in self._random:
            sampler = self._samplers[column]
            name = self._names[column]
            stream = self._stream(name, sampler.seed)
            uniforms = stream.of_blocks(env_index, blocks)[:, :, 0, 0]  # [M, 256]
            drawn = sampler.sample(uniforms.ravel(), name)
            values[:, :, column] = drawn.reshape(uniforms.shape)
        return values

    def _stream(self, name: str, seed: int) -> EpisodeUniforms:
        stream = f"parameters/{name}"
        key = (stream, seed)
        if key not in self._uniforms:
            of_run = self._run_seed if seed == -1 else seed
            self._uniforms[key] = EpisodeUniforms(of_run, (stream,), self._num_envs)
        return self._uniforms[key]

    def _update_columns(self) -> None:
        """Sort the columns into constant and random ones, and drop computed values."""
        self._random = []
        for column, sampler in enumerate(self._samplers):
            if sampler.constant is None:
                self._random.append(column)
            else:
                self._constants[column] = sampler.constant
        self._table.forget()
