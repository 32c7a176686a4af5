"""A thousand checkpoints: the disk holds what it is to keep, and the memory of the process stays as it was."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import psutil
import pytest
from fault_cases import SELF_PLAY

pytestmark = [pytest.mark.faults, pytest.mark.deep]

SAVES = 1000
KEPT = 3
MEGABYTES = 30.0


@pytest.mark.parametrize("kind", [{"environment": "CartPole-v1"}, SELF_PLAY["PPO"]], ids=["PPO", "self-play"])
def test_a_thousand_saves_leave_disk_and_memory_as_they_were(workplace: Any, kind: dict[str, Any]) -> None:
    last = 8 * SAVES
    own = {"max_steps": last, "checkpoint_interval": 8, "keep_checkpoints": KEPT, "summary_freq": 1000}
    place = workplace(**kind | own)
    process = place.start()
    resident: list[tuple[int, float]] = []  # the step of the newest checkpoint, and megabytes
    deadline = time.monotonic() + 1200
    while process.exitcode is None and time.monotonic() < deadline:
        with suppress(FileNotFoundError, IndexError, psutil.NoSuchProcess):
            resident.append((place.steps[-1], psutil.Process(process.pid).memory_info().rss / 1e6))
        time.sleep(0.05)
    assert process.exitcode == 0, place.stderr
    assert place.verify()[-1] >= last * 0.99 and len(place.steps) == KEPT and place.leftovers() == []
    early = [each for step, each in resident if last * 0.1 < step < last * 0.3]
    late = [each for step, each in resident if step > last * 0.9]
    assert max(late) - max(early) < MEGABYTES
