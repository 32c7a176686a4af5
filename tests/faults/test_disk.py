"""Disks that are full, limited or not ours."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.faults


ONE_LINE = re.compile(
    r"error: checkpoint of step (?P<step>\d+) in \S+ cannot be written: (?P<cause>[^;]+); "
    r"(the last intact one is of step (?P<good>\d+); fix that and resume with --resume"
    r"|there is no earlier one; fix that and start the run again)(; (?P<smaller>.*) would take less)?\n"
)


def refused(place: Any) -> re.Match[str]:
    """The one line on standard error, its step being the one after the last intact one."""
    match = ONE_LINE.fullmatch(place.stderr)
    assert match, place.stderr
    assert place.leftovers() == []
    good = place.verify()
    assert int(match["good"]) == good[-1] < int(match["step"]) == good[-1] + 400
    assert place.json("result.json")["outcome"] in ("failed", "interrupted")
    return match


def test_a_first_checkpoint_that_cannot_be_written_leaves_a_run_to_be_started_again(workplace: Any) -> None:
    place = workplace()
    assert place.finish(largest_file=6000) == 5
    match = ONE_LINE.fullmatch(place.stderr)
    assert match and match["step"] == "400", place.stderr
    assert place.finish() == 0, place.stderr  # as the message says


@pytest.mark.parametrize(
    ("handicap", "smaller"),
    [
        (
            {"failing": ("rlcore.storage.checkpoint:fsync_file", 8, errno.ENOSPC)},
            "hyperparameters.save_replay_buffer: false of Agent",
        ),
        ({"failing": ("rlcore.storage.checkpoint:fsync_file", 8, errno.EIO)}, None),
        ({"largest_file": 6000}, "hyperparameters.save_replay_buffer: false of Agent"),  # as safetensors reports it
    ],
)
def test_a_replay_that_the_disk_has_no_room_for_costs_no_checkpoint_and_its_key_is_named(
    workplace: Any, case: Any, handicap: dict[str, Any], smaller: str | None
) -> None:
    place = workplace(**case("SAC, Pendulum-v1"))
    assert place.finish(**handicap) == 5
    line = place.stderr.splitlines()[-1] + "\n"
    match = ONE_LINE.fullmatch(line)
    assert match and match["smaller"] == smaller, place.stderr
    assert place.leftovers() == []
    steps = place.verify()
    assert bool(steps) == ("failing" in handicap)
    if steps:
        assert int(match["good"]) == steps[-1]
        assert place.finish("--resume", "--max-steps", str(steps[-1] + 100)) == 0, place.stderr


@pytest.fixture
def forbid() -> Iterator[Callable[[Path], None]]:
    """``forbid(directory)``: no process may write there until the test is over."""
    forbidden: list[Path] = []

    def make(path: Path) -> None:
        path.chmod(0o555)
        forbidden.append(path)

    yield make
    for path in forbidden:
        path.chmod(0o755)


def test_a_directory_without_permission_is_refused(workplace: Any, forbid: Any) -> None:
    place = workplace()
    place.results.mkdir()
    forbid(place.results)
    assert place.finish(drop_capabilities=True) == 5
    assert place.stderr == f"error: {place.shown(place.run)}: cannot be written to: Permission denied\n"
    assert list(place.results.iterdir()) == []


def test_checkpoints_that_become_read_only_stop_the_run(
    workplace: Any, whole_run: Any, assert_equal_from: Any, forbid: Any
) -> None:
    whole = whole_run()
    place = workplace()
    shutil.copytree(whole.run, place.run)
    for step in whole.steps[1:]:
        shutil.rmtree(place.checkpoints / str(step))
    forbid(place.checkpoints)
    assert place.finish("--resume", drop_capabilities=True) == 5
    match = refused(place)
    assert match["cause"] == "Permission denied"
    place.checkpoints.chmod(0o755)
    assert place.finish("--resume", drop_capabilities=True) == 0, place.stderr
    assert_equal_from(place, whole, 400)
