"""Faults of hosts on which actors play, started by hand or by Ray."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

from host_cases import (
    FIRST,
    LEARN_SECONDS,
    LIMIT,
    START_SECONDS,
    SUMMARY,
    TIMEOUT,
    Case,
    Fault,
    Missed,
    NotTried,
    all_ended,
    configuration,
    continues,
    last_step,
    learning,
)
from host_cases_of_workers import HEAD, TOKEN, join, on_cluster, run_on_cluster, shared
from hosts import Hosts, Job

ENVS = 8  # of the run; its two actors have a half each
MISSED = 15  # seconds after which an actor misses its run, and then tries to reach it (``reconnect``)
SHORT = 20  # seconds of a cut after which an actor has given its run up, and Ray its host not yet
HEAD_SECONDS = 90  # Ray waits a minute for its head


def start_run(made: Hosts, number: int = 1, local: int = 0) -> Job:
    """Start a run with places for two actors on a host, which starts ``local`` of them itself."""
    token_file(made).write_text(f"{TOKEN}\n")
    workers = (
        f"{{executor: actors, count: 2, local: {local}, listen: '{made[number].address}:5600', "
        f"allow_public_bind: true, reconnect: 5, token_file: {token_file(made)}, fragment_timeout: {TIMEOUT}}}"
    )
    text = configuration(workers=workers, trainer="appo", hyperparameters="buffer_size: 512, batch_size: 256")
    return run_on_cluster(made, number, text, "run", "run.yaml")


def token_file(made: Hosts) -> Path:
    return shared(made) / "token"


def actor_words(made: Hosts, number: int = 1) -> list[str]:
    """The arguments of an actor for the run on a host."""
    return [f"{made[number].address}:5600", "--token-file", str(token_file(made)), "--wait", str(START_SECONDS)]


def learner(made: Hosts) -> Job:
    """Start a run on host 1 with one actor there and a place for another host, and an actor on host 2."""
    job = start_run(made, local=1)
    play(made)
    job.said("actor 1 is at host2", START_SECONDS)
    learn_more(job)
    return job


def learn_more(job: Job) -> None:
    """Wait until a run has learned for a while."""
    learning(job, last_step(job) + FIRST if "Step: " in job.output() else FIRST)


def play(made: Hosts) -> Job:
    """Start an actor on host 2."""
    return on_cluster(made, 2, "actor", *actor_words(made))


def comes_back(job: Job, text: str, count: int = 2) -> None:
    """Wait until a run has said ``count`` times that an actor is at a host."""
    deadline = time.monotonic() + LEARN_SECONDS
    while job.output().count(text) < count:
        if time.monotonic() > deadline or job.code is not None:
            raise Missed(f"no actor came: {job.output().splitlines()[-3:]}")
        time.sleep(0.1)


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
        comes_back(job, "actor 1 is at host2")
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
    comes_back(job, "actor 1 is at host2")
    return continues(job, began), "continued, with the new actor"


def learner_lost(made: Hosts) -> tuple[float, str]:
    """Lose the host of the run: the actor on another host ends."""
    learner(made)
    actor = made.jobs[-1]
    began = time.monotonic()
    made.lose_power(1)
    return all_ended([actor], made[1].address, began, codes=(3,)), "exit code 3"


def started_by_ray(made: Hosts, run: int = 1, command: int = 1, playing: tuple[int, ...] = (1, 2)) -> tuple[Job, Job]:
    """Start a run, and actors by Ray on hosts that have joined its cluster; return the run and the command."""
    job = start_run(made, run)
    job.said("places for actors", START_SECONDS)
    by_ray = on_cluster(made, command, "ray", "actors", "--count", "2", "--address", HEAD, *actor_words(made, run))
    deadline = time.monotonic() + START_SECONDS
    while not all(f"is at host{number}" in job.output() for number in playing):
        if time.monotonic() > deadline or by_ray.code is not None:
            raise NotTried(f"no actors play: {by_ray.output()[-300:]}")
        time.sleep(0.1)
    learn_more(job)
    return job, by_ray


def require_little_lost(made: Hosts, losses: int = 1) -> str:
    """Wait for the next actor's first fragment, and require that open episodes of lost actors are all that was lost.

    Fragments that have arrived are learned: what was played is at most a rollout ahead of what was learned.
    """
    deadline = time.monotonic() + LEARN_SECONDS
    expected = losses * ENVS // 2
    while (aborted := latest(made, "Environment/Aborted Episodes")[1]) < expected:
        if time.monotonic() > deadline:
            raise Missed(f"no actor played on: {aborted:g} episodes were aborted")
        time.sleep(0.1)
    step, played = latest(made, "Actors/Played Steps")
    if aborted > expected or not 0 <= played - step <= 2 * SUMMARY:
        raise Missed(f"{aborted:g} episodes were aborted, and {played:g} steps were played, of which {step} learned")
    return f"{aborted:g} episodes aborted"


def latest(made: Hosts, tag: str) -> tuple[int, float]:
    """The step of the run's latest summary, and its value of a tag."""
    text = (shared(made) / "results/run/metrics.jsonl").read_text()
    line = json.loads(text[: text.rindex("\n")].splitlines()[-1])
    return line["step"], line["stats"][tag]


def host_of_ray_lost(power: bool, replaced: bool = False) -> Fault:
    """Lose a host on which Ray has started an actor, which starts again when the host, or another one, joins Ray."""

    def run(made: Hosts) -> tuple[float, str]:
        join(made, 1, cpus=1)
        join(made, 2, cpus=1)
        job, by_ray = started_by_ray(made)
        began = time.monotonic()
        (made.lose_power if power else made.cut)(2)
        job.said(" on host2 failed", LIMIT + 60)
        named = time.monotonic() - began
        seconds = max(named, continues(job, began))
        by_ray.said("on host2: the process or its host was lost; it is started again", LEARN_SECONDS)
        given_up = time.monotonic() - began
        number = 3 if replaced else 2
        if power and not replaced:
            made.boot(2)
        elif not power:
            made.heal(2)
        join(made, number, cpus=1)
        comes_back(job, f" is at host{number}", 1 if replaced else 2)
        continues(job, began)
        note = require_little_lost(made)
        return seconds, f"continued; Ray gave it up after {given_up:.0f} s; the actor came back; {note}"

    return run


def short_cut_of_ray(made: Hosts) -> tuple[float, str]:
    """Cut the link of a host until its actor has given the run up, but Ray the host not yet."""
    join(made, 1, cpus=1)
    join(made, 2, cpus=1)
    job, _ = started_by_ray(made)
    began = time.monotonic()
    made.cut(2)
    time.sleep(SHORT)
    made.heal(2)
    job.said(" on host2 failed", LIMIT + 60)
    seconds = max(time.monotonic() - began, continues(job, began))
    comes_back(job, " is at host2")
    continues(job, began)
    return seconds, f"continued; the actor came back; {require_little_lost(made)}"


def head_of_actors_lost(made: Hosts) -> tuple[float, str]:
    """Lose Ray's head while the run, the command and the actors are on other hosts."""
    join(made, 1, cpus=0)
    join(made, 2, cpus=1)
    join(made, 3, cpus=1)
    job, by_ray = started_by_ray(made, run=2, command=2, playing=(2, 3))
    began = time.monotonic()
    made.lose_power(1)
    seconds = continues(job, began)
    deadline = began + HEAD_SECONDS
    while by_ray.code is None and time.monotonic() < deadline:
        time.sleep(0.1)
    taken = time.monotonic() - began
    continues(job, began)
    return seconds, f"continued; the command: {by_ray.code} after {taken:.0f} s"


def run_ends(waits: bool) -> Fault:
    """End the run after the host of an actor was lost, before Ray gives it up, or while the actor waits for room."""

    def run(made: Hosts) -> tuple[float, str]:
        join(made, 1, cpus=1)
        join(made, 2, cpus=1)
        job, by_ray = started_by_ray(made)
        made.lose_power(2)
        if waits:
            by_ray.said("it is started again", LEARN_SECONDS)
        job.send_signal(signal.SIGTERM)
        if job.ended(LIMIT + 60) != 128 + signal.SIGTERM:
            raise Missed(f"the run ended with {job.code}: {job.output().splitlines()[-3:]}")
        began = time.monotonic()
        if by_ray.ended(LIMIT + 60):
            raise Missed(f"the command ended with {by_ray.code}: {by_ray.output().splitlines()[-3:]}")
        return time.monotonic() - began, "the command ended with 0"

    return run


def learner_of_ray_lost(made: Hosts) -> tuple[float, str]:
    """Lose the host of the run, which is not of the cluster: the actors and the command end."""
    join(made, 1, cpus=2)
    _, by_ray = started_by_ray(made, run=2, playing=(1,))
    began = time.monotonic()
    made.lose_power(2)
    return all_ended([by_ray], made[2].address, began, codes=(3,)), "exit code 3"


CASES = {
    "actors": Case("actors: cut, the host of one, until it is missed", actors_lost(power=False)),
    "actors-power": Case("actors: power loss, the host of one", actors_lost(power=True)),
    "actors-replaced": Case("actors: the host of one is replaced", actor_replaced, limit=None),
    "actors-learner": Case("actors: power loss, the host of the run", learner_lost),
    "ray-actors": Case("actors of Ray: cut, the host of one, until Ray gives it up", host_of_ray_lost(power=False)),
    "ray-actors-power": Case("actors of Ray: power loss, the host of one", host_of_ray_lost(power=True)),
    "ray-actors-replaced": Case(
        "actors of Ray: the host of one is replaced", host_of_ray_lost(power=True, replaced=True), 3
    ),
    "ray-actors-short": Case(f"actors of Ray: cut for {SHORT} s, the host of one", short_cut_of_ray, limit=None),
    "ray-actors-head": Case("actors of Ray: power loss, the head", head_of_actors_lost, 3),
    "ray-actors-end": Case("actors of Ray: power loss, the host of one, and the run ends", run_ends(waits=False)),
    "ray-actors-end-waits": Case("actors of Ray: the run ends while one waits for room", run_ends(waits=True)),
    "ray-actors-learner": Case(
        "actors of Ray: power loss, the host of the run", learner_of_ray_lost, limit=float(MISSED + LIMIT - TIMEOUT)
    ),
}
