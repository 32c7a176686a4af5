"""Runs that differ only in their seed are one group; others show in which keys they differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore import ConfigError
from rlcore_study.groups import differences, grouped
from rlcore_study.runs import ReportedTraining, read_runs
from rlcore_study.summary import Spread, results, times


def runs_of(*places: Path) -> list[ReportedTraining]:
    runs, problems = read_runs(places)
    assert problems == []
    return runs


@pytest.fixture
def runs(write_run: Any) -> list[ReportedTraining]:
    """Two seeds of two learning rates."""
    return runs_of(
        write_run("slow-1", 1, lr=0.1, mean_reward=1.0), write_run("fast-1", 1, lr=0.5, mean_reward=5.0),
        write_run("slow-2", 2, lr=0.1, mean_reward=2.0), write_run("fast-2", 2, lr=0.5, mean_reward=9.0),
    )  # fmt: skip


def shown(groups: Any) -> list[tuple[str, list[str]]]:
    return [(group.name, [run.name for run in group.runs]) for group in groups]


def test_runs_that_differ_in_their_seed_are_one_group_unless_the_user_says_so(runs: Any) -> None:
    assert shown(grouped(runs)) == [("slow", ["slow-1", "slow-2"]), ("fast", ["fast-1", "fast-2"])]
    assert [name for name, _ in shown(grouped(runs, separate=True))] == ["slow-1", "fast-1", "slow-2", "fast-2"]
    assert shown(grouped(runs, [("first", "*-1")])) == [
        ("first", ["slow-1", "fast-1"]), ("slow-2", ["slow-2"]), ("fast-2", ["fast-2"]),
    ]  # fmt: skip


def test_a_pattern_without_a_run_is_refused(runs: Any) -> None:
    with pytest.raises(ConfigError, match=r"--group a=slow_1: no run has such a name; did you mean 'slow-1'\?"):
        grouped(runs, [("a", "slow_1")])


def test_groups_have_names_of_their_own(write_run: Any) -> None:
    runs = runs_of(write_run("a1", 1, x=1), write_run("a2", 2, x=1), write_run("a3", 1, x=2), write_run("a4", 2, x=2))
    assert [group.name for group in grouped(runs)] == ["a", "a (2)"]
    runs = runs_of(write_run("one", 1), write_run("two", 2))  # names without a common beginning
    assert [group.name for group in grouped(runs)] == ["one and 1 more"]


def test_only_keys_that_differ_are_listed_with_the_values_of_each_group(runs: Any) -> None:
    assert differences(grouped(runs), repr) == {"behaviors.Agent.hyperparameters.lr": (("0.1",), ("0.5",))}
    together = grouped(runs, [("all", "*")])
    assert differences(together, repr) == {"behaviors.Agent.hyperparameters.lr": (("0.1", "0.5"),)}


def test_a_key_that_a_run_lacks_is_not_set(write_run: Any) -> None:
    runs = runs_of(write_run("a", x=1), write_run("b"))
    listed = differences(grouped(runs), repr)
    assert listed["behaviors.Agent.hyperparameters.x"] == (("1",), ("not set",))


def test_runs_of_one_id_are_told_apart_by_their_paths_and_each_is_shown_once(write_run: Any, results: Path) -> None:
    first = write_run("a")
    second = write_run("b")
    assert len(runs_of(first, first, Path("a"))) == 1
    (results / "other").mkdir()
    moved = second.rename(results / "other" / "a")
    assert [run.name for run in runs_of(first, moved)] == [str(first), str(moved)]


def test_the_result_of_a_group_is_the_spread_of_its_runs(runs: Any) -> None:
    slow, fast = results(grouped(runs), ["Agent"])
    assert (slow.group, slow.outcomes, slow.returns.runs) == ("slow", "2 done", 2)
    assert (slow.returns.mean, slow.returns.low, slow.returns.high) == (1.5, 1.0, 2.0)
    assert fast.returns.std == pytest.approx(((5 - 7) ** 2 + (9 - 7) ** 2) ** 0.5)
    assert fast.seconds.mean == 90.0 and fast.scores == Spread(0)


def test_a_run_counts_to_its_result_and_has_a_row_without_any(write_run: Any) -> None:
    ended, fresh = runs_of(write_run("a", points=[(100, 1.0)]), write_run("b", points=[], outcome=None))
    assert ended.steps == 200
    (row,) = results(grouped([fresh]), ["Agent"])
    assert (row.behavior, row.outcomes, row.returns.runs) == ("", "not finished", 0)


def test_time_is_split_into_known_parts_and_the_rest(runs: Any) -> None:
    assert times(grouped(runs))["slow"] == {"environment": 6.0, "start": 1.0, "other": 3.0}


def test_a_part_that_a_run_does_not_have_took_no_time(write_run: Any) -> None:
    other = write_run("a-2", 2)
    (other / "run_logs/timers.json").write_text('{"total": 8.0}')
    assert times(grouped(runs_of(write_run("a-1"), other)))["a"] == {"environment": 3.0, "start": 0.5, "other": 5.5}
