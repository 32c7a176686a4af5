"""The directory of one run: where things are, who may write there, and when it may be taken over."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from filelock import FileLock, Timeout

from rlcore.config import CheckpointSettings
from rlcore.errors import ConfigError, RunStateError

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# A directory without this file is not ours to delete.
CONFIGURATION = "configuration.yaml"
LOCK = ".lock"


class RunDirectory:
    """``results_dir/run_id`` and its lock, which the operating system frees when the process dies."""

    def __init__(self, settings: CheckpointSettings) -> None:
        if not RUN_ID.fullmatch(settings.run_id) or ".." in settings.run_id:
            raise ConfigError(
                f"checkpoint_settings.run_id: {settings.run_id!r} must match {RUN_ID.pattern} and not contain '..'"
            )
        self.settings = settings
        self.path = Path(settings.results_dir) / settings.run_id
        self._lock = FileLock(self.path / LOCK)

    @property
    def configuration(self) -> Path:
        return self.path / CONFIGURATION

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def logs(self) -> Path:
        return self.path / "run_logs"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    def open(self) -> None:
        """Makes or takes over the directory as the settings say, and locks it. Raises RunStateError."""
        try:
            self._check()
            self.logs.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise RunStateError(f"{self.path}: another process is writing to this run; wait or stop it") from error
        except OSError as error:
            raise RunStateError(f"{self.path}: cannot be written to: {error.strerror or error}") from error
        try:
            self._check()  # another process may have begun, and ended, a run since we looked
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
        exists = self.configuration.is_file()
        if self._continuing and not exists:
            raise RunStateError(f"{self.path}: there is no run to go on with; start it without --resume")
        if exists and not self._continuing and not self.settings.force:
            raise RunStateError(
                f"{self.path}: this run exists; go on with it (--resume), replace it (--force) or choose another "
                "--run-id"
            )
        if not exists and self.path.exists() and not self._is_bare():
            raise RunStateError(f"{self.path}: exists and is not a run of rlcore; choose another --run-id")

    def _is_bare(self) -> bool:
        """Whether nothing is there but what opening makes: a run that was refused before its first step."""
        entries = {entry.name for entry in self.path.iterdir()}
        return entries <= {LOCK, self.logs.name} and not (self.logs.is_dir() and any(self.logs.iterdir()))

    def close(self) -> None:
        self._lock.release()

    def begin(self) -> None:
        """Deletes what an earlier run left, if this one replaces it; the lock stays, it is ours.

        Called when nothing can keep the new run from starting any more: a start that fails costs no old run.
        """
        if not self.settings.force or self._continuing:
            return
        try:
            for entry in self.path.iterdir():
                if entry.name == LOCK:
                    continue
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
            self.logs.mkdir()
        except OSError as error:
            raise RunStateError(f"{self.path}: cannot be emptied: {error.strerror or error}") from error
