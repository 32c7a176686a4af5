"""The values that samplers give to episodes, looked up instead of computed: drawing is a gather.

K episodes, P parameters, N copies of the environment.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore.seeding import EpisodeTable, EpisodeUniforms
from rlcore_curriculum.samplers import SeededSampler


class EpisodeValues:
    """Says with what value of each parameter a copy begins an episode: the same whenever it is asked.

    The value of (parameter, copy, episode) comes from the random stream ``parameters/NAME`` of the sampler's seed, so
    two samplers that take turns see the same numbers.
    """

    def __init__(self, run_seed: int, names: Sequence[str], samplers: Sequence[SeededSampler], num_envs: int) -> None:
        self._run_seed = run_seed
        self._names = tuple(names)
        self._num_envs = num_envs
        self._samplers: list[SeededSampler] = list(samplers)
        self._uniforms: dict[tuple[str, int], EpisodeUniforms] = {}  # by stream and seed
        self._constants: NDArray[np.float64] = np.zeros(len(names))  # [P]
        self._random: list[int] = []  # the columns that are not constant
        self._table = EpisodeTable(num_envs, (len(names),), self._sample)  # asked where a column is random
        self._renew()

    def set(self, column: int, sampler: SeededSampler) -> None:
        """What parameter ``column`` is drawn from, from now on."""
        self._samplers[column] = sampler
        self._renew()

    def __call__(self, env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> NDArray[np.float64]:
        """[K, P]: what copy ``copies[k]`` begins episode ``episodes[k]`` with."""
        if self._random:
            return self._table(env_index, episodes)
        values = np.empty((len(env_index), len(self._names)))
        values[:] = self._constants
        return values

    def _sample(self, env_index: NDArray[np.int64], blocks: NDArray[np.int64]) -> NDArray[np.float64]:
        values = np.empty((len(env_index), EpisodeTable.BLOCK, len(self._names)))
        values[:] = self._constants
        for column in self._random:
            sampler, name = self._samplers[column], self._names[column]
            uniforms = self._stream(name, sampler.seed).of_blocks(env_index, blocks)[:, :, 0, 0]  # [M, 256]
            values[:, :, column] = sampler.sample(uniforms.ravel(), name).reshape(uniforms.shape)
        return values

    def _stream(self, name: str, seed: int) -> EpisodeUniforms:
        key = (f"parameters/{name}", seed)
        if key not in self._uniforms:
            self._uniforms[key] = EpisodeUniforms(self._run_seed if seed == -1 else seed, key[:1], self._num_envs)
        return self._uniforms[key]

    def _renew(self) -> None:
        """Takes up what the samplers are now."""
        self._random = []
        for column, sampler in enumerate(self._samplers):
            if sampler.constant is None:
                self._random.append(column)
            else:
                self._constants[column] = sampler.constant
        self._table.forget()
