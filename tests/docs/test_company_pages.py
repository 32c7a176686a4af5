"""The pages of a company's package show the code of the example, and what they say of it is true."""

from __future__ import annotations

import json
import re

import pytest
from pages import RunPage, blocks, lines_of_code
from workspace import ROOT

from rlcore import HOOKS

pytestmark = pytest.mark.documentation

EXAMPLE = ROOT / "examples/company_plugin"
CODE = {path.name: path.read_text(encoding="utf-8") for path in sorted((EXAMPLE / "src").rglob("*.py"))}


def test_the_readme_and_the_page_name_every_file_and_the_readme_every_hook() -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs/how-to/company-package.md").read_text(encoding="utf-8")
    assert [name for name in CODE if name != "__init__.py" and f"{name}`" not in page] == []
    hooks = re.findall(r"^def (rlcore_\w+)", CODE["plugin.py"], re.MULTILINE)
    names = {*hooks, *re.findall(r"run\.(?:stash|hold_checkpoint|logger|own_files)", "".join(CODE.values()))}
    assert {name for name in names if f"`{name}" not in readme} == set() and len(names) == 18
    count = round(sum(map(lines_of_code, CODE.values())), -2)
    assert f"in {count} lines" in readme and f"in {count} lines" in page


def test_the_page_of_a_companys_package_shows_the_order_of_all_hooks(run_page: RunPage) -> None:
    page = "docs/how-to/company-package.md"
    called = (run_page("docs/how-to/company-package.md") / "order.txt").read_text()
    (shown,) = (block.text for block in blocks("text") if block.page == page and block.text.startswith("rlcore_"))
    assert called == shown
    # Those that a run in one process, to its end and without recordings, does not call.
    others = {"restore_status", "read_status", "lesson_changed"}
    others |= {"create_ranks", "create_recordings", "status_printed"}
    kinds = {hook.name: hook.kind for hook in HOOKS}
    late = {name for name, kind in kinds.items() if kind not in ("registry", "extension")}
    assert set(called.split()) == late - {f"rlcore_{name}" for name in others}


def test_the_run_of_the_page_about_keys_of_behaviors_ends_without_progress(run_page: RunPage) -> None:
    results = run_page("docs/how-to/behavior-key.md") / "results"
    result = json.loads((results / "patience/result.json").read_text())
    assert result["stop"] == {"reason": "Pole has not improved in 3 summaries", "exit_code": 0}
    assert 4 * 256 <= result["behaviors"]["Pole"]["steps"] < 50_000
