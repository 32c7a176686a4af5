"""Keeps the training status of every run in a database, with who started it and which lessons came when."""

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


# ---------------------------------------------------------------- where the status is kept


@hookimpl
def rlcore_write_status(status: Mapping[str, Any], directory: Path) -> bool:
    store.write(directory, status)
    return True  # it is stored: rlcore writes no file


@hookimpl
def rlcore_read_status(directory: Path) -> Mapping[str, Any] | None:
    return store.read(directory)  # None: rlcore looks for its file, which a run from before may have


# ---------------------------------------------------------------- a section of our own


@hookimpl
def rlcore_report_status(run: RunContext) -> Mapping[str, Mapping[str, Any]]:
    return {SECTION: {"starts": store.starts(logs(run))}}


@hookimpl
def rlcore_restore_status(run: RunContext, sections: Mapping[str, Any]) -> None:
    if run.inference:  # such a run only reads
        return
    step = sum(run.resumed_steps.values())
    store.forget_after(logs(run), step, sections.get(SECTION, {}).get("starts", []))


# ---------------------------------------------------------------- what happens


@hookimpl
def rlcore_run_started(run: RunContext) -> None:
    if not run.inference:
        run.own_files(f"run_logs/{store.FILE_NAME}*")  # or --force would keep it, as it keeps files of users
        store.add_start(logs(run), person(), sum(run.resumed_steps.values()))


@hookimpl
def rlcore_lesson_changed(run: RunContext, step: int, change: LessonChange) -> None:
    store.add_lesson(logs(run), step, change)


def logs(run: RunContext) -> Path:
    """The directory that rlcore passes to the hooks that write and read the status."""
    return run.directory / "run_logs"


def person() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # some containers have no user names
        return "unknown"
