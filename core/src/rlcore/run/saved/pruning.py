"""Delete checkpoints of a run that no process trains; ``rlcore checkpoints prune`` chooses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rlcore.config.plugins_block import load_plugins_for
from rlcore.errors import RunStateError
from rlcore.files.lock import LOCK, DirectoryLock
from rlcore.files.reading import failing_as
from rlcore.run.saved.data import read_saved_configuration
from rlcore.storage.checkpoints import CHECKPOINTS, Checkpoint, find_checkpoints, remove_checkpoints, require_format
from rlcore.storage.mark import LOGS, outcome_in, read_mark, require_no_links, without_exports, write_mark
from rlcore.storage.status import training_status

__all__ = ["pruning"]


@contextmanager
def pruning(run: Path, allow_local: bool = False) -> Iterator[Callable[[Sequence[Checkpoint]], None]]:
    """Hold the lock of the run in the directory ``run``; the value deletes checkpoints of the run.

    It deletes the exported policies beside them too, and writes the training status again, which a plugin that the
    run's configuration chooses may store. Files that rlcore did not write stay.

    Raises RunStateError if a process trains the run, if rlcore did not write its directory, if a link stands in the
    place of its files, or if a newer rlcore wrote one of its checkpoints.
    """
    plugins = load_plugins_for(read_saved_configuration(run), allow_local=allow_local, lenient=True)
    mark = read_mark(run)
    if mark is None:
        raise RunStateError(f"{run}: has no mark of rlcore (rlcore_run.json), so nothing in it is deleted")
    had_lock_file = (run / LOCK).exists()
    lock = DirectoryLock(run)
    with failing_as(f"{run}: cannot be written to"):
        lock.acquire()

    def delete(checkpoints: Sequence[Checkpoint]) -> None:
        remove_checkpoints(run / CHECKPOINTS, checkpoints)
        deleted = {checkpoint.step for checkpoint in checkpoints}
        with failing_as(f"{run}: an export cannot be deleted"):
            left = without_exports(run, read_mark(run) or mark, lambda step: step in deleted)
            write_mark(run, left)
        for checkpoint in reversed(find_checkpoints(run / CHECKPOINTS)):
            if not checkpoint.problems():
                status = training_status(checkpoint, final=outcome_in(run) == "done")
                plugins.write_status(status, run / LOGS)
                return

    try:
        require_no_links(run, mark)
        require_format(run / CHECKPOINTS)
        yield delete
    finally:
        lock.release()
        if not had_lock_file:
            (run / LOCK).unlink(missing_ok=True)
