"""The processes of a run, its *ranks*: the contract of their exchange, the share of each, and what they count together.

``run.ranks`` of a :class:`rlcore.RunContext` has the ranks of a run, a :class:`OneRank` if one process does everything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import UUID

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.saved_values import saved_array, saved_count
from rlcore.errors import ConfigError, EnvironmentFailed

Number = TypeVar("Number", bound=np.generic)
T = TypeVar("T")

# The environment variables with which ``torchrun`` starts a rank.
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_NUMBER = re.compile(r"[0-9]{1,9}")
_ADDRESS = re.compile(r"[A-Za-z0-9_.:%-]{1,255}")  # a name of a host, or an IPv4 or IPv6 address
_LARGEST_PORT = 65535


@attrs.frozen
class Launch:
    """How ``torchrun`` started this process.

    Attributes:
        rank: Number of the process, from 0.
        size: Number of processes.
        local_rank: Number of the process on its machine, which is the number of its GPU.
        restarts: How often ``torchrun`` started the processes again after one had failed.
        job: What all attempts of one call of ``torchrun`` have in common on a machine, and no other call has.
    """

    rank: int
    size: int
    local_rank: int
    restarts: int = 0
    job: str = ""

    @property
    def leads(self) -> bool:
        """Whether the process is rank 0, which writes and prints."""
        return self.rank == 0


def launched(environ: Mapping[str, str] = os.environ) -> Launch | None:
    """How ``torchrun`` started this process; None if it did not. Raises ConfigError for variables that do not fit.

    Processes of ``torchrun`` have all of the variables; another launcher may set some, and they mean nothing then.
    """
    if any(name not in environ for name in NAMES):
        return None
    numbers = {}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"):
        text = environ.get(name, "0")
        if not _NUMBER.fullmatch(text):
            raise _wrong(name, f"{text[:40]!r}, not a whole number of at most nine digits")
        numbers[name] = int(text)
    rank, size, local_rank = numbers["RANK"], numbers["WORLD_SIZE"], numbers["LOCAL_RANK"]
    if not rank < size:
        raise _wrong("RANK", f"{rank}, and WORLD_SIZE {size}")
    if local_rank > rank:  # a machine has ranks in a row
        raise _wrong("LOCAL_RANK", f"{local_rank}, and RANK {rank}")
    if numbers["MASTER_PORT"] > _LARGEST_PORT:
        raise _wrong("MASTER_PORT", f"{numbers['MASTER_PORT']}, and the largest port is {_LARGEST_PORT}")
    if not _ADDRESS.fullmatch(environ["MASTER_ADDR"]):
        raise _wrong("MASTER_ADDR", f"{environ['MASTER_ADDR'][:40]!r}, not the name or address of a host")
    return Launch(rank, size, local_rank, numbers["TORCHELASTIC_RESTART_COUNT"], _job(environ))


def _job(environ: Mapping[str, str]) -> str:
    """The id of the job, if it is a random one; otherwise with the process that started this one, and its start."""
    name = environ.get("TORCHELASTIC_RUN_ID", "")[:200]
    with suppress(ValueError):
        return str(UUID(name))
    starter = os.getppid()
    started = ""
    with suppress(OSError, IndexError):  # Linux: numbers of processes are used again
        started = Path(f"/proc/{starter}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{name} {starter} {started}"


def _wrong(name: str, problem: str) -> ConfigError:
    return ConfigError(f"the environment variable {name} is {problem}; use torchrun")


class Ranks(Protocol):
    """The K processes of a run. All of them call the same methods in the same order.

    Values are trees: mappings and sequences of numpy arrays and JSON values. Mappings and sequences arrive as
    dictionaries and lists. Every method raises :class:`rlcore.RanksFailed` if a rank ended or does not answer.

    Attributes:
        rank: Number of this process, from 0. Rank 0 alone writes files.
        size: K, the number of processes.
        exchange_seconds: Seconds that exchanges took so far, with those in which this process waited for others.
    """

    @property
    def exchange_seconds(self) -> float:
        """Seconds that exchanges took so far."""
        ...

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        ...

    @property
    def size(self) -> int:
        """The number of processes."""
        ...

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return the sums over all ranks of ``values``, an array of the same shape and type in each."""
        ...

    def all_gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in the order of the ranks."""
        ...

    def gather(self, value: Any) -> list[Any] | None:
        """Return the values of all ranks in rank 0, and None in the others."""
        ...

    def scatter(self, values: Sequence[Any] | None) -> Any:
        """Return ``values[rank]`` of rank 0, which alone gives values."""
        ...

    def share(self, value: T) -> T:
        """Return the value of rank 0. The values of other ranks are ignored."""
        ...

    def any(self, flag: bool) -> bool:
        """Return whether the flag of any rank is true."""
        ...

    def wait_for_all(self, doing: str) -> None:
        """Return when all ranks have called this. ``doing``, such as ``starting``, is for the message if one does not.

        Waits for minutes: for what takes ranks a long and different time.
        """
        ...

    def close(self, error: BaseException | None = None) -> None:
        """End the exchange. The other ranks report ``error`` as the reason if they still wait for this one."""
        ...


@attrs.frozen
class OneRank:
    """The ranks of a run in one process: nothing is exchanged.

    Attributes:
        rank: 0.
        size: 1.
        exchange_seconds: 0.
    """

    rank: int = 0
    size: int = 1
    exchange_seconds: float = 0.0

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return ``values``, of any shape."""
        return values

    def all_gather(self, value: Any) -> list[Any]:
        """Return a list with ``value``."""
        return [value]

    def gather(self, value: Any) -> list[Any] | None:
        """Return a list with ``value``."""
        return [value]

    def scatter(self, values: Sequence[Any] | None) -> Any:
        """Return the only one of ``values``."""
        assert values is not None
        return values[0]

    def share(self, value: T) -> T:
        """Return ``value``."""
        return value

    def any(self, flag: bool) -> bool:
        """Return ``flag``."""
        return flag

    def wait_for_all(self, doing: str) -> None:
        """Return at once."""

    def close(self, error: BaseException | None = None) -> None:
        """Do nothing."""


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


class StepCount:
    """The agent steps of a trainer, in all ranks.

    In several ranks, ``steps`` may lag behind what was counted: ranks exchange their counts where the sum may have
    reached a step from which it is needed. A slot closes at most one transition in a step of the environments, so
    that every rank knows, without an exchange, how many steps there may be at most. If all slots act in every step,
    there is one exchange for each such step; otherwise the distance to it shrinks with each exchange.

    Attributes:
        steps: Agent steps of all ranks that the ranks know of.
        exact_from: ``steps`` are exact whenever they have reached this many. The run sets it to its next boundary; 0,
            until it does, makes them exact in every step.
        uncounted: Agent steps of this rank that are not in ``steps`` yet.
    """

    def __init__(self, ranks: Ranks, slots: int) -> None:
        """``slots`` are those of all ranks."""
        self.steps = 0
        self.exact_from = 0
        self.uncounted = 0
        self._ranks = ranks
        self._slots = slots
        self._possible = 0  # agent steps of all ranks that may not be in `steps` yet, at most

    def add(self, closed: int, needed_from: int) -> None:
        """Count the transitions that ``closed`` in a step of this rank's environments. All ranks call it in each step.

        ``steps`` are exact afterwards if they have reached ``needed_from``, which is equal in all ranks.
        """
        if self._ranks.size == 1:
            self.steps += closed
            return
        self.uncounted += closed
        self._possible += self._slots
        if self.steps + self._possible >= min(needed_from, self.exact_from):
            self.counted(int(self._ranks.sum(np.array([self.uncounted]))[0]))

    def counted(self, total: int) -> None:
        """Make ``steps`` exact: ``total`` is the sum of ``uncounted`` over all ranks."""
        self.steps += total
        self.uncounted = self._possible = 0


class IdleGroups:
    """Finds out which of G groups of agents do not act.

    After every ``window`` steps of the environments, a group is idle if none of its agents, in any rank, acted in
    these steps. It is idle until it was found to act.

    Attributes:
        window: Steps of the environments between two looks.
        idle: [G] whether each group is idle; equal in all ranks.
        acted: [G] whether an agent of each group acted, in this rank, since the last look. The user sets it.
    """

    window = 10_000

    def __init__(self, ranks: Ranks, groups: int) -> None:
        self.idle: NDArray[np.bool_] = np.zeros(groups, np.bool_)
        self.acted: NDArray[np.bool_] = np.zeros(groups, np.bool_)
        self._ranks = ranks
        self._steps = 0  # since the groups were looked at

    def after_step(self) -> bool:
        """Count a step of the environments; all ranks call it in each. Returns whether the groups were looked at."""
        self._steps += 1
        if self._steps < self.window:
            return False
        self._steps = 0
        self.idle = self._ranks.sum(self.acted.astype(np.int64)) == 0
        self.acted[:] = False
        return True

    def state_dict(self) -> dict[str, Any]:
        """The groups that are idle, and what was seen since they were looked at."""
        return {"idle": self.idle.copy(), "acted": self.acted.copy(), "steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the state of an object with as many groups. Raises SavedValueError if it does not fit."""
        idle, acted = (saved_array(state, name, np.bool_, self.idle.shape).copy() for name in ("idle", "acted"))
        self._steps = saved_count(state, "steps")
        self.idle, self.acted = idle, acted
