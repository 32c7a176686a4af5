"""Writes, flushes and renames that the operating system refuses: the error is shown, and nothing is lost."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

pytestmark = pytest.mark.faults

# What fails, at which of its calls, and with which error. A run of two checkpoints makes about 20 flushes.
FULL = [("os:fsync", call, errno.ENOSPC) for call in range(1, 21, 2)]
BROKEN = [
    *(("os:fsync", call, errno.EIO) for call in (2, 5, 8, 11, 14, 17)),
    *(("os:mkdir", call, code) for call, code in ((1, errno.EACCES), (2, errno.EACCES), (3, errno.EROFS))),
    *(("os:rename", call, errno.EACCES) for call in (1, 2)),
    *(("os:replace", call, errno.EIO) for call in (1, 2, 4, 6)),
]
LIMITS = [400, 700, 1000, 1500, 2500, 4000, 6000, 8000, 10_000, 12_000]  # bytes of the largest file
RUN = {"max_steps": 800}


def ends_well(place: Any, whole: Any, code: int, cause: str) -> None:
    """The run went on, or it ended with one line that has the cause; either way, it can be brought to its end."""
    lines = place.stderr.splitlines()
    assert code in (0, 5), lines
    if code == 5:
        errors = [line for line in lines if line.startswith("error: ")]
        assert len(errors) == 1 and cause in errors[0], lines
    else:
        assert cause in place.stderr, "the error is not passed over in silence"
    assert "Traceback" not in place.stderr and place.leftovers() == []
    flags = ["--resume"] if place.verify() else ["--force"] if place.run.exists() else []
    assert place.finish(*flags) == 0, place.stderr
    assert place.verify() == whole.steps
    assert [place.content(step) for step in place.steps] == [whole.content(step) for step in whole.steps]


def chosen(trials: list[Any], *quick: int) -> list[Any]:
    """All of them with ``--deep``, else the ``quick`` ones."""
    return [pytest.param(each, marks=[] if k in quick else [pytest.mark.deep]) for k, each in enumerate(trials)]


@pytest.mark.parametrize("handicap", [*chosen(FULL, 4), *chosen(BROKEN, 7), *chosen(LIMITS, 4)], ids=str)
def test_a_write_that_is_refused_is_shown_and_costs_nothing_old(
    workplace: Any, whole_run: Any, handicap: tuple[str, int, int] | int
) -> None:
    """``handicap``: what fails, or the bytes of the largest file."""
    whole = whole_run(**RUN)
    place = workplace(**RUN)
    if isinstance(handicap, int):
        ends_well(place, whole, place.finish(largest_file=handicap), "File too large")
    else:
        ends_well(place, whole, place.finish(failing=handicap), os.strerror(handicap[2]))
