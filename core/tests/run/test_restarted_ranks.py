"""Ranks that torchrun starts again resume what an earlier attempt began, and touch no other run of that name.

torchrun does not count attempts in which nothing failed: it starts all ranks again when a host joins.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from rlcore import Launch
from rlcore.errors import RunStateError
from rlcore.run.prepare import directory_of_rank
from rlcore.settings import CheckpointSettings
from rlcore.storage.mark import read_mark

FIRST = Launch(0, 2, 0, job="one job")
AGAIN = attrs.evolve(FIRST, restarts=1)


def begin(launch: Launch, place: Path, **settings: Any) -> Any:
    directory = directory_of_rank(launch, CheckpointSettings(run_id="run", results_dir=str(place), **settings))
    directory.open()
    directory.begin()
    directory.started()
    return directory


def a_run(make_run: Any, place: Path) -> dict[str, bytes]:
    make_run({"checkpoint_settings.results_dir": str(place), "checkpoint_settings.run_id": "run"}).train()
    return contents(place)


def contents(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize("restarts", [0, 1, 3])
def test_a_run_that_was_there_before_is_refused_in_every_attempt(tmp_path: Path, make_run: Any, restarts: int) -> None:
    before = a_run(make_run, tmp_path)
    with pytest.raises(RunStateError, match="--resume"):
        begin(attrs.evolve(FIRST, restarts=restarts), tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_run_of_another_job_is_refused_although_it_was_made_by_ranks(
    tmp_path: Path, make_run: Any, restarts: int
) -> None:
    a_run(make_run, tmp_path)
    begin(FIRST, tmp_path, resume=True).close()
    with pytest.raises(RunStateError, match="--resume"):
        begin(attrs.evolve(FIRST, restarts=restarts, job="another job"), tmp_path)
    again = begin(attrs.evolve(FIRST, restarts=restarts), tmp_path)  # the job that wrote last
    assert again.settings.resume and not again.settings.force
    again.close()


@pytest.mark.parametrize("restarts", [0, 1])
def test_what_an_earlier_attempt_began_without_a_checkpoint_starts_over(tmp_path: Path, restarts: int) -> None:
    begin(FIRST, tmp_path).close()
    again = begin(attrs.evolve(FIRST, restarts=restarts), tmp_path)
    assert again.settings.force and not again.settings.resume
    mark = read_mark(again.path)
    assert mark is not None and mark.job == FIRST.job
    again.close()


def test_an_attempt_that_did_not_begin_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    again = begin(AGAIN, tmp_path)
    assert not again.settings.force and not again.settings.resume
    again.close()
