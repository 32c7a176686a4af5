"""Numbers that belong to the episodes of environments, whenever they are looked up.

K episodes, M blocks of 256 episodes, N environments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rlcore import derive_generator
from rlcore_curriculum.arrays import Floats, Ints

# Environments [M] and blocks [M] to the numbers of all their episodes.
MakeBlocks = Callable[[Ints, Ints], Floats]


class EpisodeTable:
    """Numbers that belong to (environment, episode number), whenever they are looked up.

    The numbers of 256 episodes of an environment are made at once and kept.

    Attributes:
        BLOCK: Episodes of a block: 256.
    """

    _BITS = 8
    BLOCK = 1 << _BITS
    _NONE = -(1 << 62)  # as a first episode: nothing is kept of the environment

    def __init__(self, num_envs: int, shape: tuple[int, ...], make: MakeBlocks) -> None:
        """``make(env_index, blocks)``, both [M], gives [M, 256, *shape]; episode e is in block e // 256."""
        # One block of each environment is kept: to make a generator takes far longer than to draw 256 numbers from it.
        self._make = make
        self._num_envs = num_envs
        self._shape = shape
        # [N] the first episode of what is kept of each environment
        self._first: Ints = np.full(num_envs, self._NONE, np.int64)
        self._rows: Floats = np.empty((0, *shape))  # [N * 256, *shape], once it was asked for

    def __call__(self, env_index: Ints, episodes: Ints) -> Floats:
        """Return the numbers [K, *shape] of episode ``episodes[k]`` of environment ``env_index[k]``. Both are [K]."""
        if len(env_index) == 1:  # the most frequent case: few environments end together
            env = int(env_index[0])
            episode = int(episodes[0])
            place = episode - int(self._first[env])
            if 0 <= place < self.BLOCK:
                row = env * self.BLOCK + place
                return self._rows[row : row + 1].copy()
        places = self._places(env_index, episodes)
        if places is None:
            self._hold(env_index, episodes >> self._BITS)
            places = self._places(env_index, episodes)
        if places is None:  # episodes of several blocks of one environment, of which one is kept at a time
            pairs = zip(env_index[:, None], episodes[:, None], strict=True)
            return np.concatenate([self(env, episode) for env, episode in pairs])
        rows = env_index * self.BLOCK + places
        return self._rows.take(rows, 0)

    def _places(self, env_index: Ints, episodes: Ints) -> Ints | None:
        """The place [K] of each episode in the kept block of its environment; None if one of them is in no kept block.

        A shift to the right keeps the sign, so that places before the block are found too.
        """
        places = episodes - self._first.take(env_index)
        outside = places >> self._BITS
        if outside.any():
            return None
        return places

    def of_blocks(self, env_index: Ints, blocks: Ints) -> Floats:
        """Return the numbers [M, 256, *shape] of all episodes in block ``blocks[m]`` of environment ``env_index[m]``.

        Both are [M]; no pair is repeated.
        """
        self._hold(env_index, blocks)
        return self._blocks[env_index]

    def forget(self) -> None:
        """Drop what is kept: ``make`` gives other numbers from now on."""
        self._first[:] = self._NONE

    def _hold(self, env_index: Ints, blocks: Ints) -> None:
        """Make the numbers that are missing; of several blocks of one environment, those of one block."""
        if not len(self._rows):
            rows = self._num_envs * self.BLOCK
            self._rows = np.empty((rows, *self._shape))
        first = blocks << self._BITS
        missing = self._first[env_index] != first
        env_index, where = np.unique(env_index[missing], return_index=True)
        blocks = blocks[missing][where]
        self._blocks[env_index] = self._make(env_index, blocks)
        self._first[env_index] = blocks << self._BITS

    @property
    def _blocks(self) -> Floats:
        """[N, 256, *shape] a view of the rows."""
        return self._rows.reshape(self._num_envs, self.BLOCK, *self._shape)


class EpisodeUniforms(EpisodeTable):
    """Uniform random numbers in [0, 1) that belong to (stream, environment, episode number).

    C streams side by side; each episode has ``width`` numbers of each: what is looked up is [K, C, width].
    """

    def __init__(self, run_seed: int, streams: Sequence[str], num_envs: int, width: int = 1) -> None:
        """``streams`` are C names, such as ``parameters/length``, of streams of the run with the seed ``run_seed``."""
        super().__init__(num_envs, (len(streams), width), self._draw)
        self._seed = run_seed
        self._streams = tuple(streams)

    def _draw(self, env_index: Ints, blocks: Ints) -> Floats:
        streams, width = self._shape
        numbers = np.empty((len(env_index), self.BLOCK, streams, width))
        pairs = zip(env_index.tolist(), blocks.tolist(), strict=True)
        for row, (env, block) in enumerate(pairs):
            for column, stream in enumerate(self._streams):
                # Named by its block, not drawn from in order: a resumed run needs no state of these generators.
                generator = derive_generator(self._seed, stream, env, block)
                numbers[row, :, column] = generator.random((self.BLOCK, width))
        return numbers
