"""Where a run's time went: a tree of timers, written as ``timers.json`` in ML-Agents' shape.

The loop measures with :func:`time.perf_counter` and hands seconds over, because a context manager costs more than
some of what it would measure::

    step = timers.root.child("env_step")
    started = perf_counter()
    batch = environment.step(actions)
    step.add(perf_counter() - started)

:class:`SpeedAdvice` logs one line, once in a process that trains: what the times say about ranks and workers. Nothing
else depends on these times: they differ from run to run.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from time import perf_counter, time
from typing import Any

import attrs

log = logging.getLogger(__name__)

# Of speed advice: seconds to measure after the first update, which also waits for what PyTorch prepares only once.
MEASURED_SECONDS = 1.0
# A step of the environments of one worker that takes less is mostly the exchange with it.
LEAST_STEP = 0.5e-3
# Share of the time in steps of the environments from which workers are advised.
MOSTLY = 0.6

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
        timer = self.children.get(name)
        if timer is None:
            timer = self.children[name] = Timer()
        return timer

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

    @property
    def self_seconds(self) -> float:
        """Seconds not accounted for by children."""
        return max(0.0, self.total - sum(child.total for child in self.children.values()))

    def to_json(self) -> dict[str, Any]:
        node: dict[str, Any] = {"total": self.total, "count": self.count, "self": self.self_seconds}
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

    def plus(self, other: PhaseTimes, factor: int = 1) -> PhaseTimes:
        """Add ``factor`` times the seconds and counts of ``other``."""
        names = [name for name in attrs.fields_dict(PhaseTimes) if name != "updating_now"]
        return PhaseTimes(**{name: getattr(self, name) + factor * getattr(other, name) for name in names})

    def add_to(self, tree: Timer) -> None:
        """Add the times to a run's timers, under ML-Agents' names."""
        tree.add(self.collecting + self.updating)
        tree.child("TorchPolicy.evaluate").add(self.acting, self.environment_steps)
        tree.child("env_step").add(self.stepping, self.environment_steps)
        tree.child("process_trajectory").add(self.recording, self.environment_steps)
        tree.child("_update_policy").add(self.updating, self.updates)


@attrs.define
class Gauge:
    """The last value of something measured now and then, and its extremes."""

    value: float
    min: float
    max: float
    count: int = 1

    def set(self, value: float) -> None:
        self.value = value
        self.min = min(self.min, value)
        self.max = max(self.max, value)
        self.count += 1


def gauge_name(behavior: str, tag: str) -> str:
    """``Walker.Environment.CumulativeReward.mean``: the name of a statistic's gauge in ML-Agents."""
    return f"{behavior}.{tag}.mean".replace("/", ".").replace(" ", "")


class Timers:
    """The timers and gauges of one run."""

    def __init__(self, metadata: Mapping[str, str] | None = None) -> None:
        self.root = Timer()
        self.gauges: dict[str, Gauge] = {}
        self._metadata = dict(metadata or {})
        self._started = perf_counter()
        self._start_time = time()

    def set_gauge(self, name: str, value: float) -> None:
        """A value that is not finite is left out: JSON has no word for it."""
        if not isfinite(value):
            return
        gauge = self.gauges.get(name)
        if gauge is None:
            self.gauges[name] = Gauge(value, value, value)
        else:
            gauge.set(value)

    def to_json(self) -> dict[str, Any]:
        """``name``, ``gauges``, ``metadata`` and the tree; the root lasts from the creation of this object."""
        self.root.total = perf_counter() - self._started
        self.root.count = 1
        return {
            "name": "root",
            "gauges": {name: attrs.asdict(gauge) for name, gauge in self.gauges.items()},
            "metadata": {
                "timer_format_version": FORMAT_VERSION,
                "start_time_seconds": str(int(self._start_time)),
                "python_version": sys.version.replace("\n", " "),
                "platform": platform.platform(),
                "command_line_arguments": " ".join(sys.argv),
                **self._metadata,
                "end_time_seconds": str(int(time())),
            },
            **self.root.to_json(),
        }


@attrs.frozen
class Setting:
    """The K ``ranks`` of a run, the ``workers`` and the ``envs`` of each rank, and the ``cores`` of the machine.

    ``workers`` is 0 in one process, and None if nothing is stepped.
    """

    ranks: int
    workers: int | None
    envs: int
    cores: int = attrs.field(factory=lambda: os.cpu_count() or 1)


class SpeedAdvice:
    """Measures from the first update on, and logs the line of :func:`speed_advice` when that was long enough."""

    def __init__(self, setting: Setting, leads: bool) -> None:
        """``leads``: this is rank 0, which logs."""
        self.done = not leads
        self._setting = setting
        self._earlier = PhaseTimes()  # of earlier epochs
        self._first: tuple[PhaseTimes, float] | None = None  # after the first update

    def updated(self, times: PhaseTimes, elsewhere: float) -> bool:
        """An update ended; ``times`` are of this epoch. Returns whether that is all.

        ``elsewhere`` are seconds of this process: of exchanges with other ranks; in one, of steps within workers.
        """
        total = times.plus(self._earlier)
        if self._first is None:
            self._first = total, elsewhere
        elif not self.done:
            spent = total.plus(self._first[0], -1)
            if spent.collecting + spent.updating >= MEASURED_SECONDS:
                self.done = True
                line = speed_advice(spent, elsewhere - self._first[1], self._setting)
                if line is not None:
                    log.info("%s", line)
        return self.done

    def epoch_over(self, times: PhaseTimes) -> None:
        """An epoch with these ``times`` is over."""
        self._earlier = times.plus(self._earlier)


def speed_advice(times: PhaseTimes, elsewhere: float, setting: Setting) -> str | None:
    """Return what ``times``, and seconds ``elsewhere``, say about ranks and workers; None if nothing.

    K ranks do the work of one process, and exchange: one process needs at most K times their time without exchanges.
    One process needs at most the seconds that workers spend in steps of their environments.
    """
    total = times.collecting + times.updating
    step = times.stepping / max(times.environment_steps, 1)
    share = f"{100 * times.stepping / total:.0f}% of the time goes into steps of the environments"
    if setting.ranks > 1:
        exchanging = min(elsewhere, total)
        most = setting.ranks * (1 - exchanging / total)
        verdict = "one process is faster: leave torchrun out" if most < 1 else "ranks may pay"
        return (
            f"speed: {share} and {100 * times.updating / total:.0f}% into updates; {100 * exchanging / total:.0f}% is "
            f"exchange with other ranks and waiting for them: {setting.ranks} ranks are at most {most:.2g} times as "
            f"fast as one process; {verdict}"
        )
    if setting.workers:
        if not elsewhere:  # unknown: no shared memory, or steps that overlap with updates
            return None
        most = elsewhere / times.stepping
        verdict = "one process is faster: leave workers out" if most < 1 else "workers may pay"
        return (
            f"speed: {share}, {1000 * step:.2g} ms for a step of all: {setting.workers} workers make it at most "
            f"{most:.2g} times as fast as one process; {verdict}"
        )
    workers = min(setting.cores, setting.envs)
    part = times.stepping / total
    if setting.workers is None or workers < 2 or part < MOSTLY or step / workers < LEAST_STEP:
        return None
    most = 1 / (1 - part + part / workers)
    return (
        f"speed: {share}, {1000 * step:.2g} ms for a step of all; environment.workers: {workers} may make the run up "
        f"to {most:.2g} times as fast"
    )
