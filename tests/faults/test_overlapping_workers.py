"""Workers that step while others' agents act: every row of every batch, failures, and what a checkpoint keeps."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checked_workers import SEED, Checked, fault, make
from test_worker_faults import left_processes

from rlcore import Actions, EpisodeSeeds, SavesState
from rlcore_workers.overlap import OverlappingEnvironment

pytestmark = pytest.mark.faults
HALF = {"count": 4, "overlap": "half"}
FIRST = {"count": 4, "wait_for": 2}


def test_two_halves_take_turns_and_rows_of_workers_that_step_do_not_change(tmp_path: Path, opened: list[Any]) -> None:
    """5 environments in 3 workers: the halves are 0 to 3 and 4."""
    opened.append(make(tmp_path, {"count": 3, "overlap": "half"}, 5))
    checked = Checked(opened[0])
    assert isinstance(opened[0], OverlappingEnvironment) and np.flatnonzero(checked.acts).tolist() == [0, 1, 2, 3]
    checked.play(40)
    assert checked.shown == [(4,), (0, 1, 2, 3)] * 20
    assert checked.episode.min() >= 2  # in 20 or 19 steps of each
    opened[0].reset(EpisodeSeeds(SEED), np.full(5, 9))
    again = opened[0].step({"A": Actions(None, np.zeros((5, 1), np.int64))})["A"]
    assert again.observations["state"][:, 1:3].tolist() == [[9, 0]] * 5


def test_a_step_waits_for_the_first_workers_that_answer(tmp_path: Path, opened: list[Any]) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    settings = {"count": 2, "wait_for": 1, "step_timeout": None}
    opened.append(make(tmp_path, settings, 4, gate=str(gate), gate_env=2))
    checked = Checked(opened[0])
    checked.play(30)
    assert checked.shown == [(0, 1)] * 30
    gate.unlink()
    deadline = time.monotonic() + 120
    while (2, 3) not in {shown[-2:] for shown in checked.shown}:
        assert time.monotonic() < deadline
        checked.play(1)
    checked.play(100)
    gate.touch()
    opened[0].step({"A": Actions(None, np.zeros((4, 1), np.int64))})
    gate.unlink()
    batch = opened[0].reset(EpisodeSeeds(SEED), np.full(4, 50))["A"]  # what was under way is forgotten
    assert batch.observations["state"][:, 1:3].tolist() == [[50, 0]] * 4 and not batch.reward.any()


@pytest.mark.parametrize("settings", [HALF, FIRST], ids=["half", "wait_for"])
def test_only_the_open_episodes_of_a_failing_worker_are_lost(
    tmp_path: Path, opened: list[Any], settings: dict[str, Any]
) -> None:
    """Two workers of the same half, and one of the other, fail."""
    faults = [fault("raise", 0, 0, 1), fault("segfault", 2, 0, 1), fault("hang", 4, 0, 2)]
    opened.append(make(tmp_path, {**settings, "step_timeout": 3.0}, 8, faults))
    checked = Checked(opened[0])
    deadline = time.monotonic() + 240
    while checked.episode.min() < 3:
        assert time.monotonic() < deadline
        checked.play(1)
    assert sorted(env for each in checked.aborts for env in each) == [0, 1, 2, 3, 4, 5]
    if settings is HALF:
        assert checked.aborts == [(0, 1, 2, 3), (4, 5)]
        assert checked.shown[:6] == [(4, 5, 6, 7), (0, 1, 2, 3)] * 3
    assert opened[0].stats()["Environment/Worker Restarts"] == 3
    assert opened[0].stats()["Environment/Aborted Episodes"] == 6
    opened.pop().close()
    assert left_processes() == []


@pytest.mark.parametrize("settings", [{"count": 4}, HALF, FIRST], ids=["lock-step", "half", "wait_for"])
def test_a_worker_that_dies_between_two_steps_is_noticed(
    tmp_path: Path, opened: list[Any], settings: dict[str, Any]
) -> None:
    opened.append(make(tmp_path, settings, 4))
    checked = Checked(opened[0])
    checked.play(3)
    os.kill(left_processes()[0], signal.SIGKILL)
    deadline = time.monotonic() + 120
    while not checked.aborts:
        assert time.monotonic() < deadline
        checked.play(1)
    checked.play(20)
    assert [len(each) for each in checked.aborts] == [1]


def test_environments_that_save_no_state_offer_none(tmp_path: Path, opened: list[Any]) -> None:
    for settings, limits in ((HALF, 0), (FIRST, 1)):
        opened.append(make(tmp_path, settings, 4))
        assert not isinstance(opened[-1], SavesState) and len(opened[-1].resume_limits) == limits
