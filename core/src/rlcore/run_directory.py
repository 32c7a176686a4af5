"""The directory of one run: where things are, who may write there, and when it may be taken over."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from rlcore.checkpoint import find_checkpoints, is_leftover, sweep
from rlcore.config import CheckpointSettings
from rlcore.config.names import name_problem
from rlcore.errors import ConfigError, RunStateError
from rlcore.paths import user_path, working_directory

log = logging.getLogger(__name__)

# A directory without this file is not ours to delete.
CONFIGURATION = "configuration.yaml"
LOCK = ".lock"
CHECKPOINTS = "checkpoints"
BEST = "best"
# What a run that is being replaced is moved into until the new one has started.
ASIDE = ".old-"


class RunDirectory:
    """``results_dir/run_id`` and its lock, which the operating system frees when the process dies."""

    def __init__(self, settings: CheckpointSettings) -> None:
        problem = name_problem("a run id", settings.run_id)
        if problem:
            raise ConfigError(f"checkpoint_settings.run_id: {problem}")
        self.settings = settings
        self.working_directory = working_directory()  # which an environment may change later
        self.path = self.working_directory / user_path(settings.results_dir) / settings.run_id
        self._lock = FileLock(self.path / LOCK)
        self._starting = False  # the new run has begun to write and may still fail to start

    @property
    def configuration(self) -> Path:
        return self.path / CONFIGURATION

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    @property
    def best(self) -> Path:
        """Where the policies of the best evaluation are, a directory beside the checkpoints of the run."""
        return self.checkpoints / BEST

    @property
    def logs(self) -> Path:
        return self.path / "run_logs"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    def open(self) -> None:
        """Makes or takes over the directory as the settings say, and locks it. Raises RunStateError.

        Under ``inference`` it is read only: nothing is made or locked, so that a run may be watched while it trains.
        """
        try:
            self._check()
            if self.settings.inference:
                return
            self.logs.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0.2, poll_interval=0.05)  # is_locked() holds it for a moment
        except Timeout as error:
            raise RunStateError(f"{self.path}: another process is writing to this run; wait or stop it") from error
        except OSError as error:
            raise RunStateError(f"{self.path}: cannot be written to: {error.strerror or error}") from error
        try:
            self._undo()  # what a killed process began
            self._check()  # another process may have begun, and ended, a run since we looked
            for place in (self.path, self.logs, self.checkpoints, self.best):
                sweep(place)
        except BaseException:
            self._lock.release()
            raise

    @property
    def _continuing(self) -> bool:
        return self.settings.resume or self.settings.inference

    def _check(self) -> None:
        """Raises RunStateError where there is, or is not, a run."""
        if self.path.is_symlink():
            raise RunStateError(f"{self.path}: is a symbolic link; name the run's real directory")
        exists = self.configuration.is_file() or bool(self._set_aside() and not self.settings.inference)
        if self._continuing and not exists:
            option = "--resume" if self.settings.resume else "--inference"
            raise RunStateError(f"{self.path}: there is no run to go on with; start it without {option}")
        if exists and not self._continuing and not self.settings.force and self._has_checkpoint():
            raise RunStateError(
                f"{self.path}: this run exists; go on with it (--resume), replace it (--force) or choose another "
                "--run-id"
            )
        if not exists and self.path.exists() and not self._is_bare():
            raise RunStateError(f"{self.path}: exists and is not a run of rlcore; choose another --run-id")

    def _is_bare(self) -> bool:
        """Whether nothing is there but what opening makes: a run that was refused, or killed, before its first step."""
        entries = {entry.name for entry in self.path.iterdir() if not is_leftover(entry.name)}
        return entries <= {LOCK, self.logs.name} and not (self.logs.is_dir() and any(self.logs.iterdir()))

    def _has_checkpoint(self) -> bool:
        """Whether an earlier run has anything that could not be had again by starting it once more."""
        return any(find_checkpoints(place / self.checkpoints.name) for place in (self.path, *self._set_aside()))

    def begin(self) -> None:
        """Moves an earlier run aside, if this one replaces it. Until :meth:`started`, closing brings it back."""
        if self._continuing:
            return
        self._starting = True
        if not self.configuration.is_file():
            return
        aside = self.path / f"{ASIDE}{os.getpid()}"
        try:
            aside.mkdir()
            # The configuration last: where it is tells, after a kill, whose the other entries are.
            for entry in sorted(self._entries(), key=lambda entry: entry == self.configuration):
                entry.rename(aside / entry.name)
            self.logs.mkdir()
        except OSError as error:
            raise RunStateError(f"{self.path}: cannot be emptied: {error.strerror or error}") from error

    def started(self) -> None:
        """Deletes what was moved aside: nothing can keep the new run from starting any more."""
        self._starting = False
        for aside in self._set_aside():
            doomed = self.path / f".tmp{aside.name}"
            try:
                aside.rename(doomed)  # a deletion that is cut short must not be brought back
                remove(doomed)
            except OSError as error:
                log.warning("%s: the run that was replaced cannot be deleted: %s", aside, error.strerror or error)

    def close(self) -> None:
        """Frees the lock; a run that began and never started leaves the directory as it was, or none."""
        try:
            if self._starting:
                self._undo()
            if self._lock.is_locked:
                self._unmake()
        except RunStateError as error:
            log.warning("%s; the next start tries again", error)
        finally:
            self._starting = False
            self._lock.release()

    def _unmake(self) -> None:
        """Removes what opening made where nothing else came of it. While the lock is held: who waits for it retries."""
        with suppress(OSError):  # what cannot be removed is taken over by the next start
            if self._is_bare():
                if self.logs.is_dir():
                    self.logs.rmdir()
                (self.path / LOCK).unlink(missing_ok=True)
                self.path.rmdir()

    def _undo(self) -> None:
        """Undoes :meth:`begin`, which may have been cut short, as may an earlier attempt to undo it."""
        try:
            replaced = self._set_aside()
            if self._starting and not replaced:
                for entry in self._entries():
                    remove(entry)
            for aside in replaced:
                configuration = aside / CONFIGURATION
                if configuration.is_file():  # all was moved, so what stands here is the new run's
                    for entry in self._entries():
                        remove(entry)
                    configuration.rename(self.configuration)
                for entry in aside.iterdir():
                    if entry.name == self.logs.name and self.logs.is_dir():
                        self.logs.rmdir()  # opening made it
                    entry.rename(self.path / entry.name)
                aside.rmdir()
        except OSError as error:
            raise RunStateError(
                f"{self.path}: the run that was to be replaced cannot be brought back: {error.strerror or error}"
            ) from error

    def _entries(self) -> list[Path]:
        """All that belongs to a run that stands here."""
        return [entry for entry in self.path.iterdir() if entry.name != LOCK and not entry.name.startswith(ASIDE)]

    def _set_aside(self) -> list[Path]:
        """What runs that were killed, or are, between :meth:`begin` and :meth:`started` moved aside."""
        return sorted(self.path.glob(f"{ASIDE}*"))


def is_locked(directory: Path) -> bool:
    """Whether a process holds the lock of the run in ``directory``; nothing is made there to find out."""
    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)  # which frees what was locked
    return False


def written_configuration(directory: Path) -> Path | None:
    """The configuration of the run in ``directory``, also where a start that was killed had moved it aside."""
    places = [directory / CONFIGURATION, *sorted(directory.glob(f"{ASIDE}*/{CONFIGURATION}"))]
    return next((place for place in places if place.is_file()), None)


def remove(path: Path) -> None:
    """Deletes a file, a link or a whole directory."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
