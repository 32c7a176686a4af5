"""How the slots of a behavior are numbered over several ranks: as in a run in one process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlcore import EnvironmentFailed, SlotShare
from rlcore_torch.arrays import IntArray

__all__ = ["numbered_slots"]


def numbered_slots(env_indices: Sequence[IntArray], rank: int) -> SlotShare:
    """Return the share of ``rank``, where ``env_indices`` has the environment of each slot [S], rank by rank.

    Raises EnvironmentFailed for slots in another order than environment by environment, or agent by agent.
    """
    env_index = np.concatenate(env_indices)  # [S*]
    total = len(env_index)
    first = sum(len(part) for part in env_indices[:rank])
    of_rank = slice(first, first + len(env_indices[rank]))
    numbers = np.arange(total)
    is_by_environment = all((np.diff(part) >= 0).all() for part in env_indices)
    if is_by_environment:
        return SlotShare(total, numbers[of_rank], env_index)
    agents = np.concatenate([_agents(part) for part in env_indices])
    order = np.lexsort((env_index, agents))  # of the run, by agent and then by environment
    numbers[order] = np.arange(total)
    # A rank's slots keep their order in the run, or what is gathered would be in another one than in one process.
    if not (np.diff(numbers[of_rank]) > 0).all():
        raise EnvironmentFailed(
            "the environment's slots are neither in the order of the environments nor agent by agent, and cannot "
            "be numbered over several ranks; run it in one process"
        )
    return SlotShare(total, numbers[of_rank], env_index[order])


def _agents(env_index: IntArray) -> IntArray:
    """[S] how many earlier slots are in the same environment."""
    order = np.argsort(env_index, kind="stable")
    ordered = env_index[order]
    first = np.searchsorted(ordered, ordered)  # place of the first slot of the same environment
    agents = np.empty_like(order)
    agents[order] = np.arange(len(order)) - first
    return agents
