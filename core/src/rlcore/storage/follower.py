"""The run directory of a rank that writes nothing: rank 0 holds the lock, and writes for all ranks of a run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from rlcore.plugins.context import RunContext
from rlcore.storage.directory import RunDirectory
from rlcore.storage.store import PendingSave, RunStore, SavedBehavior


class FollowerDirectory(RunDirectory):
    """The paths of a run directory, which this process neither locks nor changes."""

    def open(self) -> None:
        pass

    def begin(self, nothing_left: bool = False) -> None:
        pass

    def started(self, files: Iterable[str] = ()) -> None:
        pass

    def declare_export(self, relative: str, step: int | None) -> None:
        pass

    def remove_exports(self, steps: Container[int]) -> None:
        pass

    def require(self) -> None:
        pass

    def regular_checkpoint_written(self) -> None:
        pass

    def close(self, files: Iterable[str] = ()) -> None:
        pass


class WrittenByAnother(PendingSave):
    """A checkpoint that rank 0 writes."""

    def __init__(self, step: int, path: Path) -> None:
        self.step, self.path = step, path
        self.stay, self.removed = [], []

    @property
    def nbytes(self) -> int:
        return 0

    def detach(self) -> None:
        pass

    def write(self) -> None:
        pass


class FollowerStore(RunStore):
    """Knows which step was saved last, and writes nothing."""

    def __init__(self, directory: RunDirectory, plugins: Any) -> None:
        super().__init__(directory, plugins)
        self._saved_step: int | None = None

    @property
    def saved_step(self) -> int | None:
        return self._saved_step

    def read_by_another(self, step: int | None) -> None:
        """Note the step of the checkpoint that rank 0 read."""
        self._saved_step = step

    def restore_status(self, context: RunContext) -> None:
        pass

    def is_done(self) -> bool:
        return False

    def write_configuration(self) -> None:
        pass

    def begin_save(
        self,
        step: int,
        state: dict[str, Any],
        behaviors: Mapping[str, SavedBehavior],
        context: RunContext,
        parameters: Mapping[str, Mapping[str, Any]],
    ) -> PendingSave:
        return WrittenByAnother(step, self.directory.checkpoints / str(step))

    def saved(self, pending: PendingSave) -> Path:
        self._saved_step = pending.step
        return pending.path

    def save_best(self, step: int, models: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        pass

    def write_status_of_exports(self) -> None:
        pass

    def write_status(self, final: bool = False) -> None:
        pass

    def configuration_changes(self, learning: bool = False) -> None:
        return None

    def forget_result(self) -> None:
        pass

    def write_result(self, result: Mapping[str, Any], timers: Mapping[str, Any]) -> None:
        pass
