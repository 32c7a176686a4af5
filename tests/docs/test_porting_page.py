"""The tables of the pages about porting a plugin: each new name is there, and no old one is."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest
from workspace import ROOT

pytestmark = pytest.mark.documentation

PAGES = (ROOT / f"docs/how-to/{name}.md" for name in ("porting", "porting-rules"))
TABLES = "".join(page.read_text(encoding="utf-8") for page in PAGES)
MOVES = re.findall(r"^\| `(rlcore[\w.]*)` \| `(rlcore[\w.]*)` \|$", TABLES, re.MULTILINE)


def found(dotted: str) -> Any:
    """The object of this name; AttributeError without one."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value = import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            value = getattr(value, part)
        return value
    raise AttributeError(dotted)


def test_each_move_is_from_a_name_that_is_gone_to_one_that_is_there() -> None:
    pytest.importorskip("torch", reason="has names of rlcore_torch")
    assert len(MOVES) > 60
    for before, now in MOVES:
        assert found(now) is not None
        with pytest.raises(AttributeError):
            found(before)
