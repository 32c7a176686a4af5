"""Recorded episodes as a replay buffer that nobody writes to."""

from __future__ import annotations

import attrs
import numpy as np

from rlcore.environment import BehaviorSpec
from rlcore.errors import ConfigError
from rlcore.recordings import Recording
from rlcore.torch.actions import ActionLayout
from rlcore.torch.replay import ReplayBuffer
from rlcore.torch.replay_rings import CLOSED, TERMINATED, TRUNCATED


def recorded_transitions(recording: Recording, behavior: BehaviorSpec, layout: ActionLayout) -> ReplayBuffer:
    """All transitions of ``recording``, for agents of ``behavior``.

    A recording is laid out as a ring of one slot is: the row after a transition holds what followed it. Continuous
    actions become raw ones, within [-1, 1] where the environment's are bounded. Raises ConfigError if the recorded
    agents see or do something else than those of ``behavior``.
    """
    require_same_agents(recording.behavior, behavior)
    rows = recording.rows
    count = recording.transitions + recording.episodes
    buffer = ReplayBuffer(attrs.evolve(behavior, env_index=np.zeros(1, np.int64), team=None, group=None), max(count, 4))
    for name, array in recording.observations.items():
        buffer.observations[name][:count] = array
    if recording.actions.continuous is not None:
        buffer.raw[rows] = layout.to_raw(recording.actions.continuous)
    if recording.actions.discrete is not None:
        buffer.choices[rows] = recording.actions.discrete
    buffer.reward[rows] = recording.reward
    flags = np.zeros(count, np.uint8)
    flags[rows] = CLOSED + TERMINATED * recording.terminated + TRUNCATED * recording.truncated
    buffer.fill(flags, recording.action_mask)
    return buffer


def require_same_agents(recorded: BehaviorSpec, behavior: BehaviorSpec) -> None:
    """Raises ConfigError unless both see the same observations and have the same actions."""
    seen = {o.name: o for o in recorded.observations}
    for wanted in behavior.observations:
        found = seen.get(wanted.name)
        if found is None:
            problem = f"no observation {wanted.name!r} (it has {', '.join(seen)})"
        elif (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            problem = (
                f"observation {wanted.name!r} of shape {found.shape} and type {found.dtype} where the agents' is "
                f"{wanted.shape} and {wanted.dtype}"
            )
        else:
            continue
        raise ConfigError(f"behavior {behavior.name!r}: the recording has {problem}")
    for what, theirs, ours in (
        ("continuous action parts", recorded.continuous, behavior.continuous),
        ("discrete branches", recorded.discrete, behavior.discrete),
    ):
        if theirs != ours:
            raise ConfigError(f"behavior {behavior.name!r}: the recording has {what} {theirs}, the agents {ours}")
    for name in ("low", "high"):
        if not np.array_equal(getattr(recorded, name), getattr(behavior, name)):
            raise ConfigError(
                f"behavior {behavior.name!r}: the recording's {name} bounds of actions are "
                f"{getattr(recorded, name).tolist()}, the agents' {getattr(behavior, name).tolist()}"
            )
