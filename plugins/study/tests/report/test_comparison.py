"""The part Comparison of a page: the numbers of ``rlcore compare``, and curves of the interquartile mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlcore_devkit import RunRlcore


def charts(text: str) -> dict[str, Any]:
    start = text.index('id="data">') + len('id="data">')
    return {chart["id"]: chart for chart in json.loads(text[start : text.index("</script>", start)])["charts"]}


def test_seeds_are_compared_with_intervals_and_curves(write_run: Any, run_rlcore: RunRlcore) -> None:
    for seed in range(1, 6):
        write_run(f"base-seed-{seed}", seed, [(100, 0.0), (200, float(seed))], width=1, mean_reward=float(seed))
        write_run(f"wide-seed-{seed}", seed, [(100, 5.0), (200, 9.0)], width=2, mean_reward=9.0)
    done = run_rlcore("report", "base", "wide")
    assert done.exit_code == 0 and done.stderr == ""
    text = Path("report.html").read_text("utf-8")
    part = text[text.index('<h2 id="comparison">') : text.index('<h2 id="curves">')]
    assert '<td>base</td><td class="n">1.00</td><td class="n">1.00 to 1.00</td>' in part
    found = json.loads(run_rlcore("compare", "base", "wide", "--json").stdout)["configurations"][0]["iqm"]
    low, high = (format(found[end], ".2f") for end in ("low", "high"))
    assert f'base</th><td class="n">5</td><td class="n">3.00</td><td class="n">{low} to {high}</td>' in part
    chart = charts(text)["efficiency-0"]
    assert chart["fixed"] and [group["names"][0] for group in chart["groups"]] == ["base-seed-1", "wide-seed-1"]
    (curve,) = chart["groups"][0]["levels"]
    assert curve["mean"] == [0.0, 3.0]  # of 1 to 5, without 1 and 5
    assert curve["low"][1] == pytest.approx(found["low"], abs=0.34) and curve["low"][1] > 1.0  # not the range


def test_few_seeds_are_warned_of_and_single_runs_are_not_compared(write_run: Any, run_rlcore: RunRlcore) -> None:
    write_run("a-1", 1, width=1)
    write_run("b-1", 1, width=2)
    run_rlcore("report", "a-1", "b-1")
    assert "Comparison" not in Path("report.html").read_text("utf-8")
    write_run("a-2", 2, width=1)
    run_rlcore("report", "a-1", "a-2", "b-1")
    text = Path("report.html").read_text("utf-8")
    assert "a: 2 seeds with a score; with fewer than 5, intervals are too narrow to be trusted" in text
