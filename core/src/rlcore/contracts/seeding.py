"""Random numbers: seeds that depend on what they are for, and the generators of the process.

A seed depends on what it is for, never on the order in which things happen.

Everything random in a run draws from a stream named by (run seed, purpose, indices) through
:class:`numpy.random.SeedSequence`, so an episode's seed is the same whichever worker plays it and after a resume.

Purposes of the core and of rlcore-torch: ``episode`` (environment, number) and ``evaluation``, and for a behavior
NAME ``NAME/weights``, ``NAME/actions``, ``NAME/minibatches`` or ``NAME/learning``,
``NAME/behavioral_cloning`` and ``NAME/exploit``. Curricula draw from ``parameters/PARAMETER``.

Code of others also draws from the generators that a process has for all of its code, :class:`ProcessGenerators`.
"""

from __future__ import annotations

import random
import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.saved_values import (
    SavedValueError,
    saved_array,
    saved_count,
    saved_entry,
    saved_float,
    saved_mapping,
)
from rlcore.contracts.states import TreePath, mapped

# Environments [M] and blocks [M] to the numbers of all their episodes.
MakeBlocks = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]

# Seeds are kept within 31 bits because several simulators store them in a signed 32-bit integer.
MAX_SEED = 2**31 - 1

# Mersenne Twister, which both have: 624 words and a place among them.
_WORDS = 624
_VERSION = 3  # of random.getstate()
_NUMPY = "MT19937"


def fresh_seed() -> int:
    """A run seed from the operating system, for runs whose configuration says ``seed: -1``."""
    return secrets.randbelow(MAX_SEED)


def purpose_key(purpose: str) -> int:
    """A stable 32-bit integer for a stream's name (``hash()`` differs between processes)."""
    return zlib.crc32(purpose.encode())


def derive_seed(run_seed: int, purpose: str, *indices: int) -> int:
    """Return the seed in [0, 2**31 - 1) of the stream (run seed, purpose, indices)."""
    sequence = np.random.SeedSequence([run_seed, purpose_key(purpose), *indices])
    return int(sequence.generate_state(1)[0]) % MAX_SEED


def derive_generator(run_seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """Return a numpy generator for the stream (run seed, purpose, indices)."""
    sequence = np.random.SeedSequence([run_seed, purpose_key(purpose), *indices])
    return np.random.default_rng(sequence)


@attrs.frozen
class EpisodeSeeds:
    """The seed of every (environment, episode number). Picklable: every worker has one.

    ``seeds(env, episode)`` is an int in [0, 2**31 - 1).

    Attributes:
        run_seed: Seed of the run.
        first_env: Number, in the run, of the environment that is ``env`` 0 here: a process that steps some of a run's
            environments gives each the seeds that it has in one process.
    """

    run_seed: int
    first_env: int = 0

    def __call__(self, env: int, episode: int) -> int:
        return derive_seed(self.run_seed, "episode", self.first_env + env, episode)


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
        self._first: NDArray[np.int64] = np.full(num_envs, self._NONE, np.int64)
        self._rows: NDArray[np.float64] = np.empty((0, *shape))  # [N * 256, *shape], once it was asked for

    def __call__(self, env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> NDArray[np.float64]:
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

    def _places(self, env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """The place [K] of each episode in the kept block of its environment; None if one of them is in no kept block.

        A shift to the right keeps the sign, so that places before the block are found too.
        """
        places = episodes - self._first.take(env_index)
        outside = places >> self._BITS
        if outside.any():
            return None
        return places

    def of_blocks(self, env_index: NDArray[np.int64], blocks: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the numbers [M, 256, *shape] of all episodes in block ``blocks[m]`` of environment ``env_index[m]``.

        Both are [M]; no pair is repeated.
        """
        self._hold(env_index, blocks)
        return self._blocks[env_index]

    def forget(self) -> None:
        """Drop what is kept: ``make`` gives other numbers from now on."""
        self._first[:] = self._NONE

    def _hold(self, env_index: NDArray[np.int64], blocks: NDArray[np.int64]) -> None:
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
    def _blocks(self) -> NDArray[np.float64]:
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

    def _draw(self, env_index: NDArray[np.int64], blocks: NDArray[np.int64]) -> NDArray[np.float64]:
        streams, width = self._shape
        numbers = np.empty((len(env_index), self.BLOCK, streams, width))
        pairs = zip(env_index.tolist(), blocks.tolist(), strict=True)
        for row, (env, block) in enumerate(pairs):
            for column, stream in enumerate(self._streams):
                # Named by its block, not drawn from in order: a resumed run needs no state of these generators.
                generator = derive_generator(self._seed, stream, env, block)
                numbers[row, :, column] = generator.random((self.BLOCK, width))
        return numbers


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """Return the generator's state as JSON data (plain integers and strings)."""

    def plain(value: Any, path: TreePath) -> Any:
        return int(value) if isinstance(value, np.integer) else value

    state: dict[str, Any] = mapped(generator.bit_generator.state, plain)
    return state


def restore_generator(generator: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Restore a state of :func:`generator_state`."""
    generator.bit_generator.state = dict(state)


# ---------------------------------------------------------------- the process


class ProcessGenerators:
    """The generators that a process has for all of its code, Python's ``random`` and NumPy's ``numpy.random``.

    rlcore draws from neither. Environments and libraries of others do, and no ``reset(seed=...)`` reaches them. A run
    seeds them when it creates environments and when it resets all of them, and a run on recorded data when it creates
    trainers, so equal seeds give equal runs. Checkpoints save them for what is not reset there. A worker is a process
    of its own, and has its own.
    """

    @staticmethod
    def seed(seeds: EpisodeSeeds, episodes: NDArray[np.int64] | None = None) -> None:
        """Seed them for the environments that ``seeds`` is of; ``episodes`` [N] are those that they begin now.

        Without ``episodes``, environments are about to be created, or the trainers of a run without any.
        """
        indices = [seeds.first_env]
        if episodes is not None:
            indices.append(int(np.sum(episodes)))
        seed = derive_seed(seeds.run_seed, "process", *indices)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 # this generator is the one to seed

    @staticmethod
    def state_dict() -> dict[str, Any]:
        """Return the state of both, for a checkpoint: ``random`` and ``numpy``."""
        _, words, gauss = random.getstate()
        of_numpy: Any = np.random.get_state()  # noqa: NPY002
        _, key, place, has_gauss, next_gauss = of_numpy
        of_python = _state(words[:_WORDS], words[_WORDS], gauss)
        return {"random": of_python, "numpy": _state(key, place, next_gauss if has_gauss else None)}

    @staticmethod
    def load_state_dict(state: Mapping[str, Any]) -> None:
        """Restore both. Raises SavedValueError for what :meth:`state_dict` did not return."""
        words, place, gauss = _saved(saved_mapping(state, "random"))
        key, key_place, next_gauss = _saved(saved_mapping(state, "numpy"))
        random.setstate((_VERSION, (*words.tolist(), place), gauss))
        has_gauss = int(next_gauss is not None)
        np.random.set_state((_NUMPY, key, key_place, has_gauss, next_gauss or 0.0))  # noqa: NPY002

    @staticmethod
    @contextmanager
    def kept() -> Iterator[None]:
        """Give both back as they were: what the block draws changes nothing of a training."""
        before = ProcessGenerators.state_dict()
        try:
            yield
        finally:
            ProcessGenerators.load_state_dict(before)


def _state(words: Any, place: int, gauss: float | None) -> dict[str, Any]:
    """``gauss`` is the second number of a pair of normal ones, which the next call returns."""
    return {"words": np.array(words, np.uint32), "place": int(place), "gauss": gauss}


def _saved(state: Mapping[str, Any]) -> tuple[NDArray[np.uint32], int, float | None]:
    words = saved_array(state, "words", np.uint32, (_WORDS,))
    place = saved_count(state, "place")
    if place > _WORDS:
        raise SavedValueError(f"the entry 'place' is {place}, and there are {_WORDS} words")
    gauss = None if saved_entry(state, "gauss") is None else saved_float(state, "gauss")
    return words, place, gauss
