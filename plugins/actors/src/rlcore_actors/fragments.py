"""Fragments as rollouts: what an actor sends of its rollout buffer, and the rollout that a learner makes of fragments.

Shapes: T rows of a fragment, S slots of the run, R rows of the learner's rollout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rlcore import BehaviorSpec, NonFiniteError, SavedValueError, first_non_finite, saved_array, saved_mapping
from rlcore_actors.contract import Fragment
from rlcore_torch import RolloutBuffer

__all__ = ["FragmentRollout", "require_fragment", "transitions_of"]

OF_STEPS = ("raw", "choices", "reward", "terminated", "truncated")


def transitions_of(buffer: RolloutBuffer, log_prob: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return copies of what ``buffer`` has of its first rows; ``log_prob`` is [T, S]."""
    rows = len(log_prob)
    finals, final_seen = buffer.finals()
    transitions: dict[str, Any] = {
        "log_prob": log_prob,
        "observations": {name: array[: rows + 1].copy() for name, array in buffer.observations.items()},
        "final_rows": finals,
        "final_observations": dict(final_seen),
    }
    for name in OF_STEPS:
        transitions[name] = getattr(buffer, name)[:rows].copy()
    if buffer.masks is not None:
        transitions["masks"] = buffer.masks[: rows + 1].copy()
    return transitions


def require_fragment(fragment: Fragment, behavior: BehaviorSpec) -> None:
    """Raise SavedValueError unless the transitions have the types and shapes of ``behavior``; its slots do not matter.

    Raises NonFiniteError for a number that is not finite.
    """
    transitions = fragment.transitions
    slots = fragment.slots
    rows = len(saved_array(transitions, "log_prob", np.float32, (None, slots)))
    saved_array(transitions, "raw", np.float32, (rows, slots, behavior.continuous))
    saved_array(transitions, "choices", np.int64, (rows, slots, len(behavior.discrete)))
    saved_array(transitions, "reward", np.float32, (rows, slots))
    for name in ("terminated", "truncated"):
        saved_array(transitions, name, np.bool_, (rows, slots))
    if "masks" in transitions:
        saved_array(transitions, "masks", np.bool_, (rows + 1, slots, behavior.mask_size))
    finals = saved_array(transitions, "final_rows", np.int64, (None, 2))
    if not ((finals >= 0) & (finals < (rows, slots))).all():
        raise SavedValueError("the entry 'final_rows' has rows that are not of the fragment")
    observations = saved_mapping(transitions, "observations")
    final_observations = saved_mapping(transitions, "final_observations")
    for observation in behavior.observations:
        shape = observation.shape
        saved_array(observations, observation.name, observation.dtype, (rows + 1, slots, *shape))
        if len(finals):
            saved_array(final_observations, observation.name, observation.dtype, (len(finals), *shape))
    _require_finite(transitions)


def _require_finite(transitions: Mapping[str, Any]) -> None:
    for name, array in _real_numbers(transitions):
        if first_non_finite(array) is not None:
            raise NonFiniteError(f"an actor sent a fragment whose {name} has a number that is not finite")


def _real_numbers(transitions: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    for name in ("log_prob", "raw", "reward"):
        yield name, transitions[name]
    for kind in ("observations", "final_observations"):
        for name, array in transitions[kind].items():
            if array.dtype.kind == "f":
                yield f"observation {name!r}", array


class FragmentRollout(RolloutBuffer):
    """A rollout of fragments: the slots of each actor have as many rows as it has sent.

    Rows of fragments that continue each other are one trajectory.

    Attributes:
        log_prob: [R, S] log-probabilities of the actions under the policy that acted, in nats.
        version: [R, S] :attr:`ActingState.version` of that policy.
    """

    def __init__(self, behavior: BehaviorSpec, buffer_size: int, columns: int) -> None:
        """Room for ``buffer_size`` agent steps, with ``columns`` numbers that continuous parts are drawn with."""
        super().__init__(behavior, buffer_size, 0, 0, columns)
        shape = (self.rows, behavior.slots)
        self.log_prob = np.zeros(shape, np.float32)
        self.version = np.zeros(shape, np.int64)
        self.ragged = True

    def append(self, fragment: Fragment) -> int:
        """Add the rows of a fragment that :func:`require_fragment` has passed; return how many transitions it has."""
        transitions = fragment.transitions
        rows = len(transitions["log_prob"])
        own = slice(fragment.first, fragment.first + fragment.slots)
        start = int(self.cursor[fragment.first])  # the slots of an actor have equally many rows
        if not fragment.continues:
            self._cut(np.arange(own.start, own.stop))
        while start + rows >= self.rows:
            self.grow()
        at = slice(start, start + rows)
        with_next = slice(start, start + rows + 1)
        for name, array in transitions["observations"].items():
            self.seen[name][with_next, own] = array
        if "masks" in transitions:
            self.mask_rows()[with_next, own] = transitions["masks"]
        elif self.masks is not None:
            self.masks[with_next, own] = True
        for name in (*OF_STEPS, "log_prob"):
            getattr(self, name)[at, own] = transitions[name]
        self.version[at, own] = fragment.version
        if len(transitions["final_rows"]):
            self.final_rows.append(transitions["final_rows"] + (start, own.start))
            self.final_seen.append(dict(transitions["final_observations"]))
        self.cursor[own] += rows
        return rows * fragment.slots

    def cut_all(self) -> None:
        """End the trajectories of all slots before their current observation, which they bootstrap from."""
        self._cut(np.arange(len(self.cursor)))

    def grow(self) -> None:
        """Double the rows."""
        self.log_prob = np.concatenate([self.log_prob, np.zeros_like(self.log_prob)])
        self.version = np.concatenate([self.version, np.zeros_like(self.version)])
        super().grow()

    def restart(self) -> None:
        """Forget the transitions; the latest observations stay."""
        super().restart()
        self.ragged = True
