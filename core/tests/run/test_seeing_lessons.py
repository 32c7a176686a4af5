"""Where environment parameters stand, as people see it: console line, progress bar, ``rlcore status``."""

from __future__ import annotations

import io
import re
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from rlcore.cli.progress import _follow, progress_bar
from rlcore.cli.status import HEADINGS, parameter_rows, print_parameters
from rlcore.config.reading import document_from_mapping
from rlcore.run.run import Run

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_curriculum.py")]
PACED: dict[str, Any] = {
    "plugins.local": STUBS,
    "environment.type": "paced",
    "environment_parameters.pace": {"curriculum": {"type": "stages", "every": 5}},
}
CASES = yaml.safe_load((Path(__file__).parent / "data/lessons.yaml").read_text(encoding="utf-8"))
LESSONS = CASES["parameters"]["lessons"]
BOTH = {**PACED, "environment_parameters.pay": {"curriculum": {"type": "lessons", "every": 20}}}
LONE = {**PACED, "environment_parameters.pay": 2.0}


# ---------------------------------------------------------------- progress bar


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


# ---------------------------------------------------------------- rlcore status


@pytest.mark.parametrize("case", CASES["rows"], ids=str)
def test_a_parameter_is_shown_with_what_its_lesson_is_waiting_for(case: Any) -> None:
    parameters = {"length": CASES["parameters"][case["parameter"]]}
    document = document_from_mapping({"environment_parameters": parameters})
    ((name, *cells),) = parameter_rows(document, {"length": case["section"]})
    assert name == "length" and cells == case["cells"]


def test_the_table_takes_names_literally(capsys: pytest.CaptureFixture[str]) -> None:
    document = document_from_mapping({"environment_parameters": {"[red]big_wall_height": LESSONS}})
    print_parameters(document, {"[red]big_wall_height": CASES["table"]["section"], "metadata": {"run_steps": 5000}})
    first, headings, row = capsys.readouterr().out.splitlines()
    assert first == "environment parameters at step 5000:"
    assert re.split("  +", headings) == list(HEADINGS) and re.split("  +", row) == CASES["table"]["cells"]
