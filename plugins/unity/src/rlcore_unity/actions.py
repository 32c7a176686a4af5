"""Actions as a player reads them: one for each agent that is not done, in the order in which it listed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions
from rlcore_unity.behaviors import Brain
from rlcore_unity.mlagents_messages import AgentAction, ListAgentAction

_VALUE = ListAgentAction.DESCRIPTOR.fields_by_name["value"].number
_FIELDS = {name: field.number for name, field in AgentAction.DESCRIPTOR.fields_by_name.items()}


def actions_of(actions: Actions, slots: NDArray[np.intp], hybrid: bool) -> Any:
    """Return a ListAgentAction with the actions of ``slots`` [agents]. Without ``hybrid``, as packages 1.x read it.

    The bytes of all agents are written as one array: protobuf's objects would be made one by one.
    """
    continuous = None if actions.continuous is None else actions.continuous[slots]
    discrete = None if actions.discrete is None else actions.discrete[slots]
    blocks = []
    if not hybrid:  # packages 1.x have one array of real numbers, with options as such
        parts: list[NDArray[Any]] = [part for part in (continuous, discrete) if part is not None]
        blocks.append(_block(_FIELDS["vector_actions_deprecated"], _reals(np.hstack(parts))))
    else:
        if continuous is not None:
            blocks.append(_block(_FIELDS["continuous_actions"], _reals(continuous)))
        if discrete is not None:
            blocks.append(_block(_FIELDS["discrete_actions"], _options(discrete)))
    agents = np.hstack(blocks)
    message = _block(_VALUE, agents)
    return ListAgentAction.FromString(message.tobytes())


def _block(field: int, rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Put a field's tag and length in front of each row [agents, bytes], as protobuf writes them."""
    agents, length = rows.shape
    # protobuf's wire format: the number of the field with wire type 2, and the length as a varint, low bits first.
    head = [field << 3 | 2]
    rest = length
    while rest >= 0x80:
        head.append(rest & 0x7F | 0x80)
        rest >>= 7
    head.append(rest)
    block = np.empty((agents, len(head) + length), np.uint8)
    block[:, : len(head)] = head
    block[:, len(head) :] = rows
    return block


def _reals(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(numbers, "<f4").view(np.uint8)


def _options(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    """Whole numbers below 2 ** 21, each in three bytes of seven bits, of which all but the last have the eighth bit."""
    # Varints of one length, which protobuf reads as well as the shortest ones: rows of bytes stay an array.
    low = numbers & 0x7F | 0x80
    middle = numbers >> 7 & 0x7F | 0x80
    high = numbers >> 14
    groups = np.stack([low, middle, high], axis=-1)
    return groups.astype(np.uint8).reshape(len(numbers), -1)


def neutral(brain: Brain, agents: Sequence[Any]) -> Any:
    """Return a ListAgentAction of zeros, or of the first option that is allowed, for agents without a place."""
    actions = [_neutral(brain, list(info.action_mask)) for info in agents]
    return ListAgentAction(value=actions)


def _neutral(brain: Brain, forbidden: list[bool]) -> Any:
    options = []
    first = 0
    for count in brain.spec.discrete:
        masked = forbidden[first : first + count]
        options.append(masked.index(False) if False in masked else 0)
        first += count
    reals = [0.0] * brain.spec.continuous
    return AgentAction(  # a package reads the field that it knows
        vector_actions_deprecated=[*reals, *options], continuous_actions=reals, discrete_actions=options
    )
