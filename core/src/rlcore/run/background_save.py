"""Writing a checkpoint in a thread of its own while the training continues.

The thread that trains waits for it before the next summary, evaluation or checkpoint and before the run ends, so that
everything that follows a checkpoint happens at the same step in every run.
"""

from __future__ import annotations

from threading import Thread

from rlcore.storage.store import PendingSave

# A checkpoint of which more is to be copied is written while the training waits.
MOST_COPIED = 2 << 30  # bytes


class BackgroundSave:
    """A checkpoint that a thread writes. ``regular`` as in :meth:`rlcore.run.training.Training._save_checkpoint`."""

    def __init__(self, pending: PendingSave, regular: bool) -> None:
        self.pending = pending
        self.regular = regular
        self._error: BaseException | None = None
        pending.detach()
        self._thread = Thread(target=self._write, name=f"checkpoint of step {pending.step}")
        self._thread.start()

    def wait(self) -> None:
        """Wait until the checkpoint is written. Raises what writing it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _write(self) -> None:
        try:
            self.pending.write()
        except BaseException as error:
            self._error = error
