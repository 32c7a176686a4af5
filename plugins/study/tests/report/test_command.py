"""``rlcore report``: what it reads, what it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlcore_study.report.charts
from rlcore.files.lock import DirectoryLock
from rlcore_devkit.fixtures import RunRlcore
from rlcore_study.groups import grouped
from rlcore_study.runs import read_runs


@pytest.fixture
def page(run_rlcore: RunRlcore) -> Any:
    """``page("a")``: the page that a command without an error writes, and its warnings."""

    def make(*arguments: Any) -> tuple[str, str]:
        done = run_rlcore("report", *arguments)
        assert done.exit_code == 0, done.stderr
        return Path("report.html").read_text("utf-8"), done.stderr

    return make


def test_a_report_is_written_and_its_size_stated(write_run: Any, run_rlcore: RunRlcore) -> None:
    write_run("a-1", 1)
    write_run("a-2", 2)
    write_run("b", 1, lr=3)
    done = run_rlcore("report", "a-1", "a-2", "b", "-o", "page.html")
    assert done.exit_code == 0 and done.stderr == ""
    size = Path("page.html").stat().st_size
    assert done.stdout == f"report of 3 runs in 2 groups: page.html ({size / 1e6:.1f} MB)\n"
    assert not list(Path().glob(".rlcore-tmp-*"))


def test_a_report_replaces_a_report_and_nothing_else(write_run: Any, run_rlcore: RunRlcore) -> None:
    write_run("a")
    assert run_rlcore("report", "a").exit_code == 0
    assert run_rlcore("report", "a").exit_code == 0
    Path("report.html").write_text("<html>mine")
    refused = run_rlcore("report", "a")
    assert refused.exit_code == 2
    assert refused.stderr == (
        "error: -o report.html: exists and is not a report of rlcore; replace it with --force, or name another file\n"
    )
    assert Path("report.html").read_text() == "<html>mine"
    assert run_rlcore("report", "a", "--force").exit_code == 0
    assert Path("report.html").stat().st_size > 1_000_000


def test_a_group_needs_a_name_and_a_pattern(write_run: Any, run_rlcore: RunRlcore) -> None:
    write_run("a")
    refused = run_rlcore("report", "a", "--group", "wide")
    assert refused.exit_code == 2 and "write NAME=PATTERN, such as 'wide=wide-*'" in refused.stderr


def charts(text: str) -> list[Any]:
    """The numbers that a page draws."""
    start = text.index('id="data">') + len('id="data">')
    found: list[Any] = json.loads(text[start : text.index("</script>", start)])["charts"]
    return found


def test_runs_are_shown_as_far_as_they_can_be_read(write_run: Any, page: Any) -> None:
    killed = write_run("killed", points=[(100, 1.0), (200, 4.0)], outcome=None, lr=1)
    with (killed / "metrics.jsonl").open("a") as file:
        file.write('{"behavior": "Agent", "step": 300, "st')
    write_run("empty", points=[], outcome=None, lr=2)
    stopped = write_run("stopped", outcome="interrupted", lr=3)
    result = json.loads((stopped / "result.json").read_text())
    (stopped / "result.json").write_text(json.dumps({**result, "stop": {"reason": "SIGTERM", "exit_code": 143}}))
    torn = write_run("torn", outcome=None, lr=4)
    (torn / "result.json").write_text("{")
    (torn / "run_logs/timers.json").write_text("[1, 2")
    lock = DirectoryLock(write_run("now", outcome=None, lr=5))
    lock.acquire()
    try:
        text, warnings = page("killed", "empty", "stopped", "torn", "now")
    finally:
        lock.release()
    for note in (
        "killed: has no result: its process was killed",
        "killed: metrics.jsonl: line 3 cannot be read and is left out\n",
        "empty: has no summary yet, so it has no curves",
        "stopped: was stopped: SIGTERM",
        "torn: results/torn/result.json: is not JSON",
        "now: is running; the report shows what it has written so far",
    ):
        assert f"warning: {note}" in warnings and note.partition(": ")[2].strip() in text
    assert ">not finished<" in text
    (chart,) = charts(text)
    assert [group["names"] for group in chart["groups"]] == [["killed"], ["stopped"], ["torn"], ["now"]]
    first = chart["groups"][0]
    assert (first["steps"], first["levels"][0]["mean"]) == ([100, 200], [1.0, 4.0])


def test_a_run_whose_configuration_is_unreadable_is_left_out(write_run: Any, page: Any, run_rlcore: RunRlcore) -> None:
    write_run("good")
    (write_run("bad") / "configuration.yaml").write_text("a: [1\n")
    text, warnings = page("good", "bad")
    assert warnings.startswith("warning: bad: left out: ") and "bad: left out:" in text
    alone = run_rlcore("report", "bad", "-o", "other.html")
    assert alone.exit_code == 5 and "no run can be read" in alone.stderr


def test_a_run_whose_trainer_is_not_installed_is_shown_without_defaults(write_run: Any, page: Any) -> None:
    write_run("a")
    text, _ = page("a")
    assert "The defaults are unknown here:" in text and "unknown trainer &#39;absent&#39;" in text


def test_code_that_only_a_run_names_is_not_imported(write_run: Any, page: Any, tmp_path: Path) -> None:
    (tmp_path / "trap.py").write_text("open('trapped', 'w')\n")
    place = write_run("a")
    with (place / "configuration.yaml").open("a") as file:
        file.write(f"plugins: {{local: ['{tmp_path / 'trap.py'}']}}\nenvironment: {{id: 'trap:Env'}}\n")
    page("a")
    assert not Path("trapped").exists()


def test_an_episode_that_cannot_be_played_is_replaced_by_the_reason(write_run: Any, page: Any) -> None:
    write_run("a")
    text, warnings = page("a", "--episode")
    assert "warning: a: no episode: " in warnings and "There is no film: " in text


def test_a_page_has_so_many_charts_and_counts_the_others(write_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rlcore_study.report.charts, "MAX_CHARTS", 1)
    runs, _ = read_runs([write_run("a"), write_run("b", tag="Losses/Policy Loss")])
    (section,), left = rlcore_study.report.charts.sections(grouped(runs), ["Agent"])
    assert (section.title, section.behavior, len(section.charts), left) == ("Returns", "", 1, 1)
