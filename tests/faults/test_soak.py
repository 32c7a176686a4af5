"""A thousand checkpoints: the disk holds what it is to keep, and the memory of the process stays as it was."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from fault_cases import SELF_PLAY

pytestmark = [pytest.mark.faults, pytest.mark.deep]

SAVES, KEPT, MEGABYTES = 1000, 3, 30.0
KINDS = {
    "PPO": {"environment": "CartPole-v1", "max_steps": 8 * SAVES, "checkpoint_interval": 8},
    # Four environments with two agents each; every save has a pool of snapshots, which checkpoints share.
    "self-play": {**SELF_PLAY["PPO"], "max_steps": 8 * SAVES, "checkpoint_interval": 8},
}


def bytes_on_disk(directory: Path) -> int:
    """Add up the sizes of all files. One with several names counts once, one that vanishes meanwhile not at all."""
    found: dict[int, int] = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                status = os.lstat(os.path.join(folder, name))
                found[status.st_ino] = status.st_size
    return sum(found.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_saves_leave_disk_and_memory_as_they_were(workplace: Any, kind: str) -> None:
    place = workplace(**KINDS[kind] | {"keep_checkpoints": KEPT, "summary_freq": 1000})
    process = place.start()
    resident: dict[int, float] = {}  # megabytes, by the step of the newest checkpoint
    disk: list[int] = []
    watched = psutil.Process(process.pid)
    deadline = time.monotonic() + 1200
    while process.exitcode is None and time.monotonic() < deadline:
        try:
            steps, megabytes = place.steps, watched.memory_info().rss / 1e6
        except (FileNotFoundError, psutil.NoSuchProcess):
            continue
        if steps:
            resident[steps[-1]] = megabytes
            disk.append(bytes_on_disk(place.checkpoints))
        time.sleep(0.05)
    assert process.exitcode == 0, place.stderr
    last = place.verify()[-1]
    assert last >= 8 * SAVES * 0.99 and len(place.steps) == KEPT and place.leftovers() == []
    early = [each for step, each in resident.items() if last * 0.1 < step < last * 0.3]
    late = [each for step, each in resident.items() if step > last * 0.9]
    assert early and late
    growth = max(late) - max(early)
    one = max(bytes_on_disk(place.checkpoints / str(step)) for step in place.steps)
    print(f"{kind}: {max(early):.0f} MB, then {max(late):.0f} MB; a checkpoint has {one} bytes, the disk {max(disk)}")
    assert growth < MEGABYTES
    assert max(disk) <= (KEPT + 2) * one * 1.1, "those that are kept, one that is written and one that is deleted"
