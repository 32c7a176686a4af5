"""Turn a :class:`rlcore.Recording` into a replay buffer that is only read, for trainers of recorded data."""

from __future__ import annotations

import numpy as np

from rlcore import BehaviorSpec, ConfigError, Recording, one_slot, spec_mismatch
from rlcore_torch.allocation import require_memory
from rlcore_torch.networks.actions import ActionLayout
from rlcore_torch.off_policy.replay import ReplayBuffer
from rlcore_torch.off_policy.replay_rings import CLOSED, LEAST_ROWS, TERMINATED, TRUNCATED

__all__ = ["recorded_transitions"]


def recorded_transitions(recording: Recording, behavior: BehaviorSpec, layout: ActionLayout) -> ReplayBuffer:
    """Return all transitions of ``recording``, for agents of ``behavior``.

    A recording is laid out as a ring of one slot is: the row after a transition holds what followed it. Continuous
    actions become raw ones, within [-1, 1] where the environment's are bounded. Raises ConfigError if the recorded
    agents see or do something else than those of ``behavior``, or chose what their action mask forbids, and if there is
    not enough memory.
    """
    recording = recording.named_as(behavior)
    problem = spec_mismatch(behavior, recording.behavior)
    if problem:
        raise ConfigError(f"behavior {behavior.name!r}: in the recording, {problem}, which its agents have")
    rows = recording.rows
    count = recording.transitions + recording.episodes
    agent, size = one_slot(behavior), max(count, LEAST_ROWS)
    require_memory(agent, size, masks=recording.action_mask is not None, what="recorded data")
    buffer = ReplayBuffer(agent, size)
    buffer.rewrite(slice(count), observations=recording.observations)
    if recording.actions.continuous is not None:
        buffer.rewrite(rows, raw=layout.to_raw(recording.actions.continuous))
    if recording.actions.discrete is not None:
        buffer.rewrite(rows, choices=recording.actions.discrete)
        if recording.action_mask is not None:
            chosen = recording.actions.discrete + np.array(layout.offsets)
            forbidden = ~np.take_along_axis(recording.action_mask[rows], chosen, axis=1).all(1)  # [N]
            if forbidden.any():
                raise ConfigError(
                    f"behavior {behavior.name!r}: in {int(forbidden.sum())} of {len(rows)} recorded steps, step "
                    f"{int(forbidden.argmax())} the first, an option was chosen that the action mask forbids; record "
                    "the masks that held when the actions were chosen, or none"
                )
    buffer.rewrite(rows, reward=recording.reward)
    flags = np.zeros(count, np.uint8)
    flags[rows] = CLOSED + TERMINATED * recording.terminated + TRUNCATED * recording.truncated
    buffer.fill(flags, recording.action_mask)
    return buffer
