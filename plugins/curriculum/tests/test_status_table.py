"""Where environment parameters stand, as ``rlcore status`` shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore_curriculum.plugin import rlcore_status_printed
from rlcore_curriculum.status_table import HEADINGS, parameter_rows, print_parameters

CASES = yaml.safe_load((Path(__file__).parent / "data/status_table.yaml").read_text(encoding="utf-8"))
PARAMETERS = CASES["parameters"]
LESSONS = PARAMETERS["lessons"]


@pytest.mark.parametrize("case", CASES["rows"], ids=str)
def test_a_parameter_is_shown_with_what_its_lesson_is_waiting_for(case: Any) -> None:
    configuration = {"environment_parameters": {"length": PARAMETERS[case["parameter"]]}}
    ((name, *cells),) = parameter_rows(configuration, {"length": case["section"]})
    assert name == "length" and cells == case["cells"]


def test_the_table_takes_names_literally(capsys: pytest.CaptureFixture[str]) -> None:
    configuration = {"environment_parameters": {"[red]big_wall_height": LESSONS}}
    status = {"[red]big_wall_height": CASES["table"]["section"], "metadata": {"run_steps": 5000}}
    print_parameters(configuration, status)
    first, headings, row = capsys.readouterr().out.splitlines()
    assert first == "environment parameters at step 5000:"
    assert re.split("  +", headings) == list(HEADINGS) and re.split("  +", row) == CASES["table"]["cells"]


def test_before_the_first_checkpoint_there_is_a_line_instead(capsys: pytest.CaptureFixture[str]) -> None:
    rlcore_status_printed({"environment_parameters": {"length": LESSONS}}, {})
    rlcore_status_printed({}, {})
    assert capsys.readouterr().out == "environment parameters: shown from the first checkpoint on\n"
