"""The replay buffers of all ranks as one, of which minibatches are drawn.

Each rank stores the transitions of its own slots. Every rank knows which rows of the whole buffer hold one, draws the
minibatches of the whole with equal generators, and learns from those of its own rows. With the numbering of one
process, the minibatches are those of one process.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import ConfigError, Ranks, SlotShare
from rlcore_torch.networks.settings import MemorySettings
from rlcore_torch.off_policy.replay import ReplayBuffer
from rlcore_torch.off_policy.replay_rings import Rows, sample_rows
from rlcore_torch.off_policy.replay_sequences import SequenceRows, sequences_around

__all__ = ["JoinedReplay", "RowShare"]

Lists = dict[str, list[float]]


@attrs.frozen(eq=False)
class RowShare:
    """The rows of a minibatch that a rank has.

    Attributes:
        total: Rows of the minibatch in all ranks.
        places: [B] place in the minibatch of each row of this rank.
        share: The share of the rows of this rank. A rank without any has one row, whose share is 0.
    """

    total: int
    places: Rows
    share: float

    def of_own(self, drawn: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the rows of this rank, [k * B, ...], of ``drawn`` [k * total, ...] for all."""
        shape = drawn.shape[1:]
        of_each = len(drawn) // self.total  # k; reshape cannot infer it for actions without continuous parts
        of_all = drawn.reshape(of_each, self.total, *shape)
        of_rank: NDArray[np.float32] = of_all[:, self.places]
        return of_rank.reshape(of_each * len(self.places), *shape)


class JoinedReplay:
    """The rows of the replay buffers of all ranks, S* slots in the run."""

    def __init__(self, buffer: ReplayBuffer, share: SlotShare, ranks: Ranks) -> None:
        self._buffer = buffer
        self._share = share
        self._ranks = ranks
        self._rows_of_slot = buffer.capacity // buffer.slots
        self._sent = np.zeros(buffer.capacity, np.bool_)  # which rows of this rank the others know to hold a transition
        self._flags: NDArray[np.bool_] = np.zeros((self._rows_of_slot, share.total), np.bool_)
        self._filled = 0  # rows of the whole from here on were never used
        self._local_slots = np.full(share.total, -1, np.int64)  # [S*] place among those of this rank; -1 for others
        self._local_slots[share.numbers] = np.arange(buffer.slots)

    def forget(self) -> None:
        """Exchange all rows again: the buffer was loaded from a checkpoint."""
        self._sent[:] = False
        self._flags[:] = False
        self._filled = 0

    def exchange(self, lists: Lists) -> Lists:
        """Learn which rows of the other ranks hold a transition. Returns the joined ``lists`` of all ranks, by name."""
        buffer = self._buffer
        share = self._share
        holds = buffer.flags != 0
        changed = np.flatnonzero(holds != self._sent)
        position, slot = divmod(buffer.filled - 1, buffer.slots)
        filled = position * share.total + int(share.numbers[slot]) + 1
        message = {"rows": self._rows_of_all(changed), "holds": holds[changed], "filled": filled, "lists": lists}
        gathered: list[Any] = self._ranks.all_gather(message)
        self._sent = holds
        flat = self._flags.reshape(-1)
        names = set()
        for received in gathered:
            flat[received["rows"]] = received["holds"]
            self._filled = max(self._filled, received["filled"])
            names.update(received["lists"])
        # In the order of names, then of ranks, so that every rank reports the same.
        of_all: Lists = {name: [] for name in sorted(names)}
        for received in gathered:
            for name, numbers in received["lists"].items():
                of_all[name] += numbers
        return of_all

    def sample(
        self, batch_size: int, generator: np.random.Generator, memory: MemorySettings | None = None
    ) -> tuple[Rows | SequenceRows, RowShare]:
        """Return the rows [B] of this rank among ``batch_size`` of all, drawn as one buffer with all rows draws them.

        With ``memory``, they are sequences. Raises ConfigError if this rank has stored no transition.
        """
        flat = self._flags.reshape(-1)
        closed = int(np.count_nonzero(flat))
        drawn = sample_rows(flat, self._filled, closed, batch_size, generator)
        of_all = None
        if memory is not None:
            of_all = sequences_around(drawn, memory, flat, self._share.total, generator)
            drawn = of_all.rows
        rows, places = self._local(drawn)
        if not len(rows):
            return self._any_row(batch_size, memory)
        part = RowShare(batch_size, places, len(rows) / batch_size)
        if of_all is None:
            return rows, part
        starts, local = self._local(of_all.starts)
        sequence = np.searchsorted(local, of_all.sequence[places])
        return SequenceRows(rows, sequence, starts, of_all.leads[local]), part

    def _any_row(self, batch_size: int, memory: MemorySettings | None) -> tuple[Rows | SequenceRows, RowShare]:
        """Return a row of this rank that counts nothing, for a minibatch without any of it."""
        stored = np.flatnonzero(self._buffer.flags)
        if not len(stored):
            raise ConfigError(
                f"rank {self._ranks.rank} has stored no transition yet; raise buffer_init_steps",
                key=("behaviors", self._buffer.behavior.name, "hyperparameters", "buffer_init_steps"),
            )
        row = stored[:1]
        zero = np.zeros(1, np.int64)
        part = RowShare(batch_size, zero, 0.0)
        if memory is None:
            return row, part
        return SequenceRows(row, zero, row, zero), part

    def _local(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the rows of this rank among ``rows`` of all ranks, and their places among these."""
        slots = self._local_slots[rows % self._share.total]
        places = np.flatnonzero(slots >= 0)
        positions = rows[places] // self._share.total
        return positions * self._buffer.slots + slots[places], places

    def _rows_of_all(self, rows: Rows) -> Rows:
        """Return what ``rows`` of this rank are among the rows of all ranks."""
        position, slot = np.divmod(rows, self._buffer.slots)
        of_all: Rows = position * self._share.total + self._share.numbers[slot]
        return of_all
