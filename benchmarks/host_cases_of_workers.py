"""Faults of hosts of a Ray cluster, on which ranks or workers are."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path

from host_cases import (
    FIRST,
    INTERVAL,
    LEARN_SECONDS,
    LIMIT,
    ROOT,
    START_SECONDS,
    TIMEOUT,
    Case,
    Fault,
    Missed,
    NotTried,
    all_done,
    all_ended,
    configuration,
    continues,
    continues_after,
    last_step,
    learning,
    require_checkpoint,
)
from hosts import Hosts, Job

HEAD = "10.77.0.1:6379"
TOKEN = "0123456789abcdef0123456789abcdef"
RAY = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "RAY_USAGE_STATS_ENABLED": "0"}
LOSSES = {True: "power loss", False: "cut"}
SWEEP = """
sweep:
  trials: 2
  jobs: 1
  metric: reward
  parameters:
    behaviors.CartPole.hyperparameters.learning_rate: {low: 1.0e-4, high: 1.0e-3, log: true}
"""


def join(made: Hosts, number: int, cpus: int = 2) -> None:
    """Start Ray on a host; host 1 is the head."""
    if importlib.util.find_spec("ray") is None:
        raise NotTried("ray is not installed")
    place = ["--head", "--port=6379", "--include-dashboard=false"] if number == 1 else [f"--address={HEAD}"]
    options = [f"--num-cpus={cpus}", f"--node-ip-address=10.77.0.{number}", "--object-store-memory=80000000"]
    job = made.start(number, [sys.executable, ROOT / "tests/support/ray_host.py", *place, *options], **RAY)
    if job.ended(START_SECONDS):
        raise NotTried(f"Ray did not start on host{number}: {job.output()[-300:]}")


def shared(made: Hosts) -> Path:
    """The directory that all hosts have."""
    folder = made.folder / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def on_cluster(made: Hosts, number: int, *words: str) -> Job:
    """Start ``rlcore WORDS`` on a host, in the directory that all hosts have."""
    return made.start(number, ["env", "-C", shared(made), sys.executable, "-m", "rlcore", *words], **RAY)


def run_on_cluster(made: Hosts, number: int, text: str, *words: str) -> Job:
    """Start ``rlcore WORDS`` on a host, with the configuration ``text`` in ``run.yaml``."""
    (shared(made) / "run.yaml").write_text(text)
    return on_cluster(made, number, *words)


def ray_workers(count: int) -> str:
    return f"{{executor: ray, count: {count}, address: '{HEAD}', step_timeout: {TIMEOUT}, reset_timeout: {TIMEOUT}}}"


def ray_ranks(lost: int, power: bool, *more: str) -> Fault:
    """Lose a host of ranks that Ray started, with ``more`` options of ``ray ranks``.

    Host 1 is Ray's head; the command is on the host that is left.
    """

    def run(made: Hosts) -> tuple[float, str]:
        join(made, 1)
        join(made, 2)
        options = ("--count", "3", "--address", HEAD, "--wait", "5", *more)
        job = run_on_cluster(made, 3 - lost, configuration(), "ray", "ranks", *options, "run.yaml")
        learning(job)
        learned = last_step(job)
        began = time.monotonic()
        (made.lose_power if power else made.cut)(lost)
        seconds = all_ended([job], f"host{lost}", began)
        return seconds, require_checkpoint(shared(made) / "results", learned)

    return run


def ray_ranks_restart(made: Hosts) -> tuple[float, str]:
    """Lose the host of ranks while a third host has room: all ranks start again there."""
    for number in (1, 2, 3):
        join(made, number, cpus=1)
    options = ("--count", "2", "--address", HEAD, "--max-restarts", "1", "--wait", str(START_SECONDS))
    steps = FIRST + 16 * INTERVAL
    job = run_on_cluster(made, 1, configuration(steps=steps), "ray", "ranks", *options, "run.yaml")
    learning(job)
    lost = 2 if "on host2" in job.output() else 3
    began = time.monotonic()
    made.lose_power(lost)
    job.said("resumed at step ", LEARN_SECONDS)
    seconds = time.monotonic() - began
    if f"host{lost}" not in job.output().partition("Step: ")[2]:
        raise Missed(f"host{lost} is not named")
    all_done([job])
    return seconds, "resumed, done"


def workers_lost(power: bool, replaced: bool = False) -> Fault:
    """Lose the host of some workers of Ray: they start again on the host that is left, or on a new one."""

    def run(made: Hosts) -> tuple[float, str]:
        join(made, 1, cpus=1 if replaced else 3)
        join(made, 2)
        count = 3
        job = run_on_cluster(made, 1, configuration(workers=ray_workers(count)), "run", "run.yaml")
        learning(job)
        began = time.monotonic()
        (made.lose_power if power else made.cut)(2)
        job.said("host2", LIMIT + 60)
        named = time.monotonic() - began
        if replaced:
            join(made, 3)
        seconds = continues_after(job, "is started again", began)
        if named > LIMIT:
            raise Missed(f"the host is named after {named:.1f} s; the run continued after {seconds:.1f} s")
        return seconds, f"continued; named after {named:.1f} s"

    return run


def head_of_workers_lost(made: Hosts) -> tuple[float, str]:
    """Lose Ray's head while a run has workers elsewhere."""
    join(made, 1, cpus=0)
    join(made, 2)
    job = run_on_cluster(made, 2, configuration(workers=ray_workers(2)), "run", "run.yaml")
    learning(job)
    learned = last_step(job)
    began = time.monotonic()
    made.lose_power(1)
    seconds = continues(job, began)
    deadline = began + 90  # Ray waits a minute for its head
    while job.code is None and time.monotonic() < deadline:
        time.sleep(0.1)
    if job.code is None:
        continues(job, began)
        return seconds, "continued for 90 s"
    all_ended([job], "10.77.0.1", began, codes=range(1, 256))
    return seconds, f"continued; exit code {job.code} later, {require_checkpoint(shared(made) / 'results', learned)}"


def sweep(made: Hosts) -> tuple[float, str]:
    """Lose the host of some workers of a sweep's trials: the sweep continues and ends."""
    join(made, 1, cpus=2)
    join(made, 2)
    text = configuration(steps=FIRST + 4 * INTERVAL, workers=ray_workers(2)) + SWEEP
    job = run_on_cluster(made, 1, text, "sweep", "run.yaml", "--run-id", "search")
    log = shared(made) / "results/search"
    deadline = time.monotonic() + START_SECONDS
    while not list(log.rglob("checkpoints/[0-9]*")):
        if time.monotonic() > deadline or job.code is not None:
            raise Missed(f"no trial learns: {job.output()[-300:]}")
        time.sleep(0.1)
    began = time.monotonic()
    made.cut(2)
    all_done([job])
    if " failed; " in job.output():
        raise Missed(f"a trial failed, and the sweep ended after {time.monotonic() - began:.1f} s")
    return time.monotonic() - began, "continued, done"


CASES = {
    "ray-ranks": Case("Ray: cut, the host of ranks", ray_ranks(2, power=False)),
    "ray-ranks-power": Case("Ray: power loss, the host of ranks", ray_ranks(2, power=True)),
    "ray-ranks-restart": Case("Ray: power loss, ranks start again on a third host", ray_ranks_restart, 3, limit=None),
    "ray-head": Case("Ray: power loss, the head and a rank", ray_ranks(1, power=True)),
    "ray-head-restarts": Case(
        "Ray: power loss, the head and a rank, with --max-restarts", ray_ranks(1, True, "--max-restarts", "2")
    ),
    "ray-workers": Case("Ray: cut, the host of workers", workers_lost(power=False)),
    "ray-workers-power": Case("Ray: power loss, the host of workers", workers_lost(power=True)),
    "ray-workers-replaced": Case(
        "Ray: the host of workers is replaced", workers_lost(power=True, replaced=True), 3, limit=None
    ),
    "ray-head-workers": Case("Ray: power loss, the head, while workers are elsewhere", head_of_workers_lost),
    "ray-sweep": Case("Ray: cut, the host of workers of trials", sweep, limit=None),
}
