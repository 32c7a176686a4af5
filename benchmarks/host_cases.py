"""Parts that the faults of ``host_faults.py`` share: the configuration, what is awaited, and what must hold."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))

from hosts import Hosts, Job  # noqa: E402

TIMEOUT = 8  # rank_timeout
LIMIT = TIMEOUT + 15  # seconds in which all have ended or continue
INTERVAL = 1024  # steps between two checkpoints
SUMMARY = 512  # steps between two summaries, and of a rollout
FIRST = 2 * INTERVAL  # the step from which faults come
START_SECONDS = 400.0
LEARN_SECONDS = 400.0
ENDLESS = 100_000_000
CONFIG = """
preset: none
environment: {{id: CartPole-v1, num_envs: 8{workers}}}
behaviors:
  CartPole:
    trainer_type: {trainer}
    max_steps: {steps}
    summary_freq: {summary}
    checkpoint_interval: {interval}
    hyperparameters: {{{hyperparameters}}}
checkpoint_settings: {{run_id: run}}
torch_settings: {{rank_timeout: {timeout}}}
"""
PPO = f"buffer_size: {SUMMARY}, batch_size: 256, num_epoch: 1"

Fault = Callable[[Hosts], tuple[float, str]]
"""Makes a fault on fresh hosts, and returns the seconds until all had ended or continued, with what happened."""


class Missed(Exception):
    """A rule that does not hold, in one line."""


class NotTried(Exception):
    """Why the fault could not be made, in one line."""


@attrs.frozen
class Case:
    """One fault.

    Attributes:
        name: What happens.
        run: Makes it.
        count: Hosts.
        lossy: Whether the hosts are at the slow and lossy switch.
        limit: Seconds in which it must be over; None if they are those in which a new host starts its processes.
    """

    name: str
    run: Fault
    count: int = 2
    lossy: bool = False
    limit: float | None = float(LIMIT)


def configuration(
    steps: int = ENDLESS, timeout: float = TIMEOUT, workers: str = "", trainer: str = "ppo", hyperparameters: str = PPO
) -> str:
    """The configuration of a run; ``workers`` is that of ``environment.workers``."""
    return CONFIG.format(
        workers=f", workers: {workers}" if workers else "",
        trainer=trainer,
        steps=steps,
        summary=SUMMARY,
        interval=INTERVAL,
        hyperparameters=hyperparameters,
        timeout=timeout,
    )


def learning(job: Job, step: int = FIRST, seconds: float = START_SECONDS) -> None:
    """Wait until a run has learned ``step`` steps."""
    job.said(f"Step: {step}.", seconds)


def last_step(job: Job) -> int:
    """The step of the last summary that a job printed."""
    steps = [int(part.split(".")[0]) for part in job.output().split("Step: ")[1:]]
    return steps[-1]


def continues(job: Job, began: float) -> float:
    """Wait until a run has learned more than it has now; return the seconds since ``began``."""
    learning(job, last_step(job) + SUMMARY, LEARN_SECONDS)
    return time.monotonic() - began


def continues_after(job: Job, text: str, began: float) -> float:
    """Wait until a run prints ``text``, and has learned more after that; return the seconds since ``began``."""
    job.said(text, LEARN_SECONDS)
    return continues(job, began)


def all_ended(jobs: Sequence[Job], lost: str, began: float, codes: Sequence[int] = (1,)) -> float:
    """The seconds after which all ``jobs`` had ended. Raises Missed if one did not, or does not name the host."""
    last = 0.0
    for job in jobs:
        try:
            code = job.ended(max(0.1, LIMIT + 100 - (time.monotonic() - began)))
        except AssertionError as error:
            raise Missed(f"{job.host.name} hangs: {job.output().splitlines()[-2:]}") from error
        last = max(last, time.monotonic() - began)
        if code not in codes:
            raise Missed(f"{job.host.name} ended with {code}: {job.output().splitlines()[-3:]}")
        lines = [line for line in job.output().splitlines() if "error: " in line]
        if not any(lost in line for line in lines):
            raise Missed(f"{job.host.name} does not name {lost}: {lines}")
    return last


def all_done(jobs: Sequence[Job]) -> None:
    """Wait until all ``jobs`` have learned everything. Raises Missed if one ends otherwise."""
    for job in jobs:
        code = job.ended(LEARN_SECONDS)
        if code:
            raise Missed(f"{job.host.name} ended with {code}: {job.output().splitlines()[-3:]}")


def require_checkpoint(results: Path, at_least: int) -> str:
    """Check the last checkpoint in a directory of runs. Raises Missed if more was lost than an interval."""
    from rlcore import load_checkpoint
    from rlcore.storage.checkpoints import find_checkpoints

    found = find_checkpoints(results / "run/checkpoints")
    if not found:
        raise Missed("no checkpoint is left")
    last = found[-1]
    load_checkpoint(last.path)
    if last.step < at_least - INTERVAL - SUMMARY:  # a summary may be printed before its checkpoint is complete
        raise Missed(f"the last checkpoint is of step {last.step}, and {at_least} were learned")
    return f"checkpoint {last.step} of {at_least}"
