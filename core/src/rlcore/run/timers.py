"""Where a run's time went: a tree of timers, written as ``timers.json`` in ML-Agents' shape.

The loop measures with :func:`time.perf_counter` and hands seconds over, because a context manager costs more than
some of what it would measure::

    step = timers.root.child("env_step")
    started = perf_counter()
    batch = environment.step(actions)
    step.add(perf_counter() - started)

:func:`speed_advice` is one line about ranks, which a run in several ranks logs once. Nothing else depends on
these times: they differ from run to run.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from time import perf_counter, time
from typing import Any

import attrs

# Of speed advice: seconds that an epoch must have taken for its times to say something.
MEASURED_SECONDS = 1.0
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
        node: dict[str, Any] = {"total": self.total, "count": self.count, "self": max(0.0, self.total - inside)}
        if self.children:
            node["children"] = {name: child.to_json() for name, child in self.children.items()}
        return node


@attrs.define
class PhaseTimes:
    """Seconds and counts of the phases of a loop: collecting, updating, evaluating."""

    acting: float = 0.0
    stepping: float = 0.0
    recording: float = 0.0
    updating: float = 0.0
    evaluating: float = 0.0
    environment_steps: int = 0
    updates: int = 0
    updating_now: bool = False

    @property
    def collecting(self) -> float:
        return self.acting + self.stepping + self.recording

    def add_to(self, tree: Timer) -> None:
        """Add the times to a run's timers, under ML-Agents' names."""
        tree.add(self.collecting + self.updating)
        tree.child("TorchPolicy.evaluate").add(self.acting, self.environment_steps)
        tree.child("env_step").add(self.stepping, self.environment_steps)
        tree.child("process_trajectory").add(self.recording, self.environment_steps)
        tree.child("_update_policy").add(self.updating, self.updates)


class Timers:
    """The timers and gauges of one run."""

    def __init__(self) -> None:
        self.root = Timer()
        self.gauges: dict[str, dict[str, float]] = {}  # the last value of each, its extremes, and how many there were
        self._started = perf_counter()
        self._start_time = time()

    def set_gauge(self, behavior: str, tag: str, value: float) -> None:
        """Note a statistic, under ML-Agents' name. A value that is not finite is left out: JSON has no word for it."""
        name = f"{behavior}.{tag}.mean".replace("/", ".").replace(" ", "")
        if isfinite(value):
            known = self.gauges.get(name, {"min": value, "max": value, "count": 0})
            least, most = min(known["min"], value), max(known["max"], value)
            self.gauges[name] = {"value": value, "min": least, "max": most, "count": known["count"] + 1}

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


def speed_advice(times: PhaseTimes, exchanging: float, ranks: int) -> str:
    """Return what the ``times`` of an epoch, and the seconds of exchanges with other ranks, say about ranks.

    K ranks do the work of one process, and exchange: one process needs at most K times their time without exchanges.
    """
    total = times.collecting + times.updating
    exchanged = min(exchanging / total, 1.0)
    most = ranks * (1 - exchanged)
    verdict = "one process is faster: leave torchrun out" if most < 1 else "ranks may pay"
    return (
        f"speed: {100 * times.stepping / total:.0f}% of the time goes into steps of the environments and "
        f"{100 * times.updating / total:.0f}% into updates; {100 * exchanged:.0f}% is exchange with other ranks and "
        f"waiting for them: {ranks} ranks are at most {most:.2g} times as fast as one process; {verdict}"
    )
