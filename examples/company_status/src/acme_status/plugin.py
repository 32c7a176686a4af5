"""Hooks that store the training status of every run in a database, with its starts and its lesson changes."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acme_status import store
from rlcore import hookimpl

if TYPE_CHECKING:
    from rlcore import RunContext
    from rlcore.curriculum import LessonChange

SECTION = "acme"


# ---------------------------------------------------------------- store and load the status


@hookimpl
def rlcore_write_status(status: Mapping[str, Any], directory: Path) -> bool:
    store.write(directory, status)
    return True  # it is stored: rlcore writes no file


@hookimpl
def rlcore_read_status(directory: Path) -> Mapping[str, Any] | None:
    return store.read(directory)  # None: rlcore reads its own file, which older runs have


# ---------------------------------------------------------------- add a section to the status


@hookimpl
def rlcore_report_status(run: RunContext) -> Mapping[str, Mapping[str, Any]]:
    return {SECTION: {"starts": store.starts(logs(run))}}


@hookimpl
def rlcore_restore_status(run: RunContext, sections: Mapping[str, Any]) -> None:
    if run.inference:  # such a run must not write
        return
    step = sum(run.resumed_steps.values())
    store.resume(logs(run), step, sections.get(SECTION, {}).get("starts", []))


# ---------------------------------------------------------------- react to events


@hookimpl
def rlcore_run_started(run: RunContext) -> None:
    if not run.inference:
        run.own_files(f"run_logs/{store.FILE_NAME}*")  # otherwise --force keeps it like a user's file
        store.add_start(logs(run), user_name(), sum(run.resumed_steps.values()))


@hookimpl
def rlcore_lesson_changed(run: RunContext, step: int, change: LessonChange) -> None:
    store.add_lesson(logs(run), step, change)


def logs(run: RunContext) -> Path:
    """Return the directory that rlcore passes to the hooks that write and read the status."""
    return run.directory / "run_logs"


def user_name() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # some containers have no user name
        return "unknown"
