"""Ranks in threads of one process, for tests of trainers that learn in several."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Ranks, RanksFailed, SlotShare

Number = TypeVar("Number", bound=np.generic)
T = TypeVar("T")

SECONDS = 60.0  # that a rank waits for the others: one of them ended, or does not call the same methods


@attrs.define(eq=False)
class Table:
    """Where the threads exchange values.

    Attributes:
        places: The value of each rank.
        barrier: Where they wait for each other.
        turn: Held by the thread that runs: one alone, because generators of libraries belong to the process.
    """

    places: list[Any]
    barrier: threading.Barrier
    turn: threading.Lock = attrs.field(factory=threading.Lock)

    def wait(self) -> None:
        """Let other threads run until all are here. The global generators are afterwards as they were before."""
        restore = save_generators()
        self.turn.release()
        try:
            self.barrier.wait(SECONDS)
        except threading.BrokenBarrierError:
            raise RanksFailed("the ranks do not call the same methods of run.ranks in the same order") from None
        finally:
            self.turn.acquire()
            restore()


def save_generators() -> Callable[[], None]:
    """Return what restores the global generators: in a run, each rank is a process with generators of its own."""
    plain = random.getstate()
    of_numpy = np.random.get_state()  # noqa: NPY002
    torch = sys.modules.get("torch")
    of_torch = None if torch is None else torch.get_rng_state()

    def restore() -> None:
        random.setstate(plain)
        np.random.set_state(of_numpy)  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(of_torch)

    return restore


class ThreadRanks(Ranks):
    """One rank of a run whose ranks are threads."""

    def __init__(self, table: Table, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self._table = table

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return the sums over all ranks, added in the order of the ranks."""
        first, *others = self.all_gather(np.asarray(values))
        total: NDArray[Number] = first
        for summand in others:
            total = total + summand
        return total

    def all_gather(self, value: Any) -> list[Any]:
        """Return copies of the values of all ranks, in the order of the ranks."""
        # Copies, because ranks that are processes share no memory. The second wait keeps the next exchange from
        # overwriting values that another rank has not read.
        self._table.places[self.rank] = deepcopy(value)
        self._table.wait()
        gathered = deepcopy(self._table.places)
        self._table.wait()
        return gathered

    def share(self, value: T) -> T:
        """Return the value of rank 0."""
        shared: T = self.all_gather(value)[0]
        return shared

    def wait_for_all(self, doing: str) -> None:
        """Return when all ranks have called this."""
        self.all_gather(None)

    def share_slots(self, env_index: NDArray[np.int64], first_env: int) -> SlotShare:
        """Return the share of this rank. The slots are in the order of their environments."""
        parts = self.all_gather(env_index + first_env)
        earlier = parts[: self.rank]
        begin = sum(len(part) for part in earlier)
        end = begin + len(env_index)
        slots = np.arange(begin, end)
        all_env_index = np.concatenate(parts)
        return SlotShare(len(all_env_index), slots, all_env_index)


def in_ranks(function: Callable[[Ranks], T], size: int) -> Sequence[T]:
    """Return what ``function(ranks)`` returns in each of ``size`` ranks. Raises the first error of a rank."""
    table = Table([None] * size, threading.Barrier(size))
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        with table.turn:
            try:
                results[rank] = function(ThreadRanks(table, rank, size))
            except BaseException as error:
                errors.append(error)
                table.barrier.abort()  # the others wait for this one

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
