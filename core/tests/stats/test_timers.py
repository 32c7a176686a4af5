"""Timers and gauges of a run, as ``timers.json`` has them."""

from __future__ import annotations

import json

import pytest

from rlcore.run.timers import Timers


def test_self_time_is_the_total_without_the_children() -> None:
    timers = Timers()
    advance = timers.root.child("advance")
    advance.add(4.0)
    timers.root.child("advance").add(6.0, count=99)  # the same timer at every call
    advance.child("env_step").add(6.0, count=100)
    advance.child("update").add(3.0)
    node = timers.to_json()["children"]["advance"]
    assert (node["total"], node["count"], node["self"]) == (10.0, 100, pytest.approx(1.0))
    assert node["children"]["env_step"] == {"total": 6.0, "count": 100, "self": 6.0}


def test_gauges_keep_last_and_extremes_without_what_json_cannot_say() -> None:
    timers = Timers()
    for value in (float("nan"), 3.0, 1.0, 2.0, float("inf")):
        timers.set_gauge("Walker", "Environment/Cumulative Reward", value)
    name = "Walker.Environment.CumulativeReward.mean"
    assert timers.to_json()["gauges"] == {name: {"value": 2.0, "min": 1.0, "max": 3.0, "count": 3}}


def test_timers_json_has_the_shape_of_ml_agents() -> None:
    timers = Timers()
    timers.root.child("run_training.setup").add(0.5)
    written = json.loads(json.dumps(timers.to_json()))
    assert list(written) == ["name", "gauges", "metadata", "total", "count", "self", "children"]
    assert (written["name"], written["count"]) == ("root", 1)
    assert written["metadata"]["timer_format_version"] == "0.1.0"
