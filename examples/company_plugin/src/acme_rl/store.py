"""The database of one run, ``run_logs/status.db``. The file is moved and deleted together with the run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore import RunStateError

if TYPE_CHECKING:
    from rlcore import LessonChange

FILE_NAME = "status.db"
# status: one row per checkpoint; starts: one row per process; lessons: one row per lesson change.
TABLES = """
CREATE TABLE IF NOT EXISTS status (step INTEGER PRIMARY KEY, at TEXT, document TEXT);
CREATE TABLE IF NOT EXISTS starts (at TEXT, user TEXT, step INTEGER);
CREATE TABLE IF NOT EXISTS lessons (
    step INTEGER, parameter TEXT, lesson INTEGER, name TEXT, previous INTEGER, previous_name TEXT
);
"""


@contextmanager
def opened(directory: Path) -> Iterator[sqlite3.Connection]:
    """Open one transaction, which stores everything or nothing. Raises RunStateError if SQLite fails."""
    try:
        with closing(sqlite3.connect(directory / FILE_NAME)) as database:
            database.executescript(TABLES)
            with database:
                yield database
    except sqlite3.Error as error:
        raise unusable(directory, error) from error


def unusable(directory: Path, error: Exception) -> RunStateError:
    """Return an error of one line with the solution: checkpoints contain everything in the status."""
    path = directory / FILE_NAME
    return RunStateError(f"{path}: {error}; restore it from a backup, or delete it: checkpoints hold the status")


def write(directory: Path, status: Mapping[str, Any]) -> None:
    with opened(directory) as database:
        step = status["metadata"]["run_steps"]
        row = (step, now(), json.dumps(status))
        database.execute("INSERT OR REPLACE INTO status VALUES (?, ?, ?)", row)


def read(directory: Path) -> Mapping[str, Any] | None:
    """Return the status of the latest checkpoint; None before the first checkpoint."""
    if not (directory / FILE_NAME).exists():
        return None
    with opened(directory) as database:
        row = database.execute("SELECT document FROM status ORDER BY step DESC LIMIT 1").fetchone()
    if row is None:
        return None
    (document,) = row
    try:
        status: Mapping[str, Any] = json.loads(document)
    except ValueError as error:
        raise unusable(directory, error) from error
    return status


def starts(directory: Path) -> list[dict[str, Any]]:
    """Return the time, user and step of each process that started or resumed the run."""
    with opened(directory) as database:
        rows = database.execute("SELECT at, user, step FROM starts ORDER BY rowid").fetchall()
    return [{"at": at, "user": user, "step": step} for at, user, step in rows]


def add_start(directory: Path, user: str, step: int) -> None:
    with opened(directory) as database:
        database.execute("INSERT INTO starts VALUES (?, ?, ?)", (now(), user, step))


def add_lesson(directory: Path, step: int, change: LessonChange) -> None:
    row = (step, change.parameter, change.lesson, change.name, change.previous, change.previous_name)
    with opened(directory) as database:
        database.execute("INSERT INTO lessons VALUES (?, ?, ?, ?, ?, ?)", row)


def resume(directory: Path, step: int, known_starts: Sequence[Mapping[str, Any]]) -> None:
    """Drop rows after ``step``, the step of the checkpoint from which the run resumes: the run repeats these steps.

    ``known_starts`` are the starts in the checkpoint. They fill the table if the database was lost.
    """
    with opened(directory) as database:
        database.execute("DELETE FROM lessons WHERE step > ?", (step,))
        database.execute("DELETE FROM status WHERE step > ?", (step,))
        if database.execute("SELECT count(*) FROM starts").fetchone() == (0,):
            rows = [(start["at"], start["user"], start["step"]) for start in known_starts]
            database.executemany("INSERT INTO starts VALUES (?, ?, ?)", rows)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
