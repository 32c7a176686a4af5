"""Whether checkpoints have the replay buffer, and the bytes that it takes on the disk of the run.

The key is ``hyperparameters.save_replay_buffer``: ``auto`` saves a small buffer where checkpoints can share it.
"""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from rlcore import BehaviorSettings, RunContext, StashKey, temporary_path
from rlcore_torch.off_policy.replay import ReplayBuffer
from rlcore_torch.off_policy.replay_segments import MOST_SEGMENTS, SEGMENT_BYTES

MOST_BYTES = 1 << 30  # of the full buffers of all ranks that ``auto`` saves
MOST_STEPS_BETWEEN = 500_000  # two checkpoints, where the configuration does not say how many

_HARD_LINKS = StashKey[bool]()


@attrs.frozen
class SavedReplay:
    """A full replay buffer in the checkpoints of a run.

    Attributes:
        nbytes: Bytes of the buffers of all ranks.
        shared: Bytes of the rows of this rank, which checkpoints share where they did not change.
        row: Bytes of a row.
        hard_links: Whether checkpoints of the run can share anything.
    """

    nbytes: int
    shared: int
    row: int
    hard_links: bool

    @classmethod
    def of(cls, buffer: ReplayBuffer, run: RunContext) -> SavedReplay:
        """The buffer of this rank with those of the others, which are as large. All ranks call it."""
        rows = buffer.capacity * buffer.nbytes_of_row
        nbytes = rows if buffer.priorities is None else rows + buffer.priorities.tree.leaves.nbytes
        return cls(run.ranks.total(nbytes), rows, buffer.nbytes_of_row, has_hard_links(run))

    @property
    def is_cheap(self) -> bool:
        """Whether ``auto`` saves it: without hard links, every checkpoint would have it whole."""
        return self.hard_links and self.nbytes <= MOST_BYTES

    def on_disk(self, settings: BehaviorSettings) -> int:
        """Return about the most bytes that it takes in all checkpoints that a run keeps.

        A checkpoint shares what did not change with the one before the last, so every second one is of one chain.
        """
        keep = settings.keep_checkpoints
        interval = settings.checkpoint_interval
        if settings.even_checkpoints and keep > 0:
            interval = max(1, settings.max_steps // keep)
        least = interval or max(1, min(settings.max_steps // 10, MOST_STEPS_BETWEEN))
        count = settings.max_steps // least + 1
        if keep > 0:
            count = min(count, keep + 1)  # an old one is deleted when the new one is written
        if not self.hard_links:
            return count * self.nbytes
        chains = (count,) if keep == 1 else (count - count // 2, count // 2)
        of_chains = [self._of_chain(length, interval, settings.max_steps) for length in chains]
        return count * (self.nbytes - self.shared) + sum(of_chains)

    def _of_chain(self, length: int, interval: int | None, max_steps: int) -> int:
        """Bytes of what ``length`` checkpoints share; ``interval`` is None if the run may choose a longer one."""
        # Each checkpoint writes the segments that the run is writing to again.
        again = 2 * max(SEGMENT_BYTES, self.shared // MOST_SEGMENTS)
        bounds = [length * self.shared, max_steps * self.row + length * again]
        if interval is not None:
            changed = 2 * interval * self.row + again
            bounds.append(self.shared + (length - 1) * changed)
        return min(bounds)


def has_hard_links(run: RunContext) -> bool:
    """Return whether files in the run directory can have hard links: tried once in a run, with a file of rlcore."""
    if _HARD_LINKS not in run.stash:
        # Rank 0 writes the checkpoints, and all ranks must agree on what is in them.
        can_link = run.ranks.rank == 0 and _can_link(run.directory)
        run.stash[_HARD_LINKS] = run.ranks.share(can_link)
    return run.stash[_HARD_LINKS]


def _can_link(directory: Path) -> bool:
    file = temporary_path(directory)
    link = temporary_path(directory)
    try:
        file.touch(exist_ok=False)
        os.link(file, link)
    except OSError:
        return False
    finally:
        file.unlink(missing_ok=True)
        link.unlink(missing_ok=True)
    return True


def in_units(count: int) -> str:
    """``7.1 GB``"""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
