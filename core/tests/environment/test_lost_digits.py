"""Observations that are large and change little are warned of: float32 keeps none of their digits."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore.contracts.batches import AgentBatch
from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationSpec
from rlcore.run.behaviors.checks import BatchCheck

SPEC = BehaviorSpec(
    "Agent",
    (ObservationSpec("speed", (2,), np.float32), ObservationSpec("clock", (2,), np.float32)),
    discrete=(2,),
    env_index=np.array([0, 1]),
)
STEPS = 20


def warnings_after(
    clock: NDArray[np.floating[Any]],
    caplog: pytest.LogCaptureFixture,
    dtype: type = np.float32,
    ended_at: int | None = None,
) -> list[str]:
    """The warnings in a run in which the first number of both agents' clocks is ``clock`` [T] in turn."""
    check = BatchCheck(SPEC, lambda: "at step 60", first=STEPS)
    seen = {"speed": np.zeros((2, 2), np.float32), "clock": np.zeros((2, 2), dtype)}
    off = np.zeros(2, np.bool_)
    for step, now in enumerate(clock):
        ended = np.full(2, step == ended_at)
        final = {name: array.copy() for name, array in seen.items()} if ended.any() else None
        seen["clock"][:, 0] = now
        seen["speed"][:] = np.sin(step)
        check.check(AgentBatch(seen, np.zeros(2, np.float32), ended, off, final_observations=final))
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_times_since_1970_are_warned_of_once(dtype: type, caplog: pytest.LogCaptureFixture) -> None:
    (line,) = warnings_after(1.7e9 + 0.05 * np.arange(3 * STEPS), caplog, dtype)
    assert "observation 'clock' of slot 0 (environment 0) is 17000000" in line
    assert "no numbers between that and 128 more" in line
    assert "subtract an offset" in line


def test_a_smaller_offset_that_leaves_few_digits_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = warnings_after(1e6 + np.sin(np.arange(STEPS) / 3) / 2, caplog)
    assert "no numbers between that and 0.0625 more" in line


def test_an_episode_that_begins_at_another_time_hides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    clock = 1.7e9 + 0.05 * np.arange(STEPS)
    clock[7:] += 1e7
    assert len(warnings_after(clock, caplog, ended_at=7)) == 1


@pytest.mark.parametrize(
    "clock",
    [
        0.05 * np.arange(STEPS),  # the time of an episode
        1.7e9 + 86400.0 * np.arange(STEPS),  # float32 tells days apart
        np.full(STEPS, 1e6),  # a constant that float32 has
        1.0 - 1e-7 * (np.arange(STEPS) % 2),  # rounding errors of a body at rest
        1e8 * 1.5 ** np.arange(STEPS),
    ],
    ids=["small", "days", "constant", "at rest", "grows"],
)
def test_numbers_whose_digits_float32_keeps_give_no_warning(
    clock: NDArray[np.floating[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings_after(clock, caplog) == []
