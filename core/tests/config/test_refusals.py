"""Every refusal of ``data/refusals.yaml``: what is written, and each line of the answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

RULES = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))
CASES = [
    pytest.param(case, id=f"{rule} {index}" if index else rule)
    for rule, cases in RULES.items()
    for index, case in enumerate(cases)
]


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused_has_these_lines(errors: Callable[..., list[str]], case: dict[str, Any]) -> None:
    flags = {tuple(key.split(".")): value for key, value in case.get("flags", {}).items()}
    found = errors(case["input"], case.get("sets", ()), flags)
    assert [re.sub(r"\(allowed: [^)]*\)", "(allowed: ...)", line) for line in found] == case["lines"]
