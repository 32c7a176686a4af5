"""Generators of spaces, and a trial before a run: does a reset with an equal seed show equal observations?

A run promises an exact resume because episodes follow from their seeds. An environment that draws from a generator
which no seed reaches, such as ``numpy.random.default_rng()`` in its constructor, breaks this unseen. Two resets with
one seed find most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from time import perf_counter
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from rlcore import EpisodeSeeds, ProcessGenerators, one_line
from rlcore_gymnasium.saved_wrappers import chain

if TYPE_CHECKING:
    from rlcore import RunContext

__all__ = ["are_tried", "seed_each", "tried"]

# Seconds of a reset above which it is not done twice: a run must not start noticeably later.
SLOW = 1.0
_SEED = 0  # of both resets

Trial = tuple[tuple[str, ...], tuple[str, ...]]
"""``resume_limits`` and ``resume_notes`` of an environment; see :class:`rlcore.Environment`."""

_SPACES = ("observation_space", "action_space", "single_observation_space", "single_action_space")


def are_tried(run: RunContext) -> bool:
    """Return whether the environments of ``run`` are to be tried, and what is said of them is to be said here.

    Once, that is: in a training, by the process with the first environment.
    """
    return run.purpose == "train" and run.first_env == 0 and run.video is None


def seed_spaces(env: Any, seed: int) -> None:
    """Seed the spaces of an environment and of its wrappers, from which its code may sample; ``reset`` does not."""
    layers = chain(env) if isinstance(env, gymnasium.Env) else (env,)
    attributes = (getattr(layer, name, None) for layer in layers for name in _SPACES)
    seed_each((space for space in attributes if isinstance(space, gymnasium.Space)), seed)


def seed_each(spaces: Iterable[Any], seed: int) -> None:
    """Seed spaces, of which several may be one object."""
    different = {id(space): space for space in spaces}
    for space in different.values():
        space.seed(seed)


def tried(reset: Callable[[int], Any], name: str) -> Trial:
    """Call ``reset(seed)`` twice with one seed and compare the observations that it returns.

    ``name`` is what messages call the environment. Both calls find the generators of the process in one state, as the
    resets of a run do, and leave them as they were. An error is left to the reset of the run, which reports it.
    """
    seen: list[Any] = []
    with ProcessGenerators.kept():
        for _ in range(2):
            ProcessGenerators.seed(EpisodeSeeds(_SEED))
            started = perf_counter()
            try:
                # A copy, because an environment may return one array in every reset.
                seen.append(deepcopy(reset(_SEED)))
            except (Exception, SystemExit) as error:
                return (), (f"whether equal seeds begin equal episodes was not tried ({one_line(error)})",)
            seconds = perf_counter() - started
            if seconds > SLOW:
                return (), (
                    f"whether equal seeds begin equal episodes was not tried, because a reset takes {seconds:.1f} s",
                )
    if alike(*seen):
        return (), ()
    return (f"{name} begins other episodes with equal seeds: it has a generator that reset(seed) does not seed",), ()


def alike(left: Any, right: Any) -> bool:
    """Return whether two observations, however nested, are equal; NaN equals NaN."""
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(alike(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list):
        return len(left) == len(right) and all(map(alike, left, right))
    ours = np.asarray(left)
    theirs = np.asarray(right)
    equal_nan = ours.dtype.kind in "fc"
    return ours.dtype == theirs.dtype and np.array_equal(ours, theirs, equal_nan=equal_nan)
