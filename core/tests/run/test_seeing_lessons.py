"""Where environment parameters stand, as people see it: console line, progress bar."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rlcore.cli.progress import _follow, progress_bar
from rlcore.run.run import Run

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_curriculum.py")]
PACED: dict[str, Any] = {
    "plugins.local": STUBS,
    "environment.type": "paced",
    "environment_parameters.pace": {"curriculum": {"type": "stages", "every": 5}},
}
BOTH = {**PACED, "environment_parameters.pay": {"curriculum": {"type": "lessons", "every": 20}}}
LONE = {**PACED, "environment_parameters.pay": 2.0}


def bar_of(run: Run) -> str:
    """The progress bar of a run, drawn once."""
    console = Console(file=io.StringIO(), width=120)
    done = threading.Event()
    done.set()
    progress = progress_bar(console)
    _follow(run, progress, done)
    with console.capture() as capture:
        console.print(progress.get_renderable())
    return capture.get().strip()


@pytest.mark.parametrize(
    ("changes", "first", "lessons"),
    [
        (BOTH, " lesson pace 0, pay 0 ", " lesson pace 3, pay 1 "),
        (LONE, " lesson pace 0 ", " lesson pace 3 "),
        ({}, None, None),
    ],
)
def test_the_progress_bar_tells_the_lessons_as_they_are(
    make_run: Any, changes: dict[str, Any], first: str | None, lessons: str | None
) -> None:
    run = make_run(changes)
    run.start()
    drawn = bar_of(run)
    assert "lesson" not in drawn if first is None else first in drawn
    run.train()
    drawn = bar_of(run)
    assert "lesson" not in drawn if lessons is None else lessons in drawn
