from __future__ import annotations

import json
import time

import pytest

from rlcore.run.timers import Timers


def test_self_time_is_the_total_without_the_children() -> None:
    timers = Timers()
    advance = timers.root.child("advance")
    advance.add(10.0, count=100)
    advance.child("env_step").add(6.0, count=100)
    advance.child("update").add(3.0)
    node = timers.to_json()["children"]["advance"]
    assert node["total"] == 10.0 and node["count"] == 100
    assert node["self"] == pytest.approx(1.0)
    assert node["children"]["env_step"] == {"total": 6.0, "count": 100, "self": 6.0}


def test_a_child_is_the_same_timer_at_every_call() -> None:
    root = Timers().root
    root.child("a").add(1.0)
    root.child("a").add(2.0, count=4)
    assert root.child("a").total == 3.0 and root.child("a").count == 5


def test_measure_counts_a_block_that_raises() -> None:
    timer = Timers().root.child("a")

    def block() -> None:
        with timer.measure():
            time.sleep(0.01)
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        block()
    assert timer.count == 1 and timer.total >= 0.01


def test_gauges_keep_last_and_extremes() -> None:
    timers = Timers()
    for value in (3.0, 1.0, 2.0):
        timers.set_gauge("Walker.reward", value)
    assert timers.to_json()["gauges"] == {"Walker.reward": {"value": 2.0, "min": 1.0, "max": 3.0, "count": 3}}


def test_a_gauge_leaves_out_what_json_cannot_say() -> None:
    timers = Timers()
    for value in (float("nan"), 1.0, float("inf")):
        timers.set_gauge("loss", value)
    assert timers.to_json()["gauges"] == {"loss": {"value": 1.0, "min": 1.0, "max": 1.0, "count": 1}}


def test_timers_json_has_the_shape_of_ml_agents() -> None:
    timers = Timers({"rlcore_version": "0.1.0"})
    timers.root.child("run_training.setup").add(0.5)
    written = json.loads(json.dumps(timers.to_json()))
    assert list(written) == ["name", "gauges", "metadata", "total", "count", "self", "children"]
    assert written["name"] == "root" and written["count"] == 1
    assert written["metadata"]["timer_format_version"] == "0.1.0"
    assert written["metadata"]["rlcore_version"] == "0.1.0"


def test_adding_is_cheap_enough_for_every_step() -> None:
    timer = Timers().root.child("env_step")
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(10_000):
            timer.add(1e-6)
        best = min(best, (time.perf_counter() - started) / 10_000)
    assert best < 2e-6
