"""The tour, and the pages about truncation, reliability and benchmarks: programs, numbers, and the files they name."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
from pages import RunPage, blocks, run_python_of
from workspace import ROOT

pytestmark = pytest.mark.documentation


def test_the_tour_runs_and_its_exported_policy_acts(run_page: RunPage, capsys: pytest.CaptureFixture[str]) -> None:
    page = "docs/tutorial/tour.md"
    directory = run_page("docs/tutorial/tour.md")
    assert {path.name for path in (directory / "results").iterdir()} == {"pole", "wide", "solved"}
    assert (directory / "report.html").stat().st_size > 10_000
    (acting,) = (block for block in blocks("python") if block.page == page and not block.title)
    capsys.readouterr()
    exec(compile(acting.text, str(acting), "exec"), {})
    assert re.fullmatch(r"\[\[[01]\]\]\n", capsys.readouterr().out)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def test_the_program_of_the_truncation_page_prints_and_computes_what_it_shows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = "docs/truncation.md"
    names = run_python_of(page)
    (shown,) = (block.text for block in blocks("text") if block.page == page)
    assert capsys.readouterr().out == shown
    assert names["bootstrapped"] == pytest.approx(1 / (1 - 0.98))
    assert names["treated_as_terminal"] == pytest.approx(1 / (1 - 0.98 * 9 / 10))
    rows = dict(re.findall(r"^\| ([^|]+) \| (-?\d+\.\d) \|", text_of(page), re.MULTILINE))
    assert {what: float(error) for what, error in rows.items()} == pytest.approx(names["errors"])


def test_every_test_of_faults_is_on_the_page_of_promises() -> None:
    named = set(re.findall(r"`(tests/faults/test_\w+\.py)`", text_of("docs/reliability.md")))
    assert named == {str(path.relative_to(ROOT)) for path in (ROOT / "tests/faults").glob("test_*.py")}


def test_the_page_of_benchmarks_has_every_script_and_its_options() -> None:
    readme = text_of("benchmarks/README.md")
    page = text_of("docs/benchmarks.md")
    scripts = set(re.findall(r"^\| `(\w+\.py)` \|", readme, re.MULTILINE))
    assert len(scripts) >= 11 and {name for name in scripts if f"`python benchmarks/{name}" not in page} == set()
    for name, option in re.findall(r"python benchmarks/(\w+\.py) (--\w+)", page):
        assert f'"{option}"' in text_of(f"benchmarks/{name}")


def test_ratios_of_the_tables_of_returns_follow_from_their_cells_and_tasks_are_the_scripts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tasks = {**import_module("learning_tasks").TASKS, **import_module("learning_presets").TASKS}
    known = r"^\| ((?:ppo|sac|td3|dqn|qrdqn|preset)-[\w-]+)(?:, best of \d)? \|(.+)\|$"
    rows = re.findall(known, text_of("docs/benchmarks.md"), re.MULTILINE)
    assert len(rows) >= 16
    for task, rest in rows:
        env_id, steps, _, *returns, ratio, interval = (cell.strip() for cell in rest.split("|"))
        case = tasks[task].with_steps(tasks[task].steps)
        assert (env_id, steps) == (f"`{case.env_id}`", f"{case.steps:,}"), task
        random, ours, theirs = (float(cell.split(" (")[0].replace(",", "")) for cell in returns)
        assert float(ratio) == pytest.approx((ours - random) / (theirs - random), abs=0.02), task
        low, high = map(float, interval.split(" to "))
        assert low <= float(ratio) <= high, task
