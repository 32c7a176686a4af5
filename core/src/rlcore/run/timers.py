"""Where a run's time went: a tree of timers, written as ``timers.json`` in ML-Agents' shape.

The loop measures with :func:`time.perf_counter` and hands seconds over, because a context manager costs more than
some of what it would measure::

    step = timers.root.child("env_step")
    started = perf_counter()
    batch = environment.step(actions)
    step.add(perf_counter() - started)

Nothing that is learned depends on these times: they differ from run to run.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from time import perf_counter, time
from typing import Any

from rlcore.contracts.results import PhaseTimes

FORMAT_VERSION = "0.1.0"  # ML-Agents' timer_format_version


class Timer:
    """Seconds spent in one block and how often it was entered. Blocks inside it are its children."""

    __slots__ = ("children", "count", "total")

    def __init__(self) -> None:
        self.total = 0.0  # seconds, children included
        self.count = 0
        self.children: dict[str, Timer] = {}

    def child(self, name: str) -> Timer:
        """The timer of a block inside this one; the same one at every call."""
        return self.children.setdefault(name, Timer())

    def add(self, seconds: float, count: int = 1) -> None:
        self.total += seconds
        self.count += count

    def add_phases(self, times: PhaseTimes) -> None:
        """Add the times of an epoch, under ML-Agents' names."""
        self.add(times.collecting + times.updating)
        self.child("TorchPolicy.evaluate").add(times.acting, times.environment_steps)
        self.child("env_step").add(times.stepping, times.environment_steps)
        self.child("process_trajectory").add(times.recording, times.environment_steps)
        self.child("_update_policy").add(times.updating, times.updates)

    @contextmanager
    def measure(self) -> Iterator[Timer]:
        """Times a block that runs seldom: a setup, a checkpoint, an update."""
        started = perf_counter()
        try:
            yield self
        finally:
            self.add(perf_counter() - started)

    def to_json(self) -> dict[str, Any]:
        """``self`` are the seconds outside the children."""
        inside = sum(child.total for child in self.children.values())
        node: dict[str, Any] = {}
        node["total"] = self.total
        node["count"] = self.count
        node["self"] = max(0.0, self.total - inside)
        if self.children:
            node["children"] = {name: child.to_json() for name, child in self.children.items()}
        return node


class Timers:
    """The timers and gauges of one run."""

    def __init__(self) -> None:
        self.root = Timer()
        self.gauges: dict[str, dict[str, float]] = {}  # the last value of each, its extremes, and how many there were
        self._started = perf_counter()
        self._start_time = time()

    def set_gauge(self, behavior: str, tag: str, value: float) -> None:
        """Note a statistic, under ML-Agents' name. A value that is not finite is left out: JSON has no word for it."""
        if not isfinite(value):
            return
        name = f"{behavior}.{tag}.mean".replace("/", ".").replace(" ", "")
        gauge = self.gauges.setdefault(name, {"value": value, "min": value, "max": value, "count": 0})
        gauge["value"] = value
        gauge["min"] = min(gauge["min"], value)
        gauge["max"] = max(gauge["max"], value)
        gauge["count"] += 1

    def to_json(self) -> dict[str, Any]:
        """``name``, ``gauges``, ``metadata`` and the tree; the root lasts from the creation of this object."""
        self.root.total = perf_counter() - self._started
        self.root.count = 1
        return {
            "name": "root",
            "gauges": self.gauges,
            "metadata": {
                "timer_format_version": FORMAT_VERSION,
                "start_time_seconds": str(int(self._start_time)),
                "python_version": sys.version.replace("\n", " "),
                "platform": platform.platform(),
                "command_line_arguments": " ".join(sys.argv),
                "end_time_seconds": str(int(time())),
            },
            **self.root.to_json(),
        }
