"""Runs the trials of a sweep as processes on a cluster; Ray decides where and when.

A trial is ``rlcore run`` with the overrides of the trial. Its state is in its run directory alone, so a sweep that was
ended in any way continues from the directories.
"""

from __future__ import annotations

import os
import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from typing import IO

import attrs
from filelock import FileLock, Timeout

from rlcore import (
    EXIT_DONE,
    EXIT_INTERNAL,
    EXIT_RUN_STATE,
    ConfigError,
    RunStateError,
    echo,
    open_to_append,
    write_atomically,
)
from rlcore_ray.process_actor import STDERR
from rlcore_ray.remote import RemoteProcess, Reserved, Signals, connected, wait_for_news
from rlcore_ray.sweep_file import SweepPlan
from rlcore_ray.sweep_records import DONE, FAILED, FILE, INTERRUPTED, LOST, TABLE, WAITING, Record, Records

__all__ = ["Sweep"]

LOOK_SECONDS = 0.5
LOCK, PROOF, LOGS = ".sweep.lock", ".sweep.id", "logs"
LOCKED_SECONDS = 60.0  # for the process of a host that was lost to notice that, and to free the run directory


@attrs.define(eq=False)
class _Attempt:
    """A process of a trial, its log, and the last line of its errors."""

    record: Record
    process: RemoteProcess
    log: IO[bytes]
    began: float
    started: bool = False
    error: str = ""


@attrs.define
class Sweep:
    """The trials of a sweep.

    Attributes:
        plan: What is run.
        reserved: What Ray reserves for each trial.
        address: Address of the cluster; None starts Ray on this machine.
        parallel: Most trials at once; None for all that fit.
        max_restarts: How often a trial is resumed after its process or host was lost.
    """

    plan: SweepPlan
    reserved: Reserved
    address: str | None
    parallel: int | None
    max_restarts: int
    _lost_at: dict[str, float] = attrs.field(factory=dict, init=False)
    _lost: dict[str, int] = attrs.field(factory=dict, init=False)
    _codes: list[int] = attrs.field(factory=list, init=False)

    def run(self) -> int:
        """Run all trials that are not done, and return the exit code: that of the first trial that failed, or 0.

        Raises RunStateError if another process runs the sweep, ConfigError if no host has what a trial needs.
        """
        self.plan.directory.mkdir(parents=True, exist_ok=True)
        with self._alone():
            records = Records.read(self.plan)
            records.write()
            left = [each for each in records.records if each.status != DONE]
            for record in left:
                record.status = WAITING
            total = len(records.records)
            done = f", {total - len(left)} of them done before" if len(left) < total else ""
            echo(f"sweep {self.plan.name}: {total} trial{'s' * (total > 1)}{done}; {self.plan.directory}")
            code = EXIT_DONE
            try:
                if left:
                    code = self._run(records, deque(left))
            finally:
                records.write()
            records.print()
            echo(f"{self.plan.directory / TABLE} and {FILE} have every trial")
            return code

    def _run(self, records: Records, waiting: deque[Record]) -> int:
        proof = (self.plan.directory.absolute() / PROOF, secrets.token_hex(16))
        write_atomically(proof[0], proof[1].encode())
        with ExitStack() as stack:
            signals = stack.enter_context(Signals())
            stack.enter_context(connected(self.address, self._on_this_machine(), self.reserved))
            self._require_host()
            running: list[_Attempt] = []
            stack.callback(_end_all, running)
            while running or waiting:
                while waiting and signals.first is None and len(running) < self._most_at_once():
                    running.append(self._begin(waiting.popleft(), proof))
                self._take_news(running)
                for number in signals.taken():
                    waiting.clear()
                    for attempt in running:
                        attempt.process.send(number)
                for attempt in list(running):
                    process = attempt.process
                    if signals.first is not None and process.place is None:  # not started yet
                        attempt.record.status = INTERRUPTED
                    elif process.code is None:
                        continue
                    else:
                        self._ended(attempt, waiting, stopping=signals.first is not None)
                    running.remove(attempt)
                    _end(attempt)
                    records.write()
            if signals.first is not None:
                echo("interrupted; the same command continues the sweep", err=True)
                return signals.exit_code
        return self._codes[0] if self._codes else EXIT_DONE

    def _begin(self, record: Record, proof: tuple[Path, str]) -> _Attempt:
        logs = self.plan.directory / LOGS
        logs.mkdir(exist_ok=True)
        log = open_to_append(logs / f"{record.trial.name}.log")
        process = RemoteProcess(self.reserved, proof)
        return _Attempt(record, process, log, monotonic())

    def _take_news(self, running: list[_Attempt]) -> None:
        by_process = {id(each.process): each for each in running}
        for process in wait_for_news([each.process for each in running], LOOK_SECONDS):
            attempt = by_process[id(process)]
            for stream, line in process.take():
                attempt.log.write(line)
                attempt.log.flush()
                if stream == STDERR and line.startswith(b"error:"):
                    attempt.error = line.decode("utf-8", "replace").strip()
            if process.place is not None and not attempt.started and process.code is None:
                attempt.started = True
                trial = attempt.record.trial
                directory = self.plan.directory / trial.name
                resumes = Record(trial).read(directory)
                how = ["--resume"] if resumes else ["--force"] if directory.exists() else []
                process.start([*trial.arguments(self.plan), *how], {})
                echo(f"{trial.name}: {'resumes' if resumes else 'starts'} on {process.place.host}")

    def _ended(self, attempt: _Attempt, waiting: deque[Record], stopping: bool) -> None:
        """Take the result of a trial whose process has ended, and let it wait again if it was lost."""
        record, code, name = attempt.record, attempt.process.code, attempt.record.trial.name
        assert code is not None
        record.read(self.plan.directory / name)
        in_use = code == EXIT_RUN_STATE and monotonic() - self._lost_at.get(name, -LOCKED_SECONDS) < LOCKED_SECONDS
        if code == EXIT_DONE:
            record.status, record.problem = DONE, ""
            score = "-" if record.score is None else f"{record.score:.2f}"
            echo(f"{name}: done, score {score} after {record.steps} steps")
        elif stopping:
            record.status = INTERRUPTED
        elif code < 0 or in_use:
            how = "its host or actor was lost" if attempt.process.lost else f"its process ended by signal {-code}"
            if not in_use:
                self._lost_at[name] = monotonic()
                self._lost[name] = self._lost.get(name, 0) + 1
                record.restarts += 1
                record.problem = how
            if self._lost.get(name, 0) <= self.max_restarts:
                waiting.appendleft(record)
                record.status = WAITING
                if not in_use:
                    echo(f"{name}: {how}; it starts again", err=True)
                return
            record.status = LOST
            self._codes.append(EXIT_INTERNAL)
            echo(f"{name}: {how}, {self._lost[name]} times (--max-restarts {self.max_restarts})", err=True)
        else:
            record.status = FAILED
            record.problem = attempt.error or f"exit code {code}"
            self._codes.append(code)
            echo(f"{name}: {record.problem} (log: {self.plan.directory / LOGS / name}.log)", err=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                stack.enter_context(FileLock(self.plan.directory / LOCK).acquire(timeout=0))
            except Timeout as error:
                problem = f"{self.plan.directory}: another process runs this sweep; wait or stop it"
                raise RunStateError(problem) from error
            yield

    def _on_this_machine(self) -> int:
        """The number of trials that an own Ray has room for."""
        if self.parallel is not None:
            return self.parallel
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, int(cores // self.reserved.cpus)) if self.reserved.cpus else cores

    def _most_at_once(self) -> int:
        """The number of trials that the cluster has room for, of which ``parallel`` may run."""
        import ray

        total = ray.cluster_resources()
        fit = min((int(total.get(name, 0) // amount) for name, amount in self.reserved.bundle.items()), default=1)
        return max(1, min(fit, self.parallel or fit))

    def _require_host(self) -> None:
        import ray

        hosts = [each["Resources"] for each in ray.nodes() if each["Alive"]]
        needed = self.reserved.bundle
        if not any(all(host.get(name, 0) >= amount for name, amount in needed.items()) for host in hosts):
            raise ConfigError(f"no host of the cluster has what a trial needs: {self.reserved} (--cpus, --gpus)")


def _end_all(running: list[_Attempt]) -> None:
    for attempt in running:
        _end(attempt)


def _end(attempt: _Attempt) -> None:
    attempt.process.kill()
    attempt.log.close()
