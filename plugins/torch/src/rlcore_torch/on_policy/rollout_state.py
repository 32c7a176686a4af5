"""Check that a saved rollout fits a buffer, before anything in the buffer changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlcore import BehaviorSpec, SavedValueError, saved_array, saved_bool, saved_count, saved_mapping


class Rollout(Protocol):
    """The part that the check reads of a :class:`rlcore_torch.on_policy.rollout.RolloutBuffer`."""

    behavior: BehaviorSpec
    cursor: NDArray[np.int64]
    observations: dict[str, NDArray[Any]]
    memory: NDArray[np.float32] | None


def require_rollout_fit(rollout: Rollout, state: Mapping[str, Any]) -> None:
    """Raise RunStateError unless every array has the type and shape of the buffer's, and every row is within them."""
    slots = len(rollout.cursor)
    rows = len(saved_array(state, "reward", np.float32, (None, slots)))
    _require_rows(rollout, state, rows)
    finals = saved_array(state, "final_rows", np.int64, (None, 2))
    cuts = saved_array(state, "cuts", np.int64, (None, 2))
    observations = saved_mapping(state, "final_observations")
    for name, array in rollout.observations.items() if len(finals) else ():
        saved_array(observations, name, array.dtype, (len(finals), *array.shape[2:]))
    for name, pairs in (("final_rows", finals), ("cuts", cuts)):
        if not ((pairs >= 0) & (pairs < (rows, slots))).all():
            raise SavedValueError(f"the entry {name!r} has rows that are not of the rollout")
    saved_bool(state, "ragged")
    cursor = saved_array(state, "cursor", np.int64, (slots,))
    if not (0 <= saved_count(state, "row") <= rows and ((cursor >= 0) & (cursor <= rows)).all()):
        raise SavedValueError("the entries 'row' and 'cursor' are beyond the rollout")
    for name in ("open", "awaiting", "kept"):
        saved_array(state, name, np.bool_, (slots,))
    saved_array(state, "kept_log_prob", np.float32, (slots,))


def _require_rows(rollout: Rollout, state: Mapping[str, Any], rows: int) -> None:
    """Arrays of a row for each step; observations and masks may have one more."""
    for name in ("raw", "choices", "terminated", "truncated"):
        array = getattr(rollout, name)
        saved_array(state, name, array.dtype, (rows, *array.shape[1:]))
    if rollout.memory is not None:
        saved_array(state, "memory", np.float32, (rows, *rollout.memory.shape[1:]))
    if "group_reward" in state:
        saved_array(state, "group_reward", np.float32, (rows, len(rollout.cursor)))
    observations = saved_mapping(state, "observations")
    seen = {
        name: saved_array(observations, name, array.dtype, (None, *array.shape[1:]))
        for name, array in rollout.observations.items()
    }
    if "masks" in state:
        shape = (None, len(rollout.cursor), rollout.behavior.mask_size)
        seen["masks"] = saved_array(state, "masks", np.bool_, shape)
    for name, array in seen.items():
        if not rows <= len(array) <= rows + 1:
            raise SavedValueError(f"the entry {name!r} has {len(array)} rows, and the rollout {rows}")
