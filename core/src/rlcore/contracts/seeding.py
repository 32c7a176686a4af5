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
from collections.abc import Iterator, Mapping
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
