"""A run in workers is a run in one process: equal weights, metrics and states, also if it is resumed in the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from worker_runs import CASES, metrics, train, weights

from rlcore.errors import RunStateError


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("corridor", "lake")])
def test_a_run_in_workers_equals_one_in_one_process(tmp_path: Path, case: str) -> None:
    one, several = tmp_path / "one", tmp_path / "several"
    train(one, case, None)
    train(several, case, 2)
    assert weights(one) == weights(several) != []
    assert metrics(one) == metrics(several) != []
    text = [(directory / "run" / "metrics.jsonl").read_text() for directory in (one, several)]
    assert ["Environment/Worker Restarts" in each for each in text] == [False, True]


@pytest.mark.parametrize("case", ["lake", "curriculum"])
@pytest.mark.parametrize(("first", "second"), [(2, None), (None, 3)], ids=["to one process", "to workers"])
def test_a_run_is_resumed_with_another_number_of_workers(
    tmp_path: Path, case: str, first: int | None, second: int | None
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for directory, steps in ((whole, (300, 600)), (parts, (300, 600))):
        for number, (workers, end) in enumerate(zip((first, second), steps, strict=True)):
            train(directory, case, None if directory is whole else workers, end, resume=number > 0)
    assert weights(whole) == weights(parts) != []
    assert metrics(whole) == metrics(parts)


@pytest.mark.parametrize(
    ("first", "second", "advice"),
    [
        (2, None, "resume with environment.workers: 2"),
        (None, 3, "resume with environment.workers: null"),
        (2, 3, "resume with environment.workers: 2"),
    ],
)
def test_environments_that_save_themselves_are_resumed_by_as_many_workers(
    tmp_path: Path, first: int | None, second: int | None, advice: str
) -> None:
    train(tmp_path, "corridor", first, 300)
    with pytest.raises(RunStateError, match=advice):
        train(tmp_path, "corridor", second, 600, resume=True)
