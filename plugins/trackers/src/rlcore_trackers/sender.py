"""The second process of a tracker: reads the journal, asks the store what it has, and sends the rest.

It ends when the journal has the end of its session, or the process that started it is gone. One sender works on a run
at a time: the lock file is its standard input, which processes inherit that a tracker's library starts
(``wandb-core``). So the next sender asks the store only when nothing writes to it any more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs

from rlcore import RunStateError, python_command
from rlcore_trackers.journal import Places, entries
from rlcore_trackers.lock import replaced
from rlcore_trackers.tracker import SummaryKey, Task, TrackedFile, TrackedSummary, Tracker, text

POLL = 0.2  # seconds between two looks at the journal
# seconds after an error; doubled each time
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0
LAST_TRIES = 6  # after the end of the journal
BATCH = 200  # summaries of one send()
REFUSALS = 3  # of one summary, before the next one is tried


class Moved(Exception):
    """The run directory was moved, removed or replaced; a resume sends the rest from its new place."""


class Sender:
    """Sends the journal of one tracker.

    Attributes:
        ended: The outcome in the journal's end of this session; None before it.
    """

    def __init__(
        self,
        places: Places,
        task: Task,
        session: str | None,
        parent: int | None,
        tell: Callable[[dict[str, Any]], None],
        films: Sequence[TrackedFile] = (),
    ) -> None:
        """``parent`` is the process that has the session and tells its end; without one, the journal is complete.

        ``films`` are sent too, from wherever they are: the user named them. Raises RunStateError as
        :meth:`Places.tracked`.
        """
        self.ended: str | None = None
        self._places = places
        self._session = session
        self._tell = tell
        self._class = task.tracker
        self._tracked = places.tracked(task, parent)
        self._parent = parent
        self._inode = 0
        self._offset = 0
        self._known: dict[SummaryKey, TrackedSummary] = {}
        self._summaries: list[TrackedSummary] = []  # not sent, as far as is known
        self._files: list[TrackedFile] = []
        self._refused: list[TrackedFile] = []
        self._files_sent = self._read_files_sent()
        self._files += [film for film in films if self._key(film) not in self._files_sent]
        self._tracker: Tracker | None = None
        self._one_by_one = 0  # summaries to be sent alone, because a batch with them failed
        self._fails: Counter[SummaryKey] = Counter()
        self._progress = 0  # summaries and files that were sent or refused since the last error
        self._warned = False
        self._refused_summaries: dict[SummaryKey, str] = {}  # by the store, each with its error

    def run(self) -> int:
        """Send until the end. Returns the number of entries that are left."""
        pause = FIRST_PAUSE
        tries = 0
        while True:
            alone = os.getppid() != self._parent  # asked before reading, so that its last line is read
            self._read()
            ending = alone or self.ended is not None
            try:
                self._send()
                pause = FIRST_PAUSE
                tries = 0
                if ending and self._is_finished():
                    return len(self._refused_summaries)
            except Moved:
                raise
            except Exception as error:
                self._note_error(text(error))
                self._close()
                if self._progress:
                    pause = FIRST_PAUSE
                    tries = 0
                    self._progress = 0
                tries += ending
                if tries == LAST_TRIES:
                    left = len(self._summaries) + len(self._files)
                    self._tell({"left": left, "error": f"{left} entries were not sent: {text(error)}"})
                    return left
                self._wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            if not ending:
                time.sleep(POLL)

    def _is_finished(self) -> bool:
        """Finish the run in the tracker if nothing is left to send, and say so; whether nothing is."""
        if self._files or self._summaries:
            return False
        note = self._finish(self.ended or "interrupted")
        left = len(self._refused_summaries)
        end = {"left": left, "note": note}
        if left:
            first = next(iter(self._refused_summaries.values()))
            end["error"] = f"{left} refused by the store: the summary of {first}"
        self._tell(end)
        return True

    def _note_error(self, error: str) -> None:
        """Write an error to the log, and tell the first one."""
        if not self._warned:
            self._tell({"warning": f"{error}; it is tried again, and the training goes on"})
        self._warned = True
        print(f"{time.strftime('%F %T')} {error}", file=sys.stderr, flush=True)

    # ------------------------------------------------------------ the journal

    def _read(self) -> None:
        """Read the lines that were added since the last call."""
        path = self._places.file("jsonl")
        if replaced(self._places.file("lock")):
            raise Moved
        try:
            with path.open("rb") as stream:
                status = os.fstat(stream.fileno())
                if status.st_ino != self._inode or status.st_size < self._offset:
                    self._offset = 0  # the file was removed and begun again
                self._inode = status.st_ino
                stream.seek(self._offset)
                content = stream.read()
        except FileNotFoundError as error:
            raise Moved from error
        complete = content.rfind(b"\n") + 1  # the training may be in the middle of a line
        self._offset += complete
        for entry in entries(content[:complete]):
            if "summary" in entry:
                self._add_summary(entry)
            elif "file" in entry:
                self._add_file(entry)
            elif isinstance(entry.get("end"), str) and entry.get("session") == self._session:
                self.ended = entry["end"]

    def _add_summary(self, entry: Mapping[str, Any]) -> None:
        behavior = entry["summary"]
        step: Any = entry.get("step")
        seconds: Any = entry.get("time")
        if not isinstance(behavior, str) or not _are_numbers(step, seconds):
            return
        means = _numbers_by_tag(entry.get("means"))
        stds = _numbers_by_tag(entry.get("stds"))
        if means is None or stds is None:
            return
        summary = TrackedSummary(
            behavior=behavior,
            step=step,
            time=float(seconds),
            means=means,
            stds=stds,
            index=len(self._known),
        )
        if summary.key not in self._known:
            self._known[summary.key] = summary
            self._summaries.append(summary)

    def _add_file(self, entry: Mapping[str, Any]) -> None:
        """Note a file that is to be sent. The journal names files of the run alone: it may be another person's."""
        kind = entry["file"]
        name = entry.get("path")
        step = entry.get("step")
        if kind not in ("checkpoint", "report") or not isinstance(name, str) or not isinstance(step, int):
            return
        if "\0" in name:  # which no path can have
            return
        file = TrackedFile(kind=kind, path=self._places.directory / name, step=step)
        if self._key(file) in self._files_sent or file in self._files or file in self._refused:
            return
        inside = self._places.inside
        if file.kind == "report" or (inside(file.path) and all(map(inside, file.path.rglob("*")))):
            self._files.append(file)
        else:
            self._refused.append(file)
            self._tell({"warning": f"{name!r} in the journal is outside of the run, and is not sent"})

    def _wait(self, seconds: float) -> None:
        """Wait, but not once the session has ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(min(POLL, seconds))
            before = self.ended
            self._read()
            if before is None and self.ended is not None:
                return

    # ------------------------------------------------------------ the store

    def _send(self) -> None:
        if self._tracker is None:
            module, _, name = self._class.partition(":")
            self._tracker = getattr(import_module(module), name)(self._tracked)
            self._ask()
        tracker = self._tracker
        while self._summaries:
            self._send_summaries(tracker)
        while self._files:
            self._send_file(tracker)

    def _send_summaries(self, tracker: Tracker) -> None:
        """Send the next summaries. One that the store refuses again and again, and no other one, is left out."""
        size = 1 if self._one_by_one else BATCH
        batch = self._summaries[:size]
        try:
            tracker.send(batch)
        except Exception as error:
            self._one_by_one = max(self._one_by_one, len(batch))
            if len(batch) > 1:
                raise
            first = batch[0]
            self._fails[first.key] += 1
            if self._fails[first.key] < REFUSALS or not self._takes_another(tracker):
                raise
            self._summaries.remove(first)
            refused = f"{first.behavior!r} at step {first.step}: {text(error)}"
            self._refused_summaries[first.key] = refused
            self._progress += 1
            self._tell({"warning": f"the summary of {refused}; it is left out, and the others are sent"})
        else:
            del self._summaries[: len(batch)]
            self._progress += len(batch)
            self._one_by_one = max(0, self._one_by_one - len(batch))

    def _takes_another(self, tracker: Tracker) -> bool:
        """Whether the store takes the next summary, or a file; it is not the store that fails then."""
        try:
            if len(self._summaries) > 1:
                tracker.send(self._summaries[1:2])
                del self._summaries[1]
            elif self._files:
                self._send_file(tracker)
            else:
                return False
        except Exception:
            self._fails.clear()
            return False
        return True

    def _send_file(self, tracker: Tracker) -> None:
        file = self._files[0]
        with TemporaryDirectory() as folder:
            path = self._what_is_sent(file, Path(folder))
            if path is not None and path.exists():  # a checkpoint that was deleted meanwhile is beyond keep_checkpoints
                tracker.send_file(attrs.evolve(file, path=path))
                self._note_file(file)
        self._tell({"sent": self._name_of(file)})
        self._files.pop(0)
        self._progress += 1

    def _ask(self) -> None:
        """Let the store say what is left to send."""
        assert self._tracker is not None
        done = self._tracker.sent() | self._refused_summaries.keys()
        self._summaries = [summary for key, summary in self._known.items() if key not in done]

    def _finish(self, outcome: str) -> str:
        """Finish the run in the tracker, and ask the store whether it has everything. Returns the line for the user."""
        assert self._tracker is not None
        note = self._tracker.finish(outcome)
        self._ask()
        self._close()
        if self._summaries:
            raise RuntimeError(f"the store lacks {len(self._summaries)} summaries that were sent")
        return note

    def _close(self) -> None:
        tracker = self._tracker
        self._tracker = None
        if tracker is not None:
            with suppress(Exception):
                tracker.close()

    # ------------------------------------------------------------ files

    def _read_files_sent(self) -> set[str]:
        path = self._places.file("files")
        if not path.exists():
            return set()
        return set(path.read_text("utf-8", errors="replace").split("\n"))

    def _note_file(self, file: TrackedFile) -> None:
        self._files_sent.add(self._key(file))
        with self._places.file("files").open("a", encoding="utf-8") as stream:
            stream.write(self._key(file) + "\n")

    def _name_of(self, file: TrackedFile) -> str:
        """The path of a file as the journal has it."""
        if file.kind == "report":
            return ""
        directory = self._places.directory
        inside = file.path.is_relative_to(directory)
        return str(file.path.relative_to(directory) if inside else file.path)

    def _key(self, file: TrackedFile) -> str:
        return json.dumps([file.kind, self._name_of(file), file.step])

    def _what_is_sent(self, file: TrackedFile, folder: Path) -> Path | None:
        """The path of a file or of what is made of it in ``folder``; None for a checkpoint that is not sent."""
        if file.kind == "report":
            return self._report(folder)
        if file.kind == "checkpoint" and not self._tracked.settings["replay"]:
            try:
                return _without_replay(file.path, folder)
            except RunStateError as error:
                self._tell({"warning": f"checkpoint {file.step} is not sent: {error}"})
                return None
        return file.path

    def _report(self, folder: Path) -> Path:
        """Write the page of the run into ``folder``; what the command says is in the log."""
        page = folder / "report.html"
        command = python_command("-m", "rlcore", "report", str(self._places.directory), "-o", str(page))
        # Not this process's standard input, which is the lock of the run.
        ended = subprocess.run(command, check=False, stdout=sys.stderr, stdin=subprocess.DEVNULL)
        if ended.returncode:
            self._tell({"warning": "the report of the run cannot be made; is rlcore-study[report] installed?"})
        return page


def _without_replay(path: Path, folder: Path) -> Path:
    """Return the checkpoint at ``path``, or a copy in ``folder`` without its replay buffers.

    Only trainers of rlcore-torch save them, so without that package there are none to leave out.
    """
    try:
        from rlcore_torch import without_replay
    except ImportError:
        return path
    return without_replay(path, folder, "replay: true sends it with them")


def _numbers_by_tag(values: Any) -> dict[str, float] | None:
    """Return ``values`` of a journal if they are numbers by tag, else None: the file may be another person's."""
    if not isinstance(values, dict) or not _are_numbers(*values.values()):
        return None
    return values


def _are_numbers(*values: object) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
