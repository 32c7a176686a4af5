"""The part of a tracker in the process of a training: it writes the journal, and starts the sender."""

from __future__ import annotations

import json
import logging
import math
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import TYPE_CHECKING, Any

import attrs

from rlcore import CheckpointHold, StatSummary, dump_config, foreign_values, python_command
from rlcore_trackers.git_state import git_state
from rlcore_trackers.journal import Journal, Places
from rlcore_trackers.settings import TrackerSettings
from rlcore_trackers.tracker import Task

if TYPE_CHECKING:
    from rlcore import RunContext

HIDDEN = frozenset({"Step", "Is Training"})  # as in TensorBoard's writer: the step is the axis of every chart
MAX_STARTS = 3  # of the sender in one run; a sender that ends too early is killed by something else
MAX_HELD = 2  # checkpoints that wait for being sent


class TrackerWriter:
    """Journals each summary once, and has a second process send the journal to the tracker."""

    def __init__(self, name: str, tracker: str, settings: TrackerSettings, run: RunContext) -> None:
        """``tracker`` is the class of the tracker, as ``"package.module:Name"``; see :class:`rlcore_trackers.Tracker`.

        Raises RunStateError if the journal of a resumed run cannot be read.
        """
        self.settings = settings
        self.outcome = "interrupted"
        self._name = name
        self._run = run
        self._log = run.logger(name)
        self._places = Places(run.directory, name)
        run.own_files(*self._places.patterns)
        self._journal = Journal(self._places)
        self._places.write_about(git_state(run.working_directory) if settings.system_info else None)
        self._task = Task(tracker=tracker, settings=attrs.asdict(settings), configuration=dump_config(run.config))
        self._session = secrets.token_hex(8)
        self._starts = 0
        self._warned = False
        self._sender: subprocess.Popen[bytes] | None = None
        self._listener: Thread | None = None
        self._end: dict[str, Any] = {}
        self._holds: dict[str, CheckpointHold] = {}
        self._last: tuple[int, Path] | None = None
        self._start()

    # ------------------------------------------------------------ what a run has to tell

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        """Journal a summary, unless an earlier process of this run did: a resumed run repeats steps exactly."""
        if (behavior, step) in self._journal.keys:
            return
        self._journal.keys.add((behavior, step))
        means = {}
        stds = {}
        for tag, stat in stats.items():
            if tag in HIDDEN:
                continue
            # JSON has no numbers that are not finite.
            if math.isfinite(stat.mean):
                means[tag] = stat.mean
            # The deviation of one value is 0, which says nothing.
            if stat.count > 1 and math.isfinite(stat.std):
                stds[tag] = stat.std
        now = round(time.time(), 3)
        self._append({"summary": behavior, "step": step, "time": now, "means": means, "stds": stds})
        if self._sender is not None and self._sender.poll() is not None:
            self._start()

    def flush(self) -> None:
        """Have the disk store the journal, which is the truth about what the tracker is to have."""
        self._journal.sync()

    def checkpoint_saved(self, step: int, path: Path) -> None:
        """Journal a checkpoint if all are wanted, and keep it from being deleted until it was sent."""
        self._last = (step, path)
        if self.settings.checkpoints == "all":
            relative = self._relative(path)
            while len(self._holds) >= MAX_HELD:
                self._release(next(iter(self._holds)))
            self._holds[relative] = self._run.hold_checkpoint(step)
            self._append({"file": "checkpoint", "path": relative, "step": step})

    def run_finished(self, outcome: str) -> None:
        """Journal what is kept at the end of a run."""
        self.outcome = outcome
        if self._last is not None and self.settings.checkpoints == "last":
            step, path = self._last
            self._append({"file": "checkpoint", "path": self._relative(path), "step": step})
        if self.settings.report:
            step = 0 if self._last is None else self._last[0]
            self._append({"file": "report", "path": "", "step": step})

    def close(self) -> None:
        """Wait until everything was sent, for a limited time. What is left is sent when the run is resumed."""
        self._append({"end": self.outcome, "session": self._session})
        try:
            if self._sender is None:
                return
            try:
                self._sender.wait(self.settings.finish_timeout)
            except subprocess.TimeoutExpired:
                self._kill()
                self._left("did not finish in time")
            else:
                if self._listener is not None:
                    self._listener.join(5.0)
                self._report_end()
        finally:
            self._journal.close()
            for path in list(self._holds):
                self._release(path)

    # ------------------------------------------------------------ inside

    def _report_end(self) -> None:
        if "left" not in self._end:
            self._left(f"ended early; see {self._places.file('log')}")
        elif self._end["left"] or self._journal.waiting:
            self._left(self._end.get("error") or "could not send everything")
        elif self._end["note"]:
            self._log.info("%s", self._end["note"])

    def _left(self, reason: str) -> None:
        # The command asks whoever gives it to trust a run that names a store; this process knows the run.
        trusted = " --allow-local" if any(foreign_values(self.settings)) else ""
        self._log.warning(
            "%s; the journal in %s has what was not sent: 'python -m rlcore_trackers %s %s%s' sends it, and so does a "
            "resume",
            reason,
            self._places.folder,
            self._run.directory,
            self._name,
            trusted,
        )

    def _relative(self, path: Path) -> str:
        directory = self._run.directory
        return str(path.relative_to(directory) if path.is_relative_to(directory) else path)

    def _append(self, entry: Mapping[str, Any]) -> None:
        try:
            self._journal.append(entry)
        except OSError as error:
            self._warn(f"the journal cannot be written: {error.strerror or error}; it is tried again at each summary")

    def _warn(self, message: str) -> None:
        """Warn once in a run."""
        level = logging.DEBUG if self._warned else logging.WARNING
        self._log.log(level, "%s", message)
        self._warned = True

    def _start(self) -> None:
        if self._starts == MAX_STARTS:
            return
        self._starts += 1
        command = python_command("-m", "rlcore_trackers", str(self._run.directory), self._name)
        try:
            # A file, because a pipe would have the training wait until the sender has started. It has no name, so
            # that no password in the settings is left behind.
            with self._places.file("log").open("ab") as log, TemporaryFile() as task:
                task.write(json.dumps(attrs.asdict(self._task)).encode())
                task.seek(0)
                self._sender = subprocess.Popen(
                    [*command, "--session", self._session, "--parent", str(os.getpid())],
                    stdin=task,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError as error:
            self._warn(f"the process that sends cannot be started: {error}; the journal is sent later")
            return
        self._listener = Thread(target=self._listen, args=(self._sender,), name=f"rlcore-{self._name}", daemon=True)
        self._listener.start()

    def _listen(self, sender: subprocess.Popen[bytes]) -> None:
        """Read the messages of the sender until it ends."""
        assert sender.stdout is not None
        with sender.stdout as stream:
            for line in stream:
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                if "warning" in message:
                    self._warn(message["warning"])
                if "sent" in message:
                    self._release(message["sent"])
                if "left" in message:
                    self._end = message

    def _release(self, path: str) -> None:
        hold = self._holds.pop(path, None)
        if hold is not None:
            hold.release()

    def _kill(self) -> None:
        """End the sender and the processes of its session."""
        assert self._sender is not None
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._sender.pid, signal.SIGKILL)
            else:
                self._sender.kill()
        self._sender.wait()
