"""Holds on checkpoints, which a run then does not delete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import RLock

from rlcore.errors import RunStateError


class CheckpointHold(AbstractContextManager["CheckpointHold"]):
    """Keeps one checkpoint of a run until :meth:`release` is called, or the end of a ``with`` block.

    May be released in another thread. A checkpoint that is no longer among the ``keep_checkpoints`` newest is then
    deleted when the run saves the next one. A hold that is never released ends with the process.

    Attributes:
        step: Agent steps at the checkpoint.
    """

    def __init__(self, holds: CheckpointHolds, step: int) -> None:
        self.step = step
        self._holds: CheckpointHolds | None = holds

    def release(self) -> None:
        """Let the run delete the checkpoint. Later calls do nothing."""
        holds = self._holds
        self._holds = None
        if holds is not None:
            holds.release(self.step)

    def __exit__(self, *error: object) -> None:
        self.release()


class CheckpointHolds:
    """The holds of one run. A checkpoint may have several.

    Attributes:
        changed: Called with the steps that are held, ascending, whenever they have changed.
    """

    changed: Callable[[list[int]], None] | None = None

    def __init__(self) -> None:
        self._lock = RLock()
        self._held: Counter[int] = Counter()

    def hold(self, path: Path, step: int) -> CheckpointHold:
        """Hold the checkpoint of ``step`` at ``path``. Raises RunStateError if it is not there."""
        with self._lock:  # so that it is not being deleted
            if not path.is_dir():
                raise RunStateError(f"{path}: there is no checkpoint of step {step} to hold")
            self._held[step] += 1
            self._report(self._held[step] == 1)
        return CheckpointHold(self, step)

    def release(self, step: int) -> None:
        with self._lock:
            self._held[step] -= 1
            self._report(self._held[step] == 0)

    def _report(self, changed: bool) -> None:
        if changed and self.changed is not None:
            steps = [step for step, holds in self._held.items() if holds > 0]
            self.changed(sorted(steps))

    @contextmanager
    def unheld(self, steps: list[int]) -> Iterator[list[int]]:
        """Return those of ``steps`` that are not held; no hold is given until the block ends."""
        with self._lock:
            yield [step for step in steps if self._held[step] <= 0]
