"""A rollout in a checkpoint that was saved in the middle of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import SavedValueError, saved_array, saved_bool, saved_count, saved_mapping
from rlcore_torch.on_policy.rollout import ACTED, MEMORY, OF_SLOTS, RESULTS, RolloutBuffer

__all__ = ["load_rollout", "require_rollout_fit", "rollout_state"]

CLOSED = (*RESULTS, "group_reward")  # of each transition


def rollout_state(buffer: RolloutBuffer) -> dict[str, Any]:
    """Arrays and numbers to continue from."""
    lengths = buffer.lengths()
    used = int(lengths.max(initial=0)) + 1
    rows = np.arange(used)[:, None]
    # each [used, S]
    closed = rows < lengths
    acted = rows < lengths + buffer.open
    seen = rows < lengths + (buffer.open | buffer.awaiting)

    def kept(array: NDArray[Any], valid: NDArray[np.bool_]) -> NDArray[Any]:
        """What this rollout wrote: a resumed run has nothing of the rollout before."""
        array = array[:used].copy()
        array[~valid[: len(array)]] = 0  # observations have a row more than the rest
        return array

    finals, final_seen = buffer.finals()
    state: dict[str, Any] = {
        "ragged": buffer.ragged,
        "row": buffer.row,
        "cursor": buffer.cursor.copy(),
        "open": buffer.open.copy(),
        "awaiting": buffer.awaiting.copy(),
        "kept": ~np.isnan(buffer.kept_log_prob),
        "kept_log_prob": np.nan_to_num(buffer.kept_log_prob),
        "observations": {name: kept(array, seen) for name, array in buffer.observations.items()},
        "final_rows": finals,
        "cuts": buffer.cut_rows(),
        "final_observations": {name: array for name, array in final_seen.items() if name != MEMORY},
    }
    state |= {name: kept(getattr(buffer, name), acted) for name in ACTED}
    state |= {name: kept(array, closed) for name in CLOSED if (array := getattr(buffer, name)) is not None}
    if buffer.masks is not None:
        state["masks"] = kept(buffer.masks, seen)
    if buffer.memory is not None:
        state["memory"] = kept(buffer.memory, seen)
        state["final_memory"] = final_seen.get(MEMORY, np.empty((0, buffer.memory.shape[2]), np.float32))
    return state


def require_rollout_fit(buffer: RolloutBuffer, state: Mapping[str, Any]) -> None:
    """Raise RunStateError unless every array has the type and shape of the buffer's, and every row is within them."""
    slots = len(buffer.cursor)
    rows = len(saved_array(state, "reward", np.float32, (None, slots)))
    for name in (*ACTED, *CLOSED):
        array = getattr(buffer, "reward" if name == "group_reward" else name)
        if name in state or name != "group_reward":
            saved_array(state, name, array.dtype, (rows, *array.shape[1:]))
    seen = {}
    observations = saved_mapping(state, "observations")
    for name, array in buffer.observations.items():
        seen[name] = saved_array(observations, name, array.dtype, (None, *array.shape[1:]))
    if "masks" in state:
        seen["masks"] = saved_array(state, "masks", np.bool_, (None, slots, buffer.behavior.mask_size))
    finals = saved_array(state, "final_rows", np.int64, (None, 2))
    if buffer.memory is not None:
        size = buffer.memory.shape[2]
        seen["memory"] = saved_array(state, "memory", np.float32, (None, slots, size))
        saved_array(state, "final_memory", np.float32, (len(finals), size))
    for name, array in seen.items():
        if not rows <= len(array) <= rows + 1:
            raise SavedValueError(f"the entry {name!r} has {len(array)} rows, and the rollout {rows}")
    final_observations = saved_mapping(state, "final_observations")
    for name, array in buffer.observations.items() if len(finals) else ():
        saved_array(final_observations, name, array.dtype, (len(finals), *array.shape[2:]))
    for name, pairs in (("final_rows", finals), ("cuts", saved_array(state, "cuts", np.int64, (None, 2)))):
        if not ((pairs >= 0) & (pairs < (rows, slots))).all():
            raise SavedValueError(f"the entry {name!r} has rows that are not of the rollout")
    saved_bool(state, "ragged")
    for name in OF_SLOTS:
        saved_array(state, name, getattr(buffer, name).dtype, (slots,))
    saved_array(state, "kept", np.bool_, (slots,))
    if not (0 <= saved_count(state, "row") <= rows and ((state["cursor"] >= 0) & (state["cursor"] <= rows)).all()):
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
    saved = {**state["observations"], **({} if buffer.memory is None else {MEMORY: state["memory"]})}
    for name, array in saved.items():
        buffer.seen[name][: len(array)] = array
    for name in (*ACTED, *CLOSED, "masks"):
        if name in state:
            getattr(buffer, name)[: len(state[name])] = state[name]
    some = len(state["final_rows"]) > 0
    buffer.cuts = [state["cuts"]] if len(state["cuts"]) else []
    buffer.final_rows = [state["final_rows"]] if some else []
    buffer.final_seen = [dict(state["final_observations"])] if some else []
    if some and "final_memory" in state:
        buffer.final_seen[0][MEMORY] = state["final_memory"]
