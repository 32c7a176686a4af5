"""Warnings of observations outside the bounds that a behavior declares."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import AgentBatch, BehaviorSpec, ObservationSpec

log = logging.getLogger(__name__)

# How many batches of a behavior, from the first, have their values compared with bounds.
FIRST_BATCHES = 100


class BoundsCheck:
    """Compares the observations of the first batches with their bounds, and indicators with 0 and 1."""

    def __init__(self, spec: BehaviorSpec, when: Callable[[], str]) -> None:
        """``when`` completes messages: ``"at step 60"``."""
        self.batches = FIRST_BATCHES  # still to be checked
        self._spec = spec
        self._when = when
        self._warned: set[str] = set()

    def check(self, batch: AgentBatch) -> None:
        """Warn, once for each observation, of values that its spec does not allow."""
        self.batches -= 1
        for spec in self._spec.observations:
            what = f"observation {spec.name!r}"
            if spec.name in self._warned or (spec.kind != "one_hot" and spec.low is None and spec.high is None):
                continue
            self._warn_of_values(what, batch.observations[spec.name], spec, np.arange(self._spec.slots))
            if batch.ended.size and batch.final_observations is not None and spec.name not in self._warned:
                self._warn_of_values(f"final {what}", batch.final_observations[spec.name], spec, batch.ended)

    def _warn_of_values(self, what: str, values: NDArray[Any], spec: ObservationSpec, slots: NDArray[np.intp]) -> None:
        wrong = outside_bounds(spec, values)
        if not wrong.any():
            return
        self._warned.add(spec.name)
        allowed = "0 and 1, the only values of an indicator"
        if spec.kind != "one_hot":
            index = tuple(np.argwhere(wrong)[0].tolist())[1:]
            lowest, highest = (float(np.broadcast_to(bound, spec.shape)[index]) for bound in _bounds(spec))
            allowed = f"its bounds {lowest:g} to {highest:g}"
        log.warning(
            "behavior %r: %s of %s %s, outside %s; it is used as it is: correct the environment or what it declares "
            "(reported once)",
            self._spec.name, what, self._place(values, wrong, slots), self._when(), allowed,
        )  # fmt: skip

    def _place(self, values: NDArray[Any], wrong: NDArray[np.bool_], slots: NDArray[np.intp]) -> str:
        """``slot 1 (environment 1) is 1e+06 at [2]`` for the first value that is ``wrong``."""
        row, *index = np.argwhere(wrong)[0].tolist()
        at = f" at {index}" if index else ""
        return f"{slot_named(self._spec, int(slots[row]))} is {float(values[(row, *index)]):g}{at}"


def outside_bounds(spec: ObservationSpec, values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where ``values`` [K, *shape] lie outside the bounds of their observation, or are not indicators."""
    outside: NDArray[np.bool_]
    if spec.kind == "one_hot":
        outside = (values != 0) & (values != 1)
        return outside
    low, high = _bounds(spec)
    # Bounds are exact numbers and values may be rounded sums: a millionth more is not a mistake.
    below, above = (1e-6 * np.maximum(1.0, np.abs(bound)) for bound in (low, high))
    outside = (values < low - below) | (values > high + above)
    return outside


def _bounds(spec: ObservationSpec) -> tuple[NDArray[Any] | float, NDArray[Any] | float]:
    return (-np.inf if spec.low is None else spec.low), (np.inf if spec.high is None else spec.high)


def slot_named(spec: BehaviorSpec, slot: int) -> str:
    """The name of a slot in messages: ``slot 3 (environment 1)``."""
    return f"slot {slot} (environment {int(spec.env_index[slot])})"
