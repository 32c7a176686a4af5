"""Actions as a player reads them: one for each agent that is not done, in the order in which it listed them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions
from rlcore_mlagents_messages import AgentAction, ListAgentAction
from rlcore_unity.behaviors import Brain


def actions_of(brain: Brain, actions: Actions, slots: NDArray[np.intp], hybrid: bool) -> Any:
    """Return a ListAgentAction with the actions of ``slots`` [agents]. Without ``hybrid``, as packages 1.x read it."""
    count = len(slots)
    parts: dict[str, list[list[Any]]] = {}
    if actions.continuous is not None:
        parts["continuous_actions"] = actions.continuous[slots].tolist()
    if actions.discrete is not None:
        parts["discrete_actions"] = actions.discrete[slots].tolist()
    if not hybrid:
        joined = [list(chain(*rows)) for rows in zip(*parts.values(), strict=True)]
        return ListAgentAction(value=[AgentAction(vector_actions_deprecated=row) for row in joined])
    if len(parts) == 1:
        ((name, rows),) = parts.items()
        return ListAgentAction(value=[AgentAction(**{name: row}) for row in rows])
    return ListAgentAction(
        value=[AgentAction(**{name: rows[agent] for name, rows in parts.items()}) for agent in range(count)]
    )


def neutral(brain: Brain, agents: Sequence[Any]) -> Any:
    """Return a ListAgentAction of zeros, or of the first option that is allowed, for agents without a place."""
    return ListAgentAction(value=[_neutral(brain, list(info.action_mask)) for info in agents])


def _neutral(brain: Brain, forbidden: list[bool]) -> Any:
    options, first = [], 0
    for count in brain.spec.discrete:
        masked = forbidden[first : first + count]
        options.append(masked.index(False) if False in masked else 0)
        first += count
    reals = [0.0] * brain.spec.continuous
    return AgentAction(vector_actions_deprecated=[*reals, *options], continuous_actions=reals, discrete_actions=options)
