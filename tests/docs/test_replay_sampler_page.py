"""The replay sampler that a page shows keeps the rules of samplers, by the test that the page shows."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from pages import RunPage, blocks

pytestmark = pytest.mark.documentation


def test_the_page_runs_and_its_sampler_keeps_the_rules_of_samplers(
    run_page: RunPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_page("docs/how-to/replay-sampler.md")
    files = {b.title: b.text for b in blocks("python") if b.page == "docs/how-to/replay-sampler.md" and b.title}
    assert sorted(files) == ["recency.py", "recency_sampler.py", "test_recency.py"]
    for title, text in files.items():
        (tmp_path / title).write_text(text)
        monkeypatch.delitem(sys.modules, title.removesuffix(".py"), raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    made = importlib.import_module("test_recency").TestRecency()
    tests = [getattr(made, name) for name in dir(made) if name.startswith("test_")]
    assert len(tests) == 7
    for number, test in enumerate(tests):
        made.directory = tmp_path / str(number)
        [name, values] = test.pytestmark[0].args if hasattr(test, "pytestmark") else ["", [None]]
        for value in values:
            test(**({name: value} if name else {}))
    for title in files:
        sys.modules.pop(title.removesuffix(".py"), None)
