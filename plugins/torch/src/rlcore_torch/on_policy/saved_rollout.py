"""A rollout in a checkpoint that was saved in the middle of it, and how one of an earlier version is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import SavedValueError, saved_array, saved_bool, saved_count, saved_mapping
from rlcore_torch.on_policy.rollout import MEMORY, RolloutBuffer

__all__ = ["complete_rollout", "is_complete", "load_rollout", "require_rollout_fit", "rollout_state"]

FloatArray = NDArray[np.float32]
# Observations by name, masks and memory, of any number of rows, to what actions are drawn with.
Policy = Callable[
    [Mapping[str, NDArray[Any]], NDArray[np.bool_] | None, FloatArray | None],
    tuple[FloatArray | None, FloatArray | None],
]
# Observations by name and the critic's memory to its next memory.
Step = Callable[[Mapping[str, NDArray[Any]], FloatArray], FloatArray]

ACTED = ("raw", "choices", "columns", "logits")  # of each action
CLOSED = ("reward", "terminated", "truncated", "group_reward")  # of each transition


def rollout_state(buffer: RolloutBuffer) -> dict[str, Any]:
    """Arrays and numbers to continue from."""
    lengths = buffer.lengths()
    used = int(lengths.max(initial=0)) + 1
    rows = np.arange(used)[:, None]
    closed, acted = rows < lengths, rows < lengths + buffer.open  # each [used, S]
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


def is_complete(state: Mapping[str, Any]) -> bool:
    """Whether the state has what actions were drawn with; earlier versions computed it at the update."""
    return "columns" in state


def require_rollout_fit(buffer: RolloutBuffer, state: Mapping[str, Any], actor_memory: int) -> None:
    """Raise RunStateError unless every array has the type and shape of the buffer's, and every row is within them.

    ``actor_memory`` is the size of the policy's memory, which is all that an earlier version stored.
    """
    slots = len(buffer.cursor)
    rows = len(saved_array(state, "reward", np.float32, (None, slots)))
    complete = is_complete(state)
    for name in ("raw", "choices", "terminated", "truncated", *(("columns", "logits") if complete else ())):
        array = getattr(buffer, name)
        saved_array(state, name, array.dtype, (rows, *array.shape[1:]))
    if "group_reward" in state:
        saved_array(state, "group_reward", np.float32, (rows, slots))
    observations = saved_mapping(state, "observations")
    seen = {
        name: saved_array(observations, name, array.dtype, (None, *array.shape[1:]))
        for name, array in buffer.observations.items()
    }
    if "masks" in state:
        seen["masks"] = saved_array(state, "masks", np.bool_, (None, slots, buffer.behavior.mask_size))
    finals = saved_array(state, "final_rows", np.int64, (None, 2))
    if buffer.memory is not None:
        size = buffer.memory.shape[2] if complete else actor_memory
        seen["memory"] = saved_array(state, "memory", np.float32, (None, slots, size))
        if complete:
            saved_array(state, "final_memory", np.float32, (len(finals), size))
    for name, array in seen.items():
        if not rows <= len(array) <= rows + 1:
            raise SavedValueError(f"the entry {name!r} has {len(array)} rows, and the rollout {rows}")
    cuts = saved_array(state, "cuts", np.int64, (None, 2))
    final_observations = saved_mapping(state, "final_observations")
    for name, array in buffer.observations.items() if len(finals) else ():
        saved_array(final_observations, name, array.dtype, (len(finals), *array.shape[2:]))
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


def load_rollout(buffer: RolloutBuffer, state: Mapping[str, Any]) -> None:
    """Continue from a state that :func:`require_rollout_fit` has passed.

    The memory of an earlier version's is of the policy alone, and stays for :func:`complete_rollout`.
    """
    buffer.ragged = bool(state["ragged"])
    buffer.row = int(state["row"])
    for name in ("cursor", "open", "awaiting"):
        getattr(buffer, name)[:] = state[name]
    buffer.kept_log_prob = np.where(state["kept"], state["kept_log_prob"], np.float32(np.nan))
    while buffer.rows < len(state["reward"]):
        buffer.grow()
    if "masks" in state:
        buffer.mask_rows()
    if "group_reward" in state:
        buffer.group_rewards()
    for name, array in buffer.observations.items():
        saved = state["observations"][name]
        array[: len(saved)] = saved
    for name in (*ACTED, *CLOSED, "masks"):
        if name in state:
            getattr(buffer, name)[: len(state[name])] = state[name]
    buffer.cuts = [state["cuts"]] if len(state["cuts"]) else []
    buffer.final_rows = [state["final_rows"]] if len(state["final_rows"]) else []
    buffer.final_seen = [dict(state["final_observations"])] if len(state["final_rows"]) else []
    if buffer.memory is not None:
        saved = state["memory"]
        buffer.memory[: len(saved), :, : saved.shape[2]] = saved
        none = np.zeros((len(state["final_rows"]), buffer.memory.shape[2]), np.float32)
        for final in buffer.final_seen:
            final[MEMORY] = state.get("final_memory", none)


def complete_rollout(
    buffer: RolloutBuffer, memory: FloatArray | None, critic_memory: FloatArray | None, policy: Policy, step: Step
) -> None:
    """Compute what an earlier version did not store of its rollout, under the weights that acted.

    ``memory`` [S, M] is what is remembered before the next action; its last columns, those of a critic of its own, are
    filled. ``critic_memory`` [S, C] is what the critic remembered before the first row.
    """
    own = slice(None)
    if buffer.memory is not None and memory is not None and critic_memory is not None:
        own = slice(critic_memory.shape[1])
        _remember(buffer, memory, critic_memory, step)
    used = min(int(buffer.lengths().max(initial=0)) + 1, buffer.rows)

    def flat(array: NDArray[Any]) -> NDArray[Any]:
        return array[:used].reshape(-1, *array.shape[2:])

    columns, logits = policy(
        {name: flat(array) for name, array in buffer.observations.items()},
        None if buffer.masks is None else flat(buffer.masks),
        None if buffer.memory is None else flat(buffer.memory)[:, own].copy(),
    )
    if columns is not None:
        buffer.columns[:used] = columns.reshape(buffer.columns[:used].shape)
    if logits is not None:
        buffer.logits[:used] = logits.reshape(buffer.logits[:used].shape)


def _remember(buffer: RolloutBuffer, memory: FloatArray, before: FloatArray, step: Step) -> None:
    """Fill what is remembered at the current and at final observations, and what a critic of its own does at all."""
    lengths, slots, rows, size = buffer.lengths(), len(memory), buffer.memory, before.shape[1]
    assert rows is not None
    of_critic = size < memory.shape[1]
    after = np.zeros((int(lengths.max(initial=0)) + 1, slots, size), np.float32)
    for t, remembered in enumerate(after):
        if of_critic:
            rows[t, :, size:] = before
        remembered[:] = step({name: array[t] for name, array in buffer.observations.items()}, before)
        if of_critic:
            opened = buffer.open & buffer.ragged
            memory[lengths == t, size:] = np.where(opened[:, None], remembered, before)[lengths == t]
        over = lengths <= t
        if t < buffer.rows:
            over = over | buffer.terminated[t] | buffer.truncated[t]
        before = np.where(over[:, None], np.float32(0), remembered)
    waits = np.flatnonzero(~(buffer.open & buffer.ragged))
    rows[lengths[waits], waits] = memory[waits]
    for pairs, final in zip(buffer.final_rows, buffer.final_seen, strict=True):
        final[MEMORY][:, -size:] = after[pairs[:, 0], pairs[:, 1]]
