"""The pages of a company's packages show the code of the examples, and what they say of it is true."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pages import RunPage, blocks, lines_of_code
from workspace import ROOT

from rlcore.plugins import HOOKS


def test_the_page_of_the_example_status_shows_its_code() -> None:
    plugin = ROOT / "examples/company_status"
    code = "".join(path.read_text(encoding="utf-8") for path in sorted((plugin / "src").rglob("*.py")))
    shown = [block for block in blocks("py") if block.page == "docs/how-to/status-database.md"]
    assert [str(block) for block in shown if block.text not in code] == []
    hooks = set(re.findall(r"def (rlcore_\w+)", code))
    assert set(re.findall(r"def (rlcore_\w+)", "".join(block.text for block in shown))) == hooks
    assert {f"rlcore_{name}_status" for name in ("report", "restore", "write", "read")} < hooks


def test_the_page_of_the_company_hooks_shows_their_code_and_the_order_of_all_hooks(
    run_page: RunPage, tmp_path: Path
) -> None:
    page = "docs/how-to/company-package.md"
    code = (ROOT / "examples/company_hooks/src/acme_hooks/plugin.py").read_text(encoding="utf-8")
    assert [str(block) for block in blocks("py") if block.page == page and block.text not in code] == []
    called = (run_page("docs/how-to/company-package.md") / "order.txt").read_text()
    (shown,) = (block.text for block in blocks("text") if block.page == page)
    assert called == shown
    result = json.loads((tmp_path / "results/patience/result.json").read_text())
    assert result["stop"] == {"reason": "Pole has not improved in 3 summaries", "exit_code": 0}
    assert 4 * 256 <= result["behaviors"]["Pole"]["steps"] < 50_000
    # Those that a run to its end does not call, or that examples/company_status shows.
    others = {"restore_status", "read_status", "run_failed_to_start", "lesson_changed", "create_exporter"}
    kinds = {hook.name: hook.kind for hook in HOOKS}
    late = {name for name, kind in kinds.items() if kind not in ("registry", "extension")}
    assert set(called.split()) == late - {f"rlcore_{name}" for name in others}


def test_the_company_hooks_use_what_their_readme_says_in_fewer_than_80_lines() -> None:
    example = ROOT / "examples/company_hooks"
    code = (example / "src/acme_hooks/plugin.py").read_text(encoding="utf-8")
    readme = (example / "README.md").read_text(encoding="utf-8")
    own = re.findall(r"^(?:def )?(rlcore_\w+)(?:\(| =)", code, re.MULTILINE)
    names = {*own, *re.findall(r"run\.(?:stash|purpose|request_stop|hold_checkpoint|logger)", code)}
    assert {name for name in names if f"`{name}" not in readme} == set() and len(names) == 19
    count = lines_of_code(code)
    assert count < 80 and f"{count} lines" in readme
    assert f"{count} lines" in (ROOT / "docs/how-to/company-package.md").read_text(encoding="utf-8")
