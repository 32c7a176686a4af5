"""``rlcore compare``: which runs are one configuration, which of them count, and what is said about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from scipy.stats import mannwhitneyu

from rlcore_devkit import RunRlcore

BASE = (1.0, 2.0, 3.0, 4.0, 10.0)
WIDE = (3.5, 5.0, 6.0, 7.0, 8.0)


def evaluated(place: Path, score: float | None, best: float = 99.0) -> None:
    """Add an evaluation to the result of a run."""
    result = json.loads((place / "result.json").read_text())
    if score is not None:
        result["evaluation"] = {"score": score, "step": 200, "best_score": best, "best_step": 100}
    (place / "result.json").write_text(json.dumps(result))


@pytest.fixture
def two(write_run: Any) -> None:
    """Five seeds of each of two configurations."""
    for seed, (base, wide) in enumerate(zip(BASE, WIDE, strict=True), 1):
        write_run(f"base-seed-{seed}", seed, width=1, mean_reward=base)
        write_run(f"wide-seed-{seed}", seed, width=2, mean_reward=wide)


def table(text: str) -> list[list[str]]:
    """The rows of all tables, each as its cells."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def test_one_study_has_a_row_for_each_seed_and_one_for_the_whole(two: None, run_rlcore: RunRlcore) -> None:
    done = run_rlcore("compare", "base")
    assert done.exit_code == 0 and done.stderr == ""
    rows = table(done.stdout)
    assert rows[0] == ["run", "seed", "outcome", "score", "steps", "time"]
    assert rows[1] == ["base-seed-1", "1", "done", "1.00", "200", "1 min 30 s"]
    assert rows[5][:4] == ["base-seed-5", "5", "done", "10.00"]
    assert rows[6][:3] == ["base", "5 seeds", "IQM"]
    assert rows[6][3].startswith("3.00 (") and rows[6][4:] == ["1,000", "7 min 30 s"]
    assert "score: mean return of the last 100 training episodes" in done.stdout


def test_scores_that_do_not_overlap_say_what_so_few_seeds_can_tell(write_run: Any, run_rlcore: RunRlcore) -> None:
    for seed in range(1, 6):
        write_run(f"base-seed-{seed}", seed, width=1, mean_reward=float(seed))
        write_run(f"wide-seed-{seed}", seed, width=2, mean_reward=10.0 + seed)
    done = run_rlcore("compare", "base", "wide")
    row = next(row for row in table(done.stdout) if row[1:2] == ["better than"])
    assert row[3:] == ["1.00", "1.00 to 1.00 (5 against 5 tell 0.48 to 1.00)"]
    assert "5 against 5 cannot tell 1.00 from 0.48" in done.stderr and "in 0.0079 of such studies" in done.stderr
    (pair,) = json.loads(run_rlcore("compare", "base", "wide", "--json").stdout)["improvement"]
    exact = mannwhitneyu([1, 2, 3, 4, 5], [11, 12, 13, 14, 15], method="exact").pvalue
    assert pair["smallest_p"] == pytest.approx(exact)
    # The end of the interval is the probability with which five pairs of five are won in 2.5% of studies.
    assert pair["could_be"] ** 5 == pytest.approx(0.025)


def test_configurations_are_compared_in_pairs(two: None, run_rlcore: RunRlcore) -> None:
    done = run_rlcore("compare", "base", "wide")
    assert done.exit_code == 0 and done.stderr == ""
    rows = table(done.stdout)
    assert [row[:3] for row in rows[1:3]] == [["base", "5", "3.00"], ["wide", "5", "6.00"]]
    won = sum(wide > base for wide in WIDE for base in BASE) / 25
    assert rows[5][:4] == ["wide", "better than", "base", f"{won:.2f}"]
    found = json.loads(run_rlcore("compare", "base", "wide", "--json").stdout)
    assert [each["name"] for each in found["configurations"]] == ["base", "wide"]
    assert found["improvement"][0]["probability"]["value"] == won and len(found["improvement"]) == 1
    assert [run["score"] for run in found["configurations"][1]["runs"]] == list(WIDE)


def test_a_study_is_found_by_its_name_in_any_directory(two: None, results: Path, run_rlcore: RunRlcore) -> None:
    names = [f"base-seed-{seed}" for seed in range(1, 6)]
    by_name = json.loads(run_rlcore("compare", "base", "--json").stdout)
    for words in (["results/base"], names, [results / "base"]):
        found = json.loads(run_rlcore("compare", *words, "--json").stdout)
        assert [run["seed"] for run in found["configurations"][0]["runs"]] == [1, 2, 3, 4, 5]
        assert found["configurations"][0]["iqm"] == by_name["configurations"][0]["iqm"]
    (results / "base-seed-6").mkdir()  # nothing was started there
    assert run_rlcore("compare", "base", "--json").stdout == json.dumps(by_name, indent=4) + "\n"
    missing = run_rlcore("compare", "bases")
    assert missing.exit_code == 5
    assert "bases: neither a run directory nor the id of a run in results/; did you mean 'base-seed" in missing.stderr


def test_the_last_evaluation_is_the_score_where_there_are_evaluations(write_run: Any, run_rlcore: RunRlcore) -> None:
    for seed, score in enumerate((5.0, 7.0, None), 1):
        evaluated(write_run(f"a-seed-{seed}", seed, mean_reward=100.0), score)
    done = run_rlcore("compare", "a")
    assert [row[3] for row in table(done.stdout)[1:4]] == ["5.00", "7.00", "-"]
    assert table(done.stdout)[4][:4] == ["a", "2 of 3", "IQM", "6.00 (5.00 to 7.00)"]
    assert "score: score of the last evaluation" in done.stdout
    assert "warning: a-seed-3 does not count: it has no evaluation\n" in done.stderr
    assert "warning: a: 2 seeds with a score; with fewer than 5, intervals are too narrow" in done.stderr


def test_runs_that_are_not_done_do_not_count_and_are_named(write_run: Any, run_rlcore: RunRlcore) -> None:
    write_run("a-seed-1", 1, mean_reward=1.0)
    write_run("a-seed-2", 2, mean_reward=2.0, outcome="failed")
    write_run("a-seed-3", 3, mean_reward=3.0, outcome="interrupted")
    write_run("a-seed-4", 4, outcome=None)
    write_run("a-seed-5", 5, mean_reward=None)
    done = run_rlcore("compare", "a")
    assert table(done.stdout)[6][:4] == ["a", "1 of 5", "IQM", "1.00"]
    assert [line for line in done.stderr.splitlines() if "does not count" in line] == [
        "warning: a-seed-2 does not count: it failed",
        "warning: a-seed-3 does not count: it is interrupted",
        "warning: a-seed-4 does not count: it is not finished",
        "warning: a-seed-5 does not count: no episode has ended",
    ]


def test_a_configuration_without_a_score_is_shown_and_not_compared(write_run: Any, run_rlcore: RunRlcore) -> None:
    write_run("a-seed-1", 1, width=1, outcome="failed")
    write_run("b-seed-1", 1, width=2, mean_reward=4.0)
    done = run_rlcore("compare", "a", "b")
    assert [row[:4] for row in table(done.stdout)[1:3]] == [["a-seed-1", "0", "-", "-"], ["b-seed-1", "1", "4.00", "-"]]
    assert "better than" not in done.stdout
    assert "warning: a-seed-1: no seeds with a score" in done.stderr


def test_runs_that_say_nothing_about_each_other_are_warned_of(write_run: Any, run_rlcore: RunRlcore) -> None:
    for name, seed, world in (("a-1", 1, "CartPole-v1"), ("a-2", 1, "CartPole-v1"), ("b-1", 1, "Acrobot-v1")):
        place = write_run(name, seed)
        configuration = yaml.safe_load((place / "configuration.yaml").read_text())
        configuration["environment"] = {"type": "gymnasium", "id": world}
        (place / "configuration.yaml").write_text(yaml.safe_dump(configuration))
    errors = run_rlcore("compare", "a-1", "a-2", "b-1").stderr
    assert "warning: a: 2 runs have seed 1; runs with equal seeds say nothing new\n" in errors
    assert (
        "warning: scores of different environments cannot be compared: a learns in gymnasium CartPole-v1, "
        "b-1 learns in gymnasium Acrobot-v1\n"
    ) in errors


def test_the_user_chooses_groups(two: None, run_rlcore: RunRlcore) -> None:
    found = json.loads(run_rlcore("compare", "base", "wide", "--group", "all=*", "--json").stdout)
    assert [(each["name"], len(each["runs"])) for each in found["configurations"]] == [("all", 10)]
    wrong = run_rlcore("compare", "base", "--group", "wide")
    assert wrong.exit_code == 2 and "write NAME=PATTERN" in wrong.stderr
