"""The share of a rank: some of a run's environments, and the agents in them."""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.errors import ConfigError, EnvironmentFailed
from rlcore.ranks.ranks import Ranks

__all__ = ["SlotShare", "share_slots", "total_of"]


@attrs.frozen
class EnvironmentShare:
    """A block of environments.

    Attributes:
        first: Number, in the run, of the first one.
        count: Number of environments.
    """

    first: int
    count: int


def share_environments(num_envs: int, rank: int, size: int) -> EnvironmentShare:
    """The environments of ``rank``: blocks of equal size, the first ones with one more if ``size`` divides unevenly.

    Raises ConfigError if there are fewer environments than ranks.
    """
    if num_envs < size:
        raise ConfigError(
            f"is {num_envs}, and torchrun started {size} ranks: each rank steps at least one of the environments; "
            f"raise it, or start {num_envs}",
            key=("environment", "num_envs"),
        )
    each, more = divmod(num_envs, size)
    return EnvironmentShare(rank * each + min(rank, more), each + (rank < more))


@attrs.frozen(eq=False)
class SlotShare:
    """The slots of a behavior that a rank has: S of S* in the run.

    Attributes:
        total: S*, the slots of all ranks.
        numbers: [S] the number, in one process, of each slot of this rank; ascending.
        env_index: [S*] the environment, numbered in the run, of each slot of the run.
    """

    total: int
    numbers: NDArray[np.int64]
    env_index: NDArray[np.int64]


def share_slots(env_index: NDArray[np.int64], first_env: int, ranks: Ranks) -> SlotShare:
    """The share of this rank, where ``env_index`` [S] are the environments of its slots. All ranks call it.

    Slots of a run in one process are numbered environment by environment, or agent by agent with all environments for
    each; those of several ranks are numbered alike. Raises EnvironmentFailed for slots in another order.
    """
    parts = [np.asarray(part, np.int64) for part in ranks.all_gather(env_index + first_env)]
    joined = np.concatenate(parts)
    begin = sum(len(part) for part in parts[: ranks.rank])
    own = slice(begin, begin + len(env_index))
    if all((np.diff(part) >= 0).all() for part in parts):
        return SlotShare(len(joined), np.arange(own.start, own.stop), joined)
    agents = np.concatenate([_agents(part) for part in parts])
    order = np.lexsort((joined, agents))  # of the run, by agent and then by environment
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(len(order))
    if not (np.diff(numbers[own]) > 0).all():
        raise EnvironmentFailed(
            "the environment's slots are neither in the order of the environments nor agent by agent, and cannot be "
            "numbered over several ranks; run it in one process"
        )
    return SlotShare(len(joined), numbers[own], joined[order])


def total_of(ranks: Ranks, count: int) -> int:
    """The sum of the ``count`` of all ranks."""
    return count if ranks.size == 1 else int(ranks.sum(np.array([count]))[0])


def _agents(env_index: NDArray[np.int64]) -> NDArray[np.int64]:
    """[S] how many earlier slots are in the same environment."""
    order = np.argsort(env_index, kind="stable")
    ordered = env_index[order]
    first = np.searchsorted(ordered, ordered)
    agents = np.empty(len(order), np.int64)
    agents[order] = np.arange(len(order)) - first
    return agents
