"""The directory of one run: the paths in it, and who may write there.

:mod:`rlcore.storage.replaced_runs` decides what happens to an earlier run of the same name.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from rlcore.config.document import value_at
from rlcore.config.reading import read_document
from rlcore.errors import ConfigError, RlcoreError, RunStateError
from rlcore.files.lock import LOCK, DirectoryLock, holder, is_locked
from rlcore.files.paths import user_path, working_directory
from rlcore.files.reading import failing_as, is_whole
from rlcore.files.writing import is_leftover, sweep, write_atomically
from rlcore.settings import CheckpointSettings
from rlcore.settings.blocks import AUTO
from rlcore.storage.checkpoint import CONFIGURATION
from rlcore.storage.checkpoints import BEST, CHECKPOINTS, find_checkpoints, require_format
from rlcore.storage.mark import (
    HOLDS,
    LOGS,
    MARK,
    RESULT,
    Mark,
    outcome_in,
    read_mark,
    remove_own,
    require_no_links,
    without_exports,
    write_mark,
)
from rlcore.storage.replaced_runs import ReplacedRuns, copy_until, why_force

log = logging.getLogger(__name__)


class ResultsDirectory:
    """``results_dir/run_id`` and its lock.

    A run that takes the name of an earlier run replaces it; :mod:`rlcore.storage.replaced_runs` gives the rule. A
    directory without the mark of rlcore is never emptied.
    """

    def __init__(self, settings: CheckpointSettings, job: str = "", read_only: bool = False) -> None:
        """``job`` is that of torchrun, if it started the process.

        Where an earlier attempt of the job has begun the run, it is continued, or started over if it has no checkpoint.
        The number of restarts does not tell: ``torchrun`` counts none when a host joins.

        ``read_only`` is for ranks other than 0: rank 0 holds the lock, and writes for all ranks of a run.
        """
        if settings.force and settings.resume == AUTO:
            raise ConfigError("replaces a run, which resume: auto never does", key=("checkpoint_settings", "force"))
        if settings.checkpoint is not None and not (settings.resume is True or settings.inference):
            raise ConfigError(
                "is only for a run that exists; add --resume or --inference", key=("checkpoint_settings", "checkpoint")
            )
        self.read_only = read_only
        self.working_directory = working_directory()  # which an environment may change later
        self.path = self.working_directory / user_path(settings.results_dir) / settings.run_id
        mark = read_mark(self.path) if job and not settings.resume else None
        if mark is not None and mark.job == job:
            settings = attrs.evolve(settings, resume="auto", force=False)
        self.settings = settings
        self.configuration = self.path / CONFIGURATION
        self.checkpoints = self.path / CHECKPOINTS
        self.best = self.checkpoints / BEST  # the policies of the best evaluation
        self.logs = self.path / LOGS
        self.result = self.path / RESULT
        self._lock = DirectoryLock(self.path)
        self._job = job
        self._mark: Mark | None = None  # once this run has begun to write
        self._replaced = ReplacedRuns(self.path)
        self.begun_seed: int | None = None  # of a run that ``resume: auto`` starts over
        self._starting = False  # the new run has begun to write and may still fail to start
        self._rewind_to: int | None = None  # the step to resume from, if there are later checkpoints

    # ------------------------------------------------------------ opening

    def open(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Locks the directory for the run that the settings describe. A RunStateError leaves it unchanged.

        Another process is waited for as long as the settings say, or until ``stopping`` returns True. With
        ``inference`` the directory is only read: nothing is made or locked, so that a training run can be watched.
        """
        if self.read_only:
            return
        with failing_as(f"{self.path}: cannot be written to"):
            try:
                self._check()
            except FileNotFoundError:  # the process that writes to this run has deleted a checkpoint meanwhile
                if not is_locked(self.path):
                    raise
            if self.settings.inference:
                return
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(self.settings.lock_seconds, stopping)
        try:
            self._choose()
            self._check()  # another process may have started and ended a run in between
            if self.settings.resume:
                self.logs.mkdir(exist_ok=True)  # plugins may keep files of their own there
        except BaseException:
            self._lock.release()
            raise

    def _choose(self) -> None:
        """Decide for ``resume: auto`` whether to resume, to start over in place, or to start."""
        if self.settings.resume != AUTO:
            return
        mark = read_mark(self.path)
        begun = mark is not None and outcome_in(self.path) in (None, "failed")
        # A run that was moved aside with checkpoints is never replaced by chance: reading a checkpoint reports it.
        aside = [] if mark is None else [path / CHECKPOINTS for path in self._replaced.kept(mark)]
        saved = any(map(find_checkpoints, (self.checkpoints, *aside)))
        self.settings = attrs.evolve(self.settings, resume=saved, force=begun and not saved)
        if self.settings.force:
            log.info("%s: has no checkpoint yet, and starts over", self.path)
            with suppress(RlcoreError):  # a damaged file
                seed = value_at(read_document(self.configuration).data, ("env_settings", "seed"))
                self.begun_seed = seed if is_whole(seed) else None

    @property
    def _continuing(self) -> bool:
        return self.settings.resume is True or self.settings.inference

    def _check(self) -> None:
        """Raises RunStateError if the directory lacks the run to resume, or holds one that may not be replaced."""
        if self.path.is_symlink():
            raise RunStateError(f"{self.path}: is a symbolic link; name the run's real directory")
        mark = read_mark(self.path)
        copied = self.settings.resume and find_checkpoints(self.checkpoints)  # without its mark, it can be resumed
        if self._continuing:
            if mark is None and not copied:
                option = "--resume" if self.settings.resume else "--inference"
                aside = self.path.with_name(f"{self.path.name}.replaced")  # by a process that was killed
                moved = f"; {aside} holds a run that was to be replaced" if aside.is_dir() else ""
                raise RunStateError(
                    f"{self.path}: there is no run to resume (no {MARK}, and no checkpoint of rlcore); start it "
                    f"without {option}{moved}"
                )
            if self.settings.resume:
                require_no_links(self.path, mark or Mark())
        elif mark is None and self.path.exists() and not (self._is_bare() or copied):
            raise RunStateError(
                f"{self.path}: exists and is not a run of rlcore (it has no {MARK}), so nothing in it is touched; "
                "choose another --run-id or --results-dir"
            )
        if not self.settings.inference:
            require_format(self.checkpoints)  # before --force is advised, which would not help
        if mark is None or self._continuing or self.settings.resume or self.settings.force:
            return
        reason = why_force(self.path, mark)
        # Where another process writes, --force would not help: taking the lock says so.
        if reason is not None and (self._lock.held or not is_locked(self.path)):
            raise RunStateError(f"{self.path}: {reason}")

    def no_checkpoint(self) -> str:
        """The message for a run that has no checkpoint to read."""
        message = f"{self.path}: this run has no checkpoint"
        mark = read_mark(self.path)
        kept = [] if mark is None else self._replaced.kept(mark)
        if kept:
            message += f"; the run that it was to replace is in {kept[0]}"
        if self.settings.inference:
            return f"{message}; train it first"
        if find_checkpoints(self.best):
            message += f"; the policies of its best evaluation are in {self.best}"
        how = "with --force"
        if mark is not None and why_force(self.path, mark) is None:
            how = "without --resume"
        return f"{message}; start it again {how}, and with a lower checkpoint_interval if it may be killed soon again"

    def _is_bare(self) -> bool:
        """Whether the directory holds only what :meth:`open` makes, because a run ended before its first step."""
        if not self.path.is_dir():
            return False
        for entry in self.path.iterdir():
            if is_leftover(entry.name):
                continue
            if entry.name != LOCK:
                return False
            # Locking empties the file: one with another content belongs to another program.
            if not self._lock.held and entry.stat().st_size and not holder(self.path):
                return False
        return True

    # ------------------------------------------------------------ beginning

    def rewind(self, step: int) -> None:
        """Resume from the checkpoint of ``step``, although there are later ones: :meth:`begin` moves them aside."""
        self._rewind_to = step

    def begin(self, nothing_left: bool = False, files: Iterable[str] = ()) -> None:
        """Marks the directory as this run's, after moving away an earlier run that this one replaces.

        Until :meth:`started` is called, :meth:`close` moves the earlier run back. With ``nothing_left`` to learn, the
        mark stays as it is. ``files`` are patterns of files that plugins write.
        """
        if self.settings.inference or self.read_only:
            return
        self.require()  # the directory may have been replaced while the environment was made
        try:
            mark = earlier = read_mark(self.path)
            if self._continuing and mark is not None and not nothing_left:
                # A run that was to replace this one may no longer delete it, because it is in use again.
                mark = attrs.evolve(mark, run=Mark().run)
            if not self._continuing:
                if self._mark is None:  # or an environment has declared files in a new directory
                    mark = Mark() if mark is None else self._make_room(mark)
                self._starting = True
            elif self._rewind_to is not None and self.settings.resume and not nothing_left:
                mark = self._make_room_for_rewinding(earlier, self._rewind_to)
            sweep(self.path)
            if nothing_left and mark is not None:
                self._mark = mark
            else:
                mark = mark or Mark()
                self._set_mark(attrs.evolve(mark, job=self._job, files=_joined(mark.files, files)))
            self.logs.mkdir(exist_ok=True)
            self.write_holds([])  # those of a process that was killed
            for place in (self.logs, self.checkpoints, self.best):
                sweep(place)
        except OSError as error:
            what = error.filename2 or error.filename or self.path
            raise RunStateError(f"{what}: cannot be written to: {error.strerror or error}") from error

    def _make_room(self, earlier: Mark) -> Mark:
        """Takes the name of an earlier run. Returns the mark of the new run."""
        mark = self._replaced.make_room(earlier, self._lock)
        self._starting = True  # only now: where this failed, the directory is still the earlier run's
        if self._replaced.moved_to is not None:
            self._lock = DirectoryLock(self.path)
            self.path.mkdir()
            self._lock.acquire()
        return mark

    def _make_room_for_rewinding(self, earlier: Mark | None, step: int) -> Mark:
        """Moves the run aside, complete, and copies it back up to ``step``. Returns the mark of the copy."""
        if earlier is None:  # the run was copied without its mark
            earlier = Mark()
            write_mark(self.path, earlier)
        mark = attrs.evolve(self._make_room(earlier), files=earlier.files)
        self._set_mark(mark)  # before there is a checkpoint: it names the run that was moved
        assert self._replaced.moved_to is not None
        return attrs.evolve(mark, exports=copy_until(self._replaced.moved_to, self.path, earlier, step))

    def started(self) -> None:
        """Call when the run has started: it keeps the directory."""
        if self.read_only:
            return
        assert self._mark is not None
        self._starting = False
        if self._replaced.moved_to is not None:
            log.info(
                "%s: the run that was here is kept in %s until this one has a regular checkpoint",
                self.path,
                self._replaced.moved_to,
            )

    def declare_files(self, files: Iterable[str]) -> None:
        """Add patterns of files that plugins write to the mark, which a new directory gets now. Raises RunStateError.

        Where another run may be in the directory, :meth:`begin` makes the mark, and adds what was declared before.
        """
        if self._mark is None:
            if not self._lock.held or self._continuing or (self.path / MARK).exists():
                return
            self._mark = Mark()
            self._starting = True
        known = _joined(self._mark.files, files)
        if known != self._mark.files:
            self.require()
            self._change_mark(files=known)

    def write_holds(self, steps: list[int]) -> None:
        """Write for other processes which checkpoints this process holds; the file is there while it holds some."""
        path = self.logs / HOLDS
        try:
            if steps:
                self.write(path, json.dumps({"held": steps}))
            else:
                self.delete(path)
        except OSError as error:
            log.debug("%s: %s", path, error)

    @property
    def exports(self) -> Mapping[str, int | None]:
        """The exported policies, relative to the directory, each with its step; see :class:`Mark`."""
        return {} if self._mark is None else self._mark.exports

    def declare_export(self, relative: str, step: int | None) -> None:
        """Declare the file of an exported policy before it is written, so that it is known to be the run's.

        ``step`` is that of its checkpoint; None for the policy of the end of the run, whose step is declared again when
        the file is complete. Raises RunStateError if the name belongs to another file.
        """
        assert self._mark is not None
        self.require()
        path = self.path / relative
        if path.parent.is_symlink():
            raise RunStateError(f"{path.parent}: is a symbolic link, and a run writes only in its directory; move it")
        is_of_others = relative not in self._mark.exports and os.path.lexists(path)
        if is_of_others or self._mark.declares(relative):
            raise RunStateError(f"{path}: is a file that this run did not export; move it away")
        self._change_mark(exports={**self._mark.exports, relative: step})

    def remove_exports(self, steps: Container[int]) -> None:
        """Delete the exported policies beside checkpoints, except for those of ``steps``.

        Raises RunStateError if a file cannot be deleted; a later call tries again.
        """
        assert self._mark is not None
        if any("/" in name and step not in steps for name, step in self._mark.exports.items()):
            self.require()
            mark = without_exports(self.path, self._mark, lambda step: step not in steps)
            self._change_mark(exports=mark.exports)

    def _change_mark(self, **changes: Any) -> None:
        assert self._mark is not None
        mark = attrs.evolve(self._mark, **changes)
        if mark != self._mark:
            with failing_as(f"{self.path / MARK}"):
                self._set_mark(mark)

    def require(self) -> None:
        """Raises RunStateError if the directory is no longer the one that this process locked."""
        if not self.read_only:
            self._lock.require()

    def write(self, path: Path, text: str) -> None:
        """Replace the file at ``path``, in one step; not in a read-only directory. Raises OSError."""
        if not self.read_only:
            write_atomically(path, text.encode())

    def delete(self, path: Path) -> None:
        """Delete the file at ``path`` if there is one; not in a read-only directory. Raises OSError."""
        if not self.read_only:
            path.unlink(missing_ok=True)

    def regular_checkpoint_written(self) -> None:
        """Deletes the runs that this run replaces: call it after each regular checkpoint.

        A regular checkpoint is one of the interval or of the end of training. One after Ctrl-C, or after a plugin
        failed, deletes no other run.
        """
        if self._mark is None or not self._mark.replaces:
            return
        mark = self._replaced.delete(self._mark)
        with suppress(OSError):  # the next start tries again
            self._set_mark(mark)

    def _set_mark(self, mark: Mark) -> None:
        write_mark(self.path, mark)
        self._mark = mark

    # ------------------------------------------------------------ closing

    def close(self) -> None:
        """Releases the lock. If the run did not start, the directory becomes what it was before, or is removed."""
        try:
            if self._starting:
                self._undo(self._mark or Mark())
            elif self._mark is not None:
                self.write_holds([])
            elif self._lock.held:
                self._remove_if_bare()
            if self._mark is not None:
                for aside in self._replaced.kept(self._mark):
                    log.warning("%s: the run that was here before is still in %s", self.path, aside)
        finally:
            self._starting = False
            self._lock.release()
            self._replaced.release()

    def _remove_if_bare(self) -> None:
        """Removes what :meth:`open` made if nothing was added. The lock is held meanwhile."""
        with suppress(OSError):  # the next start uses what cannot be removed
            if self._is_bare():
                sweep(self.path)
                (self.path / LOCK).unlink(missing_ok=True)
                self.path.rmdir()

    def _undo(self, mark: Mark) -> None:
        """Deletes the files of the run that failed to start, and gives the name back to the earlier run."""
        try:
            self.require()
            if self._replaced.moved_to is not None:
                self._replaced.move_back(mark)
            else:
                # Runs that a process which was killed moved aside: the mark must still name them.
                keep = (LOCK, MARK) if mark.replaces else ()
                remove_own(self.path, mark, keep)
        except (OSError, RunStateError) as error:
            log.warning("%s: cannot be cleared of a run that failed to start: %s", self.path, error)


def _joined(patterns: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*patterns, *more)))
