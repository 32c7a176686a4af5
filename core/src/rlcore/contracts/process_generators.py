"""The generators that a process has for all of its code: Python's ``random`` and NumPy's ``numpy.random``.

rlcore draws from neither. Environments and libraries of others do, and no ``reset(seed=...)`` reaches them. A run seeds
them when it creates environments and when it resets all of them, and a run on recorded data when it creates trainers,
so equal seeds give equal runs. Checkpoints save them for what is not reset there. A worker is a process of its own, and
has its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

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
from rlcore.contracts.seeding import EpisodeSeeds, derive_seed

# Mersenne Twister, which both have: 624 words and a place among them.
_WORDS = 624
_VERSION = 3  # of random.getstate()
_NUMPY = "MT19937"


class ProcessGenerators:
    """Both generators: seed, save and restore them."""

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
