"""One line about workers and ranks: whether another layout of the run over processes would make it faster.

It is computed from times that the run measured, and logged only where the other layout would change much: the speed of
the run would be 1.15 times the present one or more, or 0.87 times or less. Steps may take
longer in several processes at once than in one, because they share caches and the memory. A run without workers cannot
know by how much, and says "at most"; one with workers measures what its steps take alone.
``benchmarks/layouts.py`` compares predictions with trainings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import floor
from time import perf_counter, process_time

import attrs

from rlcore import ConfigError, EnvironmentSpec, PhaseTimes, RunContext, StashKey, StatSummary, Tag
from rlcore_torch.ranks.refusals import refuse_in_ranks
from rlcore_torch.settings import OnPolicySettings
from rlcore_torch.warnings_at_start import steps_of_update

__all__ = ["Measured", "advised", "with_ranks", "with_workers", "without_ranks", "without_workers"]

# times the present speed, from which a line is worth reading
MORE = 1.15
LESS = 0.87
LEAST_SECONDS = 1.0  # of times that say something
LEAST_UPDATES = 3  # in an epoch with the first one, which waits for what is prepared only once
WORKER_EXCHANGE = 0.2e-3  # seconds in which a step reaches workers and its outcome comes back
RANK_EXCHANGE = 0.7e-3  # seconds in which ranks sum the gradients of a minibatch and wait for each other, at most
LEAST_STEP = 50e-6  # seconds of a step of one environment; less is hardly the environment's own time
MOST_EXCHANGE = 0.95  # of the time; exchanges of summaries and checkpoints are counted too, and their time is not
BUSY = (0.85, 1.15)  # seconds of the processor for each second, of one thread that computes all the time
TOGETHER = {"envpool", "jax", "torch"}  # libraries that step all environments in one program


@attrs.define
class Measured:
    """Where the time of one process went.

    Attributes:
        seconds: Of acting, stepping, recording and updating.
        stepping: Seconds in which the process stepped its environments, or waited for workers that did.
        steps: Steps of all environments of the process together.
        updates: Updates of its trainers.
        exchanging: Seconds of exchanges with other ranks, and of waiting for them.
        in_workers: Seconds that the steps of all workers would take one after the other; 0 if that is unknown.
    """

    seconds: float = 0.0
    stepping: float = 0.0
    steps: int = 0
    updates: int = 0
    exchanging: float = 0.0
    in_workers: float = 0.0


def with_workers(measured: Measured, envs: int, workers: int) -> float:
    """Return the largest speed, in times the present one, of a process whose ``envs`` environments step in ``workers``.

    It is less where a step takes longer beside those of other workers.
    """
    of_worker = -(-envs // workers)  # environments, of the worker that has most
    stepping = measured.stepping * of_worker / envs + measured.steps * WORKER_EXCHANGE
    seconds = measured.seconds - measured.stepping + stepping
    return measured.seconds / seconds


def without_workers(measured: Measured) -> float:
    """Return the speed, in times the present one, of a process that makes the steps of its workers itself."""
    return measured.seconds / (measured.seconds - measured.stepping + measured.in_workers)


def with_ranks(measured: Measured, envs: int, ranks: int, gradient_steps: float) -> float:
    """Return the least speed of several ``ranks``, in times that of the present process, which has ``envs``.

    Steps are divided among the ranks. Acting, recording and each of the ``gradient_steps`` may take as long with a part
    of the rows as with all of them, as those of small networks do.
    """
    of_rank = -(-envs // ranks)  # environments, of the rank that has most
    stepping = measured.stepping * of_rank / envs
    seconds = measured.seconds - measured.stepping + stepping + gradient_steps * RANK_EXCHANGE
    return measured.seconds / seconds


def without_ranks(measured: Measured, ranks: int) -> float:
    """Return the least speed of one process, in times that of the present ``ranks``, of which one was measured.

    One process does the work of all ranks, one after the other, and exchanges nothing.
    """
    return 1.0 / (ranks * (1.0 - exchange_share(measured)))


def exchange_share(measured: Measured) -> float:
    """Return the share of the time that was exchange with other ranks, at most ``MOST_EXCHANGE``."""
    return min(measured.exchanging / measured.seconds, MOST_EXCHANGE)


# ---------------------------------------------------------------- in a run


@attrs.define(eq=False)
class Watch:
    """The times that a run has measured so far, until the line is written."""

    measured: Measured = attrs.field(factory=Measured)
    started: float = attrs.field(factory=lambda: perf_counter())
    processor: float = attrs.field(factory=lambda: process_time())
    exchanged: float = 0.0  # of all seconds of exchanges, those before the present epoch
    worked: float = 0.0  # of all seconds in workers
    latest: PhaseTimes | None = None
    counts: bool = False  # whether an earlier epoch had an update
    done: bool = False

    def add(self, times: PhaseTimes, exchanged: float, worked: float) -> None:
        """Add an epoch, unless too much of it is the first update."""
        if self.counts or times.updates >= LEAST_UPDATES:
            measured = self.measured
            measured.seconds += times.collecting + times.updating
            measured.stepping += times.stepping
            measured.steps += times.environment_steps
            measured.updates += times.updates
            measured.exchanging += exchanged - self.exchanged
            measured.in_workers += worked - self.worked
        self.counts = self.counts or times.updates > 0
        self.latest = times
        self.exchanged = exchanged
        self.worked = worked

    @property
    def of_one_thread(self) -> bool:
        """Whether one thread computed all the time: nothing else did it for the process, or took the processor away."""
        least, most = BUSY
        computed = process_time() - self.processor
        busy = computed / (perf_counter() - self.started)
        return least <= busy <= most


WATCH = StashKey[Watch]()


def advised(run: RunContext, stats: Mapping[str, StatSummary]) -> str:
    """Return the line, once, after a summary with these ``stats``; empty before, afterwards, and if there is none.

    The first call of a run, at its start, begins to measure.
    """
    if WATCH not in run.stash:
        run.stash[WATCH] = Watch(exchanged=run.ranks.exchange_seconds)
    watch = run.stash[WATCH]
    times = run.times
    if watch.done or times is None or times is watch.latest:
        return ""
    if run.inference or run.offline or run.given is not None:
        watch.done = True
        return ""
    worked = stats.get(Tag.WORKER_STEPS)
    watch.add(times, run.ranks.exchange_seconds, 0.0 if worked is None else worked.mean)
    if watch.measured.seconds < LEAST_SECONDS:
        return ""
    watch.done = True
    return _line(run, watch)


def _line(run: RunContext, watch: Watch) -> str:
    environment = run.config.environment
    measured = watch.measured
    assert environment is not None  # the run steps one
    workers = environment.executor
    ranks = run.ranks.size
    if ranks > 1:
        factor = without_ranks(measured, ranks)
        if factor < MORE:
            return ""
        percent = 100 * exchange_share(measured)
        return (
            f"{percent:.0f}% of the time is exchange with other ranks: one process would be at least "
            f"{_times(factor)}; leave torchrun out"
        )
    if workers is None:
        return _of_one_process(run, watch)
    factor = without_workers(measured) if measured.in_workers else 1.0
    with_them = _seconds(measured.stepping / measured.steps)
    without = _seconds(measured.in_workers / measured.steps)
    steps = f"a step of all environments takes {with_them} with them, {without} without"
    if factor >= MORE:
        return (
            f"the {workers.count} workers cost more than they bring: {steps}; the run would be about "
            f"{_times(factor)} without environment.workers"
        )
    if factor <= LESS:
        return f"the {workers.count} workers make the run about {_times(1 / factor)}: {steps}"
    return ""


def _of_one_process(run: RunContext, watch: Watch) -> str:
    environment = run.config.environment
    measured = watch.measured
    envs = run.num_envs
    assert environment is not None
    share = f"steps of the environments take {100 * measured.stepping / measured.seconds:.0f}% of the time"
    count = min(_cores(), envs)
    libraries = run.plugins.record(EnvironmentSpec, environment.type).libraries
    if count < 2 or TOGETHER.intersection(libraries) or not watch.of_one_thread:
        return ""
    if with_workers(measured, envs, count) <= LESS:
        return f"{share}: workers would not pay"
    if measured.stepping / measured.steps / envs < LEAST_STEP:
        return ""
    in_workers = with_workers(measured, envs, count)
    in_ranks = _with_ranks(run, measured, count)
    if max(in_workers, in_ranks) < MORE:
        return ""
    if in_workers >= in_ranks / MORE:  # they learn the same, bit for bit
        return f"{share}: with environment.workers: {count}, the run would be at most about {_times(in_workers)}"
    command = f"torchrun --standalone --nproc-per-node {count} -m rlcore run"
    return f"{share}: {count} ranks would be about {_times(in_ranks)}: {command}"


def _with_ranks(run: RunContext, measured: Measured, ranks: int) -> float:
    """The least speed of ``ranks``; 0 where they are refused, or their exchanges cannot be counted."""
    try:
        refuse_in_ranks(run.config, run.plugins, ranks)
    except ConfigError:
        return 0.0
    most = 0.0  # gradient steps of an update
    for name, spec in run.behaviors.items():
        settings = run.config.behaviors.get(name, run.config.default_settings)
        chosen = None if settings is None else settings.hyperparameters
        if not isinstance(chosen, OnPolicySettings):
            return 0.0
        _, gradient_steps = steps_of_update(chosen, spec.slots)
        most = max(most, gradient_steps)
    return with_ranks(measured, run.num_envs, ranks, measured.updates * most)


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _times(factor: float) -> str:
    """A factor, rounded towards none."""
    return f"{floor(10 * factor) / 10:.1f} times as fast"


def _seconds(seconds: float) -> str:
    return f"{1e6 * seconds:.0f} us" if seconds < 1e-3 else f"{1e3 * seconds:.1f} ms"
