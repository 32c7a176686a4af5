"""Where the arrays of a run's environments are in one piece of memory, which processes can share.

The environments of a worker are contiguous, and so are its slots if the slots of a behavior are in the order of their
environments.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import BehaviorSpec, EnvironmentFailed, spec_mismatch

Rows = slice | NDArray[np.intp]

ALIGNMENT = 64  # bytes: no two workers write to one cache line of small arrays of different kinds
# Arrays that a batch may leave out, and what leaving them out means.
OPTIONAL_DEFAULTS = {
    "needs_action": True,
    "action_mask": True,
    "group_reward": 0.0,
    "aborted": False,
    "final_action_mask": True,
    "life_lost": False,
}
OPTIONAL = tuple(OPTIONAL_DEFAULTS)


@attrs.frozen(eq=False)
class Layout:
    """Where the arrays of a run's environments are in one piece of memory. Can be pickled.

    Attributes:
        behaviors: The behaviors of all environments, as one process would have them.
        bounds: [parts + 1] index of the first environment of each worker, and N at the end.
        rows: For each worker, the slots of each behavior that are its own.
        parameters: Number of environment parameters.
        fields: Offset in bytes, shape and dtype of each array, by a tuple of names.
        size: Bytes of the memory.
    """

    behaviors: Mapping[str, BehaviorSpec]
    bounds: tuple[int, ...]
    rows: tuple[Mapping[str, Rows], ...]
    parameters: int
    fields: Mapping[tuple[str, ...], tuple[int, tuple[int, ...], str]]
    size: int

    @classmethod
    def of(cls, parts: Sequence[Mapping[str, BehaviorSpec]], bounds: Sequence[int], parameters: int) -> Layout:
        """Join the behaviors of all workers. Raises EnvironmentFailed if they differ in more than their slots."""
        rows: list[dict[str, Rows]] = [{} for _ in parts]
        behaviors = {}
        for number, part in enumerate(parts):
            if part.keys() != parts[0].keys():
                raise EnvironmentFailed(f"worker {number} has behaviors {list(part)}, worker 0 {list(parts[0])}")
        for name in parts[0]:
            specs = [part[name] for part in parts]
            behaviors[name], slots_of_parts = _together(specs, bounds)
            for rows_of_part, slots in zip(rows, slots_of_parts, strict=True):
                rows_of_part[name] = slots
        fields: dict[tuple[str, ...], tuple[int, tuple[int, ...], str]] = {}
        size = 0
        for key, shape, kind in _arrays(behaviors, bounds[-1], len(parts), parameters):
            dtype = np.dtype(kind)
            fields[key] = (size, shape, dtype.str)
            count = math.prod(shape) * dtype.itemsize
            blocks = -(-count // ALIGNMENT)  # rounded up
            size += blocks * ALIGNMENT
        # Memory of no bytes cannot be mapped.
        return cls(behaviors, tuple(bounds), tuple(rows), parameters, fields, max(size, ALIGNMENT))


def _arrays(
    behaviors: Mapping[str, BehaviorSpec], num_envs: int, parts: int, parameters: int
) -> Iterator[tuple[tuple[str, ...], tuple[int, ...], Any]]:
    """Key, shape and dtype of every array."""
    yield ("episodes",), (num_envs,), np.int64  # that the environments are in
    yield ("begin",), (num_envs,), np.int64  # that `reset` is to start
    yield ("parameters",), (num_envs, parameters), np.float64  # of the next episodes
    yield ("busy",), (parts,), np.float64  # seconds that each worker has spent in steps of its environments
    for name, spec in behaviors.items():
        slots = spec.slots
        yield (name, "present"), (parts, len(OPTIONAL)), np.bool_
        yield (name, "reward"), (slots,), np.float32
        yield (name, "terminated"), (slots,), np.bool_
        yield (name, "truncated"), (slots,), np.bool_
        yield (name, "needs_action"), (slots,), np.bool_
        for what in ("action_mask", "final_action_mask"):
            yield (name, what), (slots, spec.mask_size), np.bool_
        yield (name, "group_reward"), (slots,), np.float32
        yield (name, "aborted"), (slots,), np.bool_
        yield (name, "life_lost"), (slots,), np.bool_
        yield (name, "continuous"), (slots, spec.continuous), np.float32
        yield (name, "discrete"), (slots, len(spec.discrete)), np.int64
        for observation in spec.observations:
            for which in ("observations", "final_observations"):
                yield (name, which, observation.name), (slots, *observation.shape), observation.dtype


def _together(specs: Sequence[BehaviorSpec], bounds: Sequence[int]) -> tuple[BehaviorSpec, list[Rows]]:
    """The behavior of all environments, and the slots of each worker in it."""
    first = specs[0]
    for number, spec in enumerate(specs[1:], 1):
        problem = spec_mismatch(first, spec)
        same_teams = (spec.team is None) == (first.team is None)
        same_groups = (spec.group is None) == (first.group is None)
        if not same_teams or not same_groups:
            problem = "teams or groups differ"
        if problem is not None:
            raise EnvironmentFailed(f"behavior {first.name!r} of worker {number} is not that of worker 0: {problem}")
    env_index = np.concatenate([spec.env_index + start for spec, start in zip(specs, bounds, strict=False)])
    teams = [spec.team for spec in specs if spec.team is not None]
    groups = [spec.group for spec in specs if spec.group is not None]
    together = attrs.evolve(
        first,
        env_index=env_index,
        team=np.concatenate(teams) if teams else None,
        group=_groups(groups) if groups else None,
    )
    bounds_of_slots = list(pairwise(accumulate((spec.slots for spec in specs), initial=0)))
    if all((np.diff(spec.env_index) >= 0).all() for spec in specs):
        # Environment by environment, as [0, 0, 1, 1, 2, 2]: the slots of workers follow each other.
        return together, [slice(start, end) for start, end in bounds_of_slots]
    # Slot by slot of every environment in turn, as [0, 1, 2, 0, 1, 2]: the first slots of all environments first.
    # One process has this order, and draws of policies follow it.
    occurrence = np.concatenate([_occurrence(spec.env_index) for spec in specs])
    order = np.lexsort((env_index, occurrence))  # by occurrence, then by environment
    place = np.empty(len(order), np.intp)  # the inverse of the order
    place[order] = np.arange(len(order))
    return together.take(order), [place[start:end] for start, end in bounds_of_slots]


def _occurrence(env_index: NDArray[np.int64]) -> list[int]:
    """For each slot, how many earlier slots are of the same environment."""
    seen: Counter[int] = Counter()
    counted = []
    for env in env_index.tolist():
        counted.append(seen[env])
        seen[env] += 1
    return counted


def _groups(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Numbers of groups that are different in different workers, because no group has agents of two environments."""
    shifted = []
    start = 0
    for group in parts:
        shifted.append(np.where(group < 0, group, group + start))  # a negative number: in no group
        start += int(group.max(initial=-1)) + 1
    return np.concatenate(shifted)
