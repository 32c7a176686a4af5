"""The page of ``rlcore report`` about a sweep, whose records and runs are written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from written_runs import results, write_run

from rlcore_devkit import RunRlcore
from rlcore_study.sweep.settings import ParameterSettings, SweepSettings
from rlcore_study.sweep.trials import SavedSweep, SeedResult, Trial

__all__ = ["results", "write_run"]

HOSTILE = "</script><img src=x onerror='alert(1)'>"
PARAMETERS = {
    "a.rate": ParameterSettings(low=0.001, high=1.0, log=True),
    "a.units": ParameterSettings(choices=[32, [64, 64], HOSTILE]),
    "b.rate": ParameterSettings(low=0, high=10, when={"a.units": 32}),
}
VALUES: list[dict[str, Any]] = [
    {"a.rate": 0.001, "a.units": 32, "b.rate": 5},
    {"a.rate": 1.0, "a.units": [64, 64]},
    {"a.rate": 0.1, "a.units": HOSTILE},
    {"a.rate": 0.01, "a.units": [64, 64]},
]


@pytest.fixture
def sweep(results: Path, write_run: Any) -> Path:
    """Four trials: values 2, 1 and 4, and one that was pruned at 3."""
    directory = results / "search"
    directory.mkdir()
    saved = SavedSweep(directory, SweepSettings(parameters=PARAMETERS, seeds=[1]), {}, 5)
    saved.write()
    for number, (values, value) in enumerate(zip(VALUES, (2.0, 1.0, None, 4.0), strict=True)):
        runs = {} if value is None else {"seed-1": SeedResult(value, ((100, value),))}
        end: dict[str, Any] = {"state": "pruned"} if value is None else {"state": "complete", "value": value}
        saved.write_trial(Trial(number, number, values, runs, intermediate={1: value or 3.0}, **end))
        write_run(f"search/trial-{number:04d}/seed-1", mean_reward=value, lr=number)
    return directory


def test_the_page_shows_the_history_importance_and_values_of_a_sweep(sweep: Path, run_rlcore: RunRlcore) -> None:
    done = run_rlcore("report", "search")
    assert done.exit_code == 0 and "report of 4 runs in 4 groups" in done.stdout, done.stderr
    text = Path("report.html").read_text("utf-8")
    assert "<title>Sweep search</title>" in text and HOSTILE not in text
    assert "4 trials: 3 complete, 1 pruned. The best value is 4, of trial-0003." in text
    start = text.index('id="data">') + len('id="data">')
    history, importance, parallel = json.loads(text[start : text.index("</script>", start)])["figures"]
    complete, best, pruned = history["traces"]
    assert (complete["x"], complete["y"]) == ([0, 1, 3], [2.0, 1.0, 4.0])
    assert (best["x"], best["y"]) == ([0, 1, 3], [2.0, 2.0, 4.0])
    assert (pruned["x"], pruned["y"]) == ([2], [3.0])
    (bars,) = importance["traces"]
    assert set(bars["y"]) <= {"a.rate", "units", "b.rate"} and sum(bars["x"]) == pytest.approx(1.0)
    # From the worst to the best; a logarithmic range, a list, and a parameter without a value.
    assert [each["y"] for each in parallel["traces"]] == [
        [pytest.approx(1.0), 0.5, None, 0.0],
        [pytest.approx(0.0), 0.0, 0.5, pytest.approx(1 / 3)],
        [pytest.approx(1 / 3), 0.5, None, 1.0],
    ]
    assert parallel["traces"][0]["text"][2] == "trial-0001: b.rate not searched"


def test_a_run_of_a_trial_brings_its_sweep_and_other_runs_bring_none(sweep: Path, run_rlcore: RunRlcore) -> None:
    assert run_rlcore("report", sweep / "trial-0001/seed-1", "--title", "One").exit_code == 0
    text = Path("report.html").read_text("utf-8")
    assert "<title>One</title>" in text and '<h2 id="part-1">Sweep search</h2>' in text
    (sweep / "sweep.json").unlink()
    assert run_rlcore("report", sweep / "trial-0001/seed-1").exit_code == 0
    assert "Sweep search" not in Path("report.html").read_text("utf-8")
