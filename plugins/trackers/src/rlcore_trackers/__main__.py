"""``python -m rlcore_trackers RUN NAME`` sends what a run's journal has and the tracker's store lacks.

The run may be another person's. The tracker is one that an installed plugin registers, only files inside the run are
sent, and where they go is what the user says: in the configuration of ``--config``, or with ``--allow-local``. Without
them, the configuration of the run may only choose what leads nowhere else, such as the name of a project.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlcore import RlcoreError, RunStateError, one_line
from rlcore_trackers.journal import Journal, Places
from rlcore_trackers.lock import take
from rlcore_trackers.sender import Moved, Sender
from rlcore_trackers.task import task_of_user
from rlcore_trackers.tracker import Task, TrackedFile

PATIENCE = 10.0  # seconds that the command waits for another sender
FILMS = (".mp4", ".webm", ".gif")


def main() -> int:
    """Return 0 if the store has everything, 1 if something is left, 2 if there is nothing to read."""
    description, _, _ = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(prog="python -m rlcore_trackers", description=description)
    parser.add_argument("run", type=Path, help="the run directory")
    parser.add_argument("name", help="the tracker: wandb, mlflow or trackio")
    parser.add_argument(
        "--video", type=Path, action="append", default=[], help="also send a film, or a folder of films"
    )
    parser.add_argument("--config", type=Path, help="take stats.NAME from this file in place of the run's own")
    parser.add_argument(
        "--allow-local", action="store_true", help="use the store that the run itself names, and its local plugins"
    )
    parser.add_argument("--session", help=argparse.SUPPRESS)
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    places = Places(options.run.absolute(), options.name)
    about = places.file("json")
    if not about.exists():
        print(f"{about}: there is none; the run was not tracked with {options.name}", file=sys.stderr)
        return 2
    films = _films(places, options.video)
    if options.video and not films:
        print("--video: there is no film with the ending mp4, webm or gif", file=sys.stderr)
        return 2
    if options.session:
        task = Task(**json.load(sys.stdin.buffer))  # of the run, before the lock becomes the standard input
    else:
        try:
            task = task_of_user(places, options.config, options.allow_local)
        except RlcoreError as error:
            print(f"error: {one_line(error)}", file=sys.stderr)
            return 2
    tell = _messages() if options.session else _print
    # A sender of an earlier process may still be at work, and its program of the tracker's library too.
    until = time.monotonic() + PATIENCE

    def waiting() -> bool:
        if options.session:
            return bool(os.getppid() == options.parent)  # as long as the training is there
        return time.monotonic() < until

    if not take(places.file("lock"), waiting):
        print("another process is sending the journal of this run, new entries too", file=sys.stderr)
        return 1
    try:
        sender = Sender(places, task, options.session, options.parent, tell, films)
        left = sender.run()
        return 1 if left else 0
    except RunStateError as error:
        tell({"warning": one_line(error)})
        return 2
    except Moved:
        tell({"warning": f"{places.folder}: was moved or removed; a resume sends the rest"})
        return 1


def _films(places: Places, paths: list[Path]) -> list[TrackedFile]:
    """The films among ``paths`` and in its folders, at the last step that the journal has."""
    if not paths:
        return []
    journal = Journal(places)
    step = max((step for _, step in journal.keys), default=0)
    journal.close()
    films = []
    for path in paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.suffix.lower() in FILMS and file.is_file():
                films.append(TrackedFile(kind="video", path=file.absolute(), step=step))
    return films


def _messages() -> Any:
    """Keep standard output for messages to the process that started this one; what libraries print goes to the log."""
    stream = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def tell(message: dict[str, Any]) -> None:
        with suppress(OSError):  # that process is gone
            stream.write(json.dumps(message).encode() + b"\n")

    return tell


def _print(message: dict[str, Any]) -> None:
    for key in ("warning", "error", "note"):
        if message.get(key):
            print(message[key], file=sys.stderr if key != "note" else sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
