"""The values that samplers give to episodes, looked up instead of computed: drawing is a gather.

K episodes, P parameters, N copies of the environment.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore.seeding import EpisodeUniforms
from rlcore_curriculum.samplers import SeededSampler

BLOCK = EpisodeUniforms.BLOCK
BITS = BLOCK.bit_length() - 1
NONE = -(2**62)  # as a first episode: of a copy whose rows are nobody's


class EpisodeValues:
    """Says with what value of each parameter a copy begins an episode: the same whenever it is asked.

    The value of (parameter, copy, episode) comes from the random stream ``parameters/NAME`` of the sampler's seed, so
    two samplers that take turns see the same numbers.
    """

    def __init__(self, run_seed: int, names: Sequence[str], samplers: Sequence[SeededSampler], copies: int) -> None:
        self._run_seed = run_seed
        self._names = tuple(names)
        self._copies = copies
        self._samplers: list[SeededSampler] = list(samplers)
        self._uniforms: dict[tuple[str, int], EpisodeUniforms] = {}  # by stream and seed
        self._constants: NDArray[np.float64] = np.zeros(len(names))  # [P]
        self._random: list[int] = []  # the columns that are not constant
        self._first: NDArray[np.int64] = np.full(copies, NONE, np.int64)  # [N] the first episode in each copy's rows
        self._table: NDArray[np.float64] = np.empty((0, BLOCK, len(names)))  # [N, 256, P], once a column is random
        self._rows: NDArray[np.float64] = self._table.reshape(-1, len(names))  # [N * 256, P] of the same
        self._renew()

    def set(self, column: int, sampler: SeededSampler) -> None:
        """What parameter ``column`` is drawn from, from now on."""
        self._samplers[column] = sampler
        self._renew()

    def __call__(self, copies: NDArray[np.int64], episodes: NDArray[np.int64]) -> NDArray[np.float64]:
        """[K, P]: what copy ``copies[k]`` begins episode ``episodes[k]`` with."""
        if not self._random:
            values = np.empty((len(copies), len(self._names)))
            values[:] = self._constants
            return values
        if not len(self._table):
            self._table = np.empty((self._copies, BLOCK, len(self._names)))
            self._table[:] = self._constants
            self._rows = self._table.reshape(-1, len(self._names))
        places = episodes - self._first.take(copies)
        if (places >> BITS).any():  # below the rows, or beyond them
            blocks = episodes >> BITS
            self._fill(copies, blocks)
            if (self._first[copies] != blocks * BLOCK).any():  # a copy is asked for episodes of several blocks
                return np.concatenate([self(copies[k : k + 1], episodes[k : k + 1]) for k in range(len(copies))])
            places = episodes - self._first.take(copies)
        return self._rows.take(copies * BLOCK + places, 0)

    def _fill(self, copies: NDArray[np.int64], blocks: NDArray[np.int64]) -> None:
        """Maps all episodes of those blocks that are not there."""
        missing = self._first[copies] != blocks * BLOCK
        copies, first = np.unique(copies[missing], return_index=True)  # [M]
        blocks = blocks[missing][first]
        for column in self._random:
            sampler = self._samplers[column]
            uniforms = self._stream(column, sampler.seed).of_blocks(copies, blocks)[:, :, 0, 0]  # [M, 256]
            values = sampler.sample(uniforms.ravel(), self._names[column])
            self._table[copies, :, column] = values.reshape(uniforms.shape)
        self._first[copies] = blocks * BLOCK

    def _stream(self, column: int, seed: int) -> EpisodeUniforms:
        key = (f"parameters/{self._names[column]}", seed)
        if key not in self._uniforms:
            self._uniforms[key] = EpisodeUniforms(self._run_seed if seed == -1 else seed, key[:1], self._copies)
        return self._uniforms[key]

    def _renew(self) -> None:
        """Takes up what the samplers are now."""
        self._random = []
        for column, sampler in enumerate(self._samplers):
            if sampler.constant is None:
                self._random.append(column)
            else:
                self._constants[column] = sampler.constant
        self._table[:] = self._constants
        self._first[:] = NONE
