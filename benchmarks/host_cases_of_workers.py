"""Faults of hosts of a Ray cluster, and of hosts on which actors play."""

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


def on_cluster(made: Hosts, number: int, text: str, *words: str) -> Job:
    """Start ``rlcore WORDS`` on a host of the cluster, with the configuration ``text`` in ``run.yaml``."""
    folder = shared(made)
    (folder / "run.yaml").write_text(text)
    return made.start(number, ["env", "-C", folder, sys.executable, "-m", "rlcore", *words], **RAY)


def ray_workers(count: int) -> str:
    return f"{{executor: ray, count: {count}, address: '{HEAD}', step_timeout: {TIMEOUT}, reset_timeout: {TIMEOUT}}}"


def ray_ranks(lost: int, power: bool) -> Fault:
    """Lose a host of ranks that Ray started. Host 1 is Ray's head; the command is on the host that is left."""

    def run(made: Hosts) -> tuple[float, str]:
        join(made, 1)
        join(made, 2)
        options = ("--count", "3", "--address", HEAD, "--wait", "5")
        job = on_cluster(made, 3 - lost, configuration(), "ray", "ranks", *options, "run.yaml")
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
    job = on_cluster(made, 1, configuration(steps=steps), "ray", "ranks", *options, "run.yaml")
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
        job = on_cluster(made, 1, configuration(workers=ray_workers(count)), "run", "run.yaml")
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
    job = on_cluster(made, 2, configuration(workers=ray_workers(2)), "run", "run.yaml")
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
    job = on_cluster(made, 1, text, "sweep", "run.yaml", "--run-id", "search")
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


def learner(made: Hosts) -> Job:
    """Start a run on host 1 with one actor there and a place for another host, and an actor on host 2."""
    token = shared(made) / "token"
    token.write_text(f"{TOKEN}\n")
    workers = (
        f"{{executor: actors, count: 2, local: 1, listen: '10.77.0.1:5600', allow_public_bind: true, reconnect: 5, "
        f"token_file: {token}, fragment_timeout: {TIMEOUT}}}"
    )
    text = configuration(workers=workers, trainer="appo", hyperparameters="buffer_size: 512, batch_size: 256")
    job = on_cluster(made, 1, text, "run", "run.yaml")
    play(made)
    job.said("actor 1 is at host2", START_SECONDS)
    learning(job, last_step(job) + FIRST if "Step: " in job.output() else FIRST)
    return job


def play(made: Hosts) -> Job:
    """Start an actor on host 2."""
    words = ("actor", "10.77.0.1:5600", "--token-file", str(shared(made) / "token"), "--wait", str(START_SECONDS))
    return made.start(2, [sys.executable, "-m", "rlcore", *words])


def actors_lost(power: bool) -> Fault:
    """Lose the host of an actor; with its link cut, until it is missed, it comes back."""

    def run(made: Hosts) -> tuple[float, str]:
        job = learner(made)
        began = time.monotonic()
        (made.lose_power if power else made.cut)(2)
        job.said("actor 1 on host2 failed", LIMIT + 60)
        seconds = max(time.monotonic() - began, continues(job, began))
        if power:
            return seconds, "continued"
        made.heal(2)
        deadline = time.monotonic() + LEARN_SECONDS
        while job.output().count("actor 1 is at host2") < 2:
            if time.monotonic() > deadline:
                raise Missed("the actor does not come back")
            time.sleep(0.1)
        return seconds, "continued, and with the actor"

    return run


def actor_replaced(made: Hosts) -> tuple[float, str]:
    """Lose the host of an actor, and start another actor on the host that replaces it."""
    job = learner(made)
    began = time.monotonic()
    made.lose_power(2)
    job.said("actor 1 on host2 failed", LIMIT + 60)
    made.boot(2)
    play(made)
    deadline = time.monotonic() + LEARN_SECONDS
    while job.output().count("actor 1 is at host2") < 2:
        if time.monotonic() > deadline:
            raise Missed("the new actor does not play")
        time.sleep(0.1)
    return continues(job, began), "continued, with the new actor"


def learner_lost(made: Hosts) -> tuple[float, str]:
    """Lose the host of the run: the actor on another host ends."""
    learner(made)
    actor = made.jobs[-1]
    began = time.monotonic()
    made.lose_power(1)
    return all_ended([actor], "10.77.0.1", began, codes=(3,)), "exit code 3"


CASES = {
    "ray-ranks": Case("Ray: cut, the host of ranks", ray_ranks(2, power=False)),
    "ray-ranks-power": Case("Ray: power loss, the host of ranks", ray_ranks(2, power=True)),
    "ray-ranks-restart": Case("Ray: power loss, ranks start again on a third host", ray_ranks_restart, 3, limit=None),
    "ray-head": Case("Ray: power loss, the head and a rank", ray_ranks(1, power=True)),
    "ray-workers": Case("Ray: cut, the host of workers", workers_lost(power=False)),
    "ray-workers-power": Case("Ray: power loss, the host of workers", workers_lost(power=True)),
    "ray-workers-replaced": Case(
        "Ray: the host of workers is replaced", workers_lost(power=True, replaced=True), 3, limit=None
    ),
    "ray-head-workers": Case("Ray: power loss, the head, while workers are elsewhere", head_of_workers_lost),
    "ray-sweep": Case("Ray: cut, the host of workers of trials", sweep, limit=None),
    "actors": Case("actors: cut, the host of one, until it is missed", actors_lost(power=False)),
    "actors-power": Case("actors: power loss, the host of one", actors_lost(power=True)),
    "actors-replaced": Case("actors: the host of one is replaced", actor_replaced, limit=None),
    "actors-learner": Case("actors: power loss, the host of the run", learner_lost),
}
