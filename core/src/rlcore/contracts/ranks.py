"""The processes of a run, its *ranks*: how this one was started, and what it does together with the others.

``run.ranks`` of a :class:`rlcore.RunContext` is a :class:`Ranks`, of one process that does everything. A plugin has
a subclass for several processes (``rlcore_create_ranks``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import Environment
from rlcore.contracts.results import EvaluationResult, FinishedEpisodes
from rlcore.contracts.saved_values import saved_array, saved_count
from rlcore.errors import ConfigError

Number = TypeVar("Number", bound=np.generic)
T = TypeVar("T")

# The environment variables with which ``torchrun`` starts a rank, and the one that it sets after a failure.
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
RESTARTS = "TORCHELASTIC_RESTART_COUNT"

RANKS_ENTRY = "ranks"  # of ``run`` of a state that several ranks saved: their number, and what differs in each
EPISODES = ["run", "episodes"]  # the path of the numbers of episodes


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
    numbers = {name: environ[name] for name in NAMES[:3]}
    numbers[RESTARTS] = environ.get(RESTARTS, "0")
    try:
        rank, size, local_rank, restarts = map(int, numbers.values())
    except ValueError:
        rank = size = local_rank = restarts = -1
    # The ranks of a machine are numbered in a row, so the number on the machine is never above that in the run.
    if restarts < 0 or not 0 <= local_rank <= rank < size < 10**9:
        variables = ", ".join(f"{name}={value[:40]!r}" for name, value in numbers.items())
        raise ConfigError(f"the environment variables {variables} are not those of a rank; use torchrun")
    port = environ["MASTER_PORT"]
    address = environ["MASTER_ADDR"]
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise ConfigError(f"the environment variable MASTER_PORT is {port[:40]!r}; the largest port is 65535")
    if not re.fullmatch("[A-Za-z0-9_.:%-]{1,255}", address):
        raise ConfigError(f"the environment variable MASTER_ADDR is {address[:40]!r}, not that of a host")
    return Launch(rank, size, local_rank, restarts, _job(environ))


def _job(environ: Mapping[str, str]) -> str:
    """The id of the job, if it is a random one; otherwise with the process that started this one, and its start."""
    name = environ.get("TORCHELASTIC_RUN_ID", "")[:200]
    with suppress(ValueError):
        return str(UUID(name))
    starter = os.getppid()
    started = ""
    # Linux: numbers of processes are used again, so the start time belongs to the id. It is the 22nd field of the file,
    # the 20th after the name, which may have spaces and brackets (man proc_pid_stat).
    with suppress(OSError, IndexError):
        status = Path(f"/proc/{starter}/stat").read_text()
        fields = status.rpartition(")")[2].split()
        started = fields[19]
    return f"{name} {starter} {started}"


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


class Ranks:
    """The K processes of a run. This class is that of a run in one process, and a base for those of several.

    All ranks call the same methods in the same order. Values are trees: mappings and sequences of numpy arrays and
    JSON values, which arrive as dictionaries and lists. Every method of a subclass raises :class:`rlcore.RanksFailed`
    if a rank ended or does not answer.

    Attributes:
        rank: Number of this process, from 0. Rank 0 alone writes files.
        size: K, the number of processes.
        exchange_seconds: Seconds that exchanges took so far, with those in which this process waited for others.
        report: Called with a behavior and its episodes, of all ranks, that ended in a step; None if no curriculum needs
            them.
    """

    rank: int = 0
    size: int = 1
    exchange_seconds: float = 0.0
    report: Callable[[Any, FinishedEpisodes], None] | None = None

    # ------------------------------------------------------------ values

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return the sums over all ranks of ``values``, an array of the same shape and type in each."""
        return values

    def all_gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in the order of the ranks."""
        return [value]

    def share(self, value: T) -> T:
        """Return the value of rank 0. The values of other ranks are ignored."""
        return value

    def total(self, count: int) -> int:
        """Return the sum of the counts of all ranks."""
        (total,) = self.sum(np.array([count], np.int64))
        return int(total)

    def any(self, flag: bool) -> bool:
        """Return whether the flag of any rank is true."""
        return self.total(flag) > 0

    def wait_for_all(self, doing: str) -> None:
        """Return when all ranks have called this. ``doing``, such as ``starting``, is for the message if one does not.

        Waits for minutes: for what takes ranks a long and different time.
        """

    def close(self, error: BaseException | None = None) -> None:
        """End the exchange. The other ranks report ``error`` as the reason if they still wait for this one."""

    # ------------------------------------------------------------ the part of a rank

    def own_environments(self, num_envs: int) -> tuple[int, int]:
        """Return the first environment of this rank, and how many it has: blocks whose sizes differ by one at most."""
        count, more = divmod(num_envs, self.size)  # the first `more` ranks have one environment more
        first_env = self.rank * count + min(self.rank, more)
        if self.rank < more:
            count += 1
        return first_env, count

    def share_slots(self, env_index: NDArray[np.int64], first_env: int) -> SlotShare:
        """Return the share of this rank, where ``env_index`` [S] are the environments of its slots.

        Slots of a run in one process are numbered environment by environment, or agent by agent with all environments
        for each; those of several ranks are numbered alike. ``first_env`` is the first environment of this rank.
        """
        slots = len(env_index)
        return SlotShare(slots, np.arange(slots), env_index + first_env)

    def save_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return, in rank 0, the state of all ranks for a checkpoint, of which each has its ``state``."""
        return state

    def load_state(self, state: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the state that this rank saved, from that of a checkpoint that rank 0 read; None if there is none.

        If another number of ranks saved it, every rank gets what :meth:`of_this_number` makes of it.
        """
        return self.of_this_number(state)

    def of_this_number(self, state: dict[str, Any] | None) -> dict[str, Any] | None:
        """``state``; if another number of ranks saved it, without their parts, and with the latest episode of all."""
        if state is None:
            return None
        saved_by = number_of_ranks(state)
        if saved_by == self.size:
            return state
        of_run = dict(state["run"])
        if of_run["episodes"] is not None:
            of_run["episodes"] = latest_episode(state)
        of_run[RANKS_ENTRY] = {"size": saved_by}
        return {**state, "run": of_run}

    def other_number(self, state: Mapping[str, Any]) -> tuple[str, str] | None:
        """How many ranks saved the ``state`` that :meth:`load_state` returned, and how many there are, in words.

        None if they are as many.
        """
        if RANKS_ENTRY not in state["run"]:
            return None
        saved_by = number_of_ranks(state)
        return _in_words(saved_by), _in_words(self.size)

    def stand_in(self, environment: Environment) -> Environment | None:
        """Return what takes the place of an environment that ended or failed in a step, until all ranks stop.

        The other ranks are within the same step, and know nothing. None, as in one process: the run ends at once.
        """
        return None

    def lead(
        self, play: Callable[[Callable[[], bool]], EvaluationResult | None], stop_requested: Callable[[], bool]
    ) -> EvaluationResult | None:
        """Return what ``play`` returns in rank 0, which alone calls it.

        ``play`` calls the function that it is given in every step, and returns None soon after that returned True:
        a stop was requested in one of the ranks.
        """
        return play(stop_requested)

    # ------------------------------------------------------------ the steps of a run

    def join(
        self, environment: Environment, behaviors: Mapping[str, Any], num_envs: int, first_env: int
    ) -> tuple[Any, Mapping[str, Any]]:
        """Begin a run. Return the environment and the behaviors with those of all ranks, as curricula see them.

        ``num_envs`` are those of all ranks, and ``first_env`` is the first one of this rank.
        """
        return environment, behaviors

    def episodes_of_all(self, episodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the episodes [N*] of all ranks. Each environment starts, or is in, one of ``episodes`` [N]."""
        return episodes

    def episodes_finished(self, behavior: Any, finished: FinishedEpisodes) -> None:
        """Episodes of this rank ended in the step that :meth:`after_step` closes."""
        behavior.episodes_finished(finished)
        if self.report is not None:
            self.report(behavior, finished)

    def after_step(self, behaviors: Sequence[Any]) -> None:
        """Close a step of the environments."""

    def watch(self) -> None:
        """Let the steps of trainers lag behind until they may reach the next boundary of their behavior."""

    def settle(self) -> None:
        """Make the steps of trainers and the statistics those of all ranks."""

    def agree_to_stop(self, stopping: Callable[[], bool], now: bool = False) -> bool:
        """Whether to stop, because ``stopping`` returns True in one of the ranks.

        Asked after every step of the environments, of which the ranks may agree in few, and between two epochs, where
        they agree ``now``.
        """
        return stopping()

    def agreement(self, stopping: Callable[[], bool]) -> Callable[[], bool]:
        """Return what a run calls after every step of the environments: :meth:`agree_to_stop` with ``stopping``."""
        return stopping


def number_of_ranks(state: Mapping[str, Any]) -> int:
    """The number of ranks that saved the ``state`` of a checkpoint."""
    saved = state["run"].get(RANKS_ENTRY)
    return int(saved["size"]) if saved else 1


def latest_episode(state: Mapping[str, Any]) -> int:
    """The largest number of an episode that an environment of any rank was in when ``state`` was saved."""
    run = state["run"]
    of_ranks = [run["episodes"]]
    saved = run.get(RANKS_ENTRY)
    parts = saved["parts"] if saved else {}
    for part in parts.values():
        for path, leaf in zip(part["paths"], part["leaves"], strict=True):
            if path == EPISODES:
                of_ranks.append(leaf)
    return max(int(np.max(episodes, initial=0)) for episodes in of_ranks)


def _in_words(ranks: int) -> str:
    return "one process" if ranks == 1 else f"{ranks} ranks"


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
        acting_ranks = self._ranks.sum(self.acted.astype(np.int64))  # [G]
        self.idle = acting_ranks == 0
        self.acted[:] = False
        return True

    def state_dict(self) -> dict[str, Any]:
        """The groups that are idle, and what was seen since they were looked at."""
        return {"idle": self.idle.copy(), "acted": self.acted.copy(), "steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the state of an object with as many groups. Raises SavedValueError if it does not fit."""
        idle = saved_array(state, "idle", np.bool_, self.idle.shape)
        acted = saved_array(state, "acted", np.bool_, self.acted.shape)
        self._steps = saved_count(state, "steps")
        self.idle = idle.copy()
        self.acted = acted.copy()
