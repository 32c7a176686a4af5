"""``python -m rlcore_trackers RUN NAME`` sends what a run's journal has and the tracker's store lacks."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlcore_trackers.journal import Journal, Places
from rlcore_trackers.lock import take
from rlcore_trackers.sender import Moved, Sender

PATIENCE = 10.0  # seconds that the command waits for another sender
FILMS = (".mp4", ".webm", ".gif")


def main() -> int:
    """Return 0 if the store has everything, 1 if something is left, 2 if there is nothing to read."""
    parser = argparse.ArgumentParser(prog="python -m rlcore_trackers", description=__doc__)
    parser.add_argument("run", type=Path, help="the run directory")
    parser.add_argument("name", help="the tracker: wandb, mlflow or trackio")
    parser.add_argument(
        "--video", type=Path, action="append", default=[], help="also send a film, or a folder of films"
    )
    parser.add_argument("--session", help=argparse.SUPPRESS)
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    places = Places(options.run.absolute(), options.name)
    if not places.file("json").exists():
        print(f"{places.file('json')}: there is none; the run was not tracked with {options.name}", file=sys.stderr)
        return 2
    if options.video and not _journal_films(places, options.video):
        print("--video: there is no film with the ending mp4, webm or gif", file=sys.stderr)
        return 2
    tell = _messages() if options.session else _print
    # A sender of an earlier process may still be at work, and its program of the tracker's library too.
    until = time.monotonic() + PATIENCE
    waiting = (lambda: os.getppid() == options.parent) if options.session else (lambda: time.monotonic() < until)
    if not take(places.file("lock"), waiting):
        print("another process is sending the journal of this run, new entries too", file=sys.stderr)
        return 1
    try:
        return 1 if Sender(places, options.session, options.parent, tell).run() else 0
    except Moved:
        tell({"warning": f"{places.folder}: was moved or removed; a resume sends the rest"})
        return 1


def _journal_films(places: Places, paths: list[Path]) -> int:
    """Journal the films among ``paths`` and in its folders. Returns their number."""
    journal = Journal(places)
    step = max((step for _, step in journal.keys), default=0)
    found = [film for path in paths for film in (sorted(path.iterdir()) if path.is_dir() else [path])]
    films = [film for film in found if film.suffix.lower() in FILMS and film.is_file()]
    for film in films:
        journal.append({"file": "video", "path": str(film.absolute()), "step": step})
    journal.close()
    return len(films)


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
