"""A rollout in a checkpoint that was saved in the middle of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlcore import SavedValueError, saved_array, saved_bool, saved_count, saved_mapping
from rlcore_torch.arrays import Array, BoolArray
from rlcore_torch.on_policy.rollout import ACTED, MEMORY, OF_SLOTS, RESULTS, RolloutBuffer

__all__ = ["load_rollout", "require_rollout_fit", "rollout_state"]

CLOSED = (*RESULTS, "group_reward")  # of each transition


def rollout_state(buffer: RolloutBuffer) -> dict[str, Any]:
    """Return arrays and numbers to continue from."""
    lengths = buffer.lengths()
    used = int(lengths.max(initial=0)) + 1
    rows = np.arange(used)[:, None]
    # each [used, S]
    is_closed = rows < lengths
    is_acted = rows < lengths + buffer.open
    is_seen = rows < lengths + (buffer.open | buffer.awaiting)

    def written(array: Array, valid: BoolArray) -> Array:
        """Return what this rollout wrote: a resumed run has nothing of the rollout before."""
        part = array[:used].copy()
        part[~valid[: len(part)]] = 0  # observations have a row more than the rest
        return part

    finals, final_seen = buffer.finals()
    state: dict[str, Any] = {
        "ragged": buffer.ragged,
        "row": buffer.row,
        "cursor": buffer.cursor.copy(),
        "open": buffer.open.copy(),
        "awaiting": buffer.awaiting.copy(),
        "kept": ~np.isnan(buffer.kept_log_prob),
        "kept_log_prob": np.nan_to_num(buffer.kept_log_prob),
        "observations": {name: written(array, is_seen) for name, array in buffer.observations.items()},
        "final_rows": finals,
        "cuts": buffer.cut_rows(),
        "final_observations": {name: array for name, array in final_seen.items() if name != MEMORY},
    }
    for name in ACTED:
        state[name] = written(getattr(buffer, name), is_acted)
    for name in CLOSED:
        array = getattr(buffer, name)
        if array is not None:
            state[name] = written(array, is_closed)
    if buffer.masks is not None:
        state["masks"] = written(buffer.masks, is_seen)
    if buffer.memory is not None:
        size = buffer.memory.shape[2]
        state["memory"] = written(buffer.memory, is_seen)
        state["final_memory"] = final_seen.get(MEMORY, np.empty((0, size), np.float32))
    return state


def require_rollout_fit(buffer: RolloutBuffer, state: Mapping[str, Any]) -> None:
    """Raise RunStateError unless every array has the type and shape of the buffer's, and every row is within them."""
    slots = len(buffer.cursor)
    rows = len(saved_array(state, "reward", np.float32, (None, slots)))
    for name in (*ACTED, *RESULTS):
        array = getattr(buffer, name)
        saved_array(state, name, array.dtype, (rows, *array.shape[1:]))
    if "group_reward" in state:
        saved_array(state, "group_reward", np.float32, (rows, slots))
    seen = {}
    observations = saved_mapping(state, "observations")
    for name, array in buffer.observations.items():
        seen[name] = saved_array(observations, name, array.dtype, (None, *array.shape[1:]))
    if "masks" in state:
        seen["masks"] = saved_array(state, "masks", np.bool_, (None, slots, buffer.behavior.mask_size))
    finals = saved_array(state, "final_rows", np.int64, (None, 2))
    cuts = saved_array(state, "cuts", np.int64, (None, 2))
    if buffer.memory is not None:
        size = buffer.memory.shape[2]
        seen["memory"] = saved_array(state, "memory", np.float32, (None, slots, size))
        saved_array(state, "final_memory", np.float32, (len(finals), size))
    for name, array in seen.items():
        # The last observations follow the last transitions, unless the buffer is full.
        if not rows <= len(array) <= rows + 1:
            raise SavedValueError(f"the entry {name!r} has {len(array)} rows, and the rollout {rows}")
    final_observations = saved_mapping(state, "final_observations")
    if len(finals):
        for name, array in buffer.observations.items():
            saved_array(final_observations, name, array.dtype, (len(finals), *array.shape[2:]))
    for name, pairs in (("final_rows", finals), ("cuts", cuts)):
        within = (pairs >= 0) & (pairs < (rows, slots))
        if not within.all():
            raise SavedValueError(f"the entry {name!r} has rows that are not of the rollout")
    saved_bool(state, "ragged")
    for name in OF_SLOTS:
        saved_array(state, name, getattr(buffer, name).dtype, (slots,))
    saved_array(state, "kept", np.bool_, (slots,))
    cursor = state["cursor"]
    within = (cursor >= 0) & (cursor <= rows)
    if not 0 <= saved_count(state, "row") <= rows or not within.all():
        raise SavedValueError("the entries 'row' and 'cursor' are beyond the rollout")


def load_rollout(buffer: RolloutBuffer, state: Mapping[str, Any]) -> None:
    """Continue from a state that :func:`require_rollout_fit` has passed."""
    buffer.ragged = bool(state["ragged"])
    buffer.row = int(state["row"])
    for name in OF_SLOTS:
        getattr(buffer, name)[:] = state[name]
    buffer.kept_log_prob[~state["kept"]] = np.nan
    while buffer.rows < len(state["reward"]):
        buffer.grow()
    if "masks" in state:
        buffer.mask_rows()
    if "group_reward" in state:
        buffer.group_rewards()
    for name, array in state["observations"].items():
        buffer.seen[name][: len(array)] = array
    if buffer.memory is not None:
        memory = state["memory"]
        buffer.memory[: len(memory)] = memory
    for name in (*ACTED, *CLOSED, "masks"):
        if name in state:
            saved = state[name]
            getattr(buffer, name)[: len(saved)] = saved
    buffer.cuts = []
    buffer.final_rows = []
    buffer.final_seen = []
    if len(state["cuts"]):
        buffer.cuts.append(state["cuts"])
    if not len(state["final_rows"]):
        return
    final_seen = dict(state["final_observations"])
    if "final_memory" in state:
        final_seen[MEMORY] = state["final_memory"]
    buffer.final_rows.append(state["final_rows"])
    buffer.final_seen.append(final_seen)
