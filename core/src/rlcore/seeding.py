"""Seeds that depend on what they are for, never on the order in which things happen.

Everything random in a run draws from a stream named by (run seed, purpose, indices) through
:class:`numpy.random.SeedSequence`, so an episode's seed is the same whichever worker plays it and after a resume.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

# Seeds are kept within 31 bits because several simulators store them in a signed 32-bit integer.
MAX_SEED = 2**31 - 1


def fresh_seed() -> int:
    """A run seed from the operating system, for runs whose configuration says ``seed: -1``."""
    return secrets.randbelow(MAX_SEED)


def purpose_key(purpose: str) -> int:
    """A stable 32-bit integer for a stream's name (``hash()`` differs between processes)."""
    return zlib.crc32(purpose.encode())


def derive_seed(run_seed: int, purpose: str, *indices: int) -> int:
    """The seed in [0, 2**31 - 1) of the stream (run seed, purpose, indices)."""
    sequence = np.random.SeedSequence([run_seed, purpose_key(purpose), *indices])
    return int(sequence.generate_state(1)[0]) % MAX_SEED


def derive_generator(run_seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """A numpy generator for the stream (run seed, purpose, indices)."""
    return np.random.default_rng(np.random.SeedSequence([run_seed, purpose_key(purpose), *indices]))


@attrs.frozen
class EpisodeSeeds:
    """Gives every (copy of the environment, episode number) its seed. Picklable: workers carry one each."""

    run_seed: int

    def __call__(self, copy: int, episode: int) -> int:
        return derive_seed(self.run_seed, "episode", copy, episode)


class EpisodeUniforms:
    """Uniform random numbers in [0, 1) that belong to (stream, copy, episode number), whenever they are asked for.

    C streams side by side; each episode has ``width`` numbers of each. Those of 256 episodes of a copy are
    made at once and kept.
    """

    BLOCK = 256  # episodes

    def __init__(self, run_seed: int, streams: Sequence[str], copies: int, width: int = 1) -> None:
        self._seed = run_seed
        self._streams = tuple(streams)
        self._held: NDArray[np.int64] = np.full(copies, -1, np.int64)  # [N] which block of each copy is kept
        self._numbers: NDArray[np.float64] = np.empty((copies, self.BLOCK, len(self._streams), width))

    def __call__(self, copies: NDArray[np.int64], episodes: NDArray[np.int64]) -> NDArray[np.float64]:
        """[K, C, width]: the numbers of copy ``copies[k]``'s episode ``episodes[k]``."""
        blocks = episodes // self.BLOCK
        if self._hold(copies, blocks) and (self._held[copies] != blocks).any():  # a copy's episodes of several blocks
            return np.concatenate([self(copies[k : k + 1], episodes[k : k + 1]) for k in range(len(copies))])
        return self._numbers[copies, episodes % self.BLOCK]

    def of_blocks(self, copies: NDArray[np.int64], blocks: NDArray[np.int64]) -> NDArray[np.float64]:
        """[M, 256, C, width]: those of all episodes of copy ``copies[m]``'s block ``blocks[m]``; each copy once."""
        self._hold(copies, blocks)
        return self._numbers[copies]

    def _hold(self, copies: NDArray[np.int64], blocks: NDArray[np.int64]) -> bool:
        """Makes what is not there; whether anything was not."""
        missing = np.flatnonzero(self._held[copies] != blocks)
        for k in missing:
            if self._held[copies[k]] != blocks[k]:  # that of an earlier pair may be the same
                self._make(int(copies[k]), int(blocks[k]))
        return bool(missing.size)

    def _make(self, copy: int, block: int) -> None:
        width = self._numbers.shape[3]
        for column, stream in enumerate(self._streams):
            generator = derive_generator(self._seed, stream, copy, block)
            self._numbers[copy, :, column] = generator.random((self.BLOCK, width))
        self._held[copy] = block


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """The generator's state as JSON data (plain integers and strings)."""
    state: dict[str, Any] = _plain(generator.bit_generator.state)
    return state


def restore_generator(generator: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Puts ``generator`` where :func:`generator_state` found another one."""
    generator.bit_generator.state = dict(state)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return int(value) if isinstance(value, np.integer) else value
