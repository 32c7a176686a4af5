"""Faults of hosts on which ``rlcore torchrun`` has started ranks."""

from __future__ import annotations

import sys
import time
from typing import Any

from host_cases import (
    FIRST,
    INTERVAL,
    LEARN_SECONDS,
    LIMIT,
    SUMMARY,
    TIMEOUT,
    Case,
    Fault,
    all_done,
    all_ended,
    configuration,
    continues,
    last_step,
    learning,
    require_checkpoint,
)
from hosts import Hosts, Job

OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
PATIENT = 60  # rank_timeout of faults that pass


def member(
    made: Hosts, number: int, *options: str, size: int = 2, endpoint: int = 1, run: tuple[str, ...] = (), **more: Any
) -> Job:
    """Start ``rlcore torchrun`` with one rank on a host; ``run`` are options of ``rlcore run``."""
    variables = more.pop("variables", {})
    (made[number].folder / "run.yaml").write_text(configuration(**more))
    command = [
        sys.executable, "-m", "rlcore", "torchrun", "--nnodes", str(size), "--nproc-per-node", "1",
        "--rdzv-backend", "c10d", "--rdzv-endpoint", f"host{endpoint}:29400", "--rdzv-id", "job", *options,
        "run.yaml", *run,
    ]  # fmt: skip
    return made.start(number, command, **variables)


def lose(lost: int, power: bool, size: int = 2, endpoint: int = 1, options: tuple[str, ...] = ()) -> Fault:
    """Lose a host: its link, or its power."""

    def run(made: Hosts) -> tuple[float, str]:
        jobs = [member(made, number, *options, size=size, endpoint=endpoint) for number in range(1, size + 1)]
        first = jobs[0]
        learning(first)
        learned = last_step(first)
        began = time.monotonic()
        (made.lose_power if power else made.cut)(lost)
        left = [job for job in jobs if job.host.number != lost]
        seconds = all_ended(left, f"host{lost}", began)
        if not power:  # the host that is cut off must end too; it cannot know that it is the one
            seconds = max(seconds, all_ended([jobs[lost - 1]], "host", began))
        return seconds, require_checkpoint(made[1].folder / "results", learned)

    return run


def one_way(order: str, lost: int) -> Fault:
    """Lose the frames from a host (``mute``) or to it (``deaf``) only."""

    def run(made: Hosts) -> tuple[float, str]:
        jobs = [member(made, number) for number in (1, 2)]
        learning(jobs[0])
        learned = last_step(jobs[0])
        began = time.monotonic()
        made.tell(f"{order} {lost}")
        seconds = all_ended(jobs, "host", began)
        return seconds, require_checkpoint(made[1].folder / "results", learned)

    return run


def replaced(late: bool) -> Fault:
    """Lose a host, and start the command on another one, before or after the others miss it."""

    def run(made: Hosts) -> tuple[float, str]:
        steps = FIRST + 16 * INTERVAL

        def start(number: int) -> Job:
            conf = f"is_host={int(number == 1)}"
            options = ("--max-restarts", "2", "--rdzv-conf", conf)
            timeout = TIMEOUT if late else 600
            return member(made, number, *options, steps=steps, timeout=timeout, variables=OWN_STORE)

        first = start(1)
        start(2)
        learning(first)
        began = time.monotonic()
        made.lose_power(2)
        if late:
            first.said("did not answer for", LIMIT + 30)
        third = start(3)
        first.said("resumed at step ", LEARN_SECONDS)
        seconds = time.monotonic() - began
        all_done([first, third])
        return seconds, "resumed, done"

    return run


def rank_0_replaced(made: Hosts) -> tuple[float, str]:
    """Lose the host of rank 0, where the others do not meet; a third host takes its place, on a shared disk."""
    shared = made.folder / "shared"
    shared.mkdir()
    resume = ("--results-dir", str(shared), "--resume=auto")

    def start(number: int) -> Job:
        conf = f"is_host={int(number == 2)}"
        options = ("--max-restarts", "2", "--rdzv-conf", conf)
        steps = FIRST + 16 * INTERVAL
        return member(made, number, *options, endpoint=2, run=resume, steps=steps, variables=OWN_STORE)

    first = start(1)
    second = start(2)
    learning(first)
    began = time.monotonic()
    made.lose_power(1)
    second.said("host1", LIMIT + 30)
    third = start(3)
    deadline = began + LEARN_SECONDS
    while not any("resumed at step " in job.output() for job in (second, third)):  # either may be rank 0 now
        if time.monotonic() > deadline or second.code is not None:
            return all_ended([second], "never", began), "not resumed"
        time.sleep(0.1)
    seconds = time.monotonic() - began
    all_done([second, third])
    return seconds, "resumed, done"


def short_cuts(count: int, number: int) -> Fault:
    """Cut a link for 4 seconds, ``count`` times."""

    def run(made: Hosts) -> tuple[float, str]:
        jobs = [member(made, each, timeout=PATIENT) for each in (1, 2)]
        learning(jobs[0])
        began = time.monotonic()
        for _ in range(count):
            made.cut(number)
            time.sleep(4)
            made.heal(number)
            time.sleep(1)
        return continues(jobs[0], began) - 5 * (count - 1), "continued"

    return run


def weather(*orders: str, seconds: float = 0.0) -> Fault:
    """Slow links down, or lose frames; all continue. With ``seconds``, the weather is good again after them."""

    def run(made: Hosts) -> tuple[float, str]:
        jobs = [member(made, number, steps=FIRST + 2 * INTERVAL, timeout=PATIENT) for number in (1, 2)]
        learning(jobs[0], 2 * SUMMARY)
        began = time.monotonic()
        for order in orders:
            made.tell(order)
        if seconds:
            time.sleep(seconds)
            for order in orders:
                made.tell(f"{order.split()[0]} 0")
        taken = continues(jobs[0], began)
        all_done(jobs)
        return taken, "continued, done"

    return run


CASES = {
    "cut": Case("cut: the host of rank 1", lose(2, power=False)),
    "power": Case("power loss: the host of rank 1", lose(2, power=True)),
    "cut-0": Case("cut: the host of rank 0 and of the store", lose(1, power=False)),
    "power-0": Case("power loss: the host of rank 0 and of the store", lose(1, power=True)),
    "restarts-0": Case(
        "power loss: the host of rank 0 and of the store, with --max-restarts",
        lose(1, power=True, options=("--max-restarts", "2")),
    ),
    "cut-of-3": Case("cut: one of three hosts", lose(3, power=False, size=3), 3),
    "power-of-3": Case("power loss: one of three hosts", lose(3, power=True, size=3), 3),
    "cut-meeting": Case("cut: the host where all meet, not of rank 0", lose(3, False, size=3, endpoint=3), 3),
    "power-meeting": Case("power loss: the host where all meet, not of rank 0", lose(3, True, size=3, endpoint=3), 3),
    "cut-0-of-3": Case("cut: the host of rank 0, all meet elsewhere", lose(1, False, size=3, endpoint=2), 3),
    "power-0-of-3": Case("power loss: the host of rank 0, all meet elsewhere", lose(1, True, size=3, endpoint=2), 3),
    "mute": Case("cut: one way, from the host of rank 1", one_way("mute", 2), lossy=True),
    "mute-0": Case("cut: one way, from the host of rank 0 and of the store", one_way("mute", 1), lossy=True),
    "deaf": Case("cut: one way, to the host of rank 1", one_way("deaf", 2), lossy=True),
    "deaf-0": Case("cut: one way, to the host of rank 0 and of the store", one_way("deaf", 1), lossy=True),
    "short": Case("cut: for 4 s", short_cuts(1, 2)),
    "short-0": Case("cut: for 4 s, twice, the host of rank 0", short_cuts(2, 1)),
    "lossy": Case("loss of 1% of all frames", weather("loss 0.01"), lossy=True),
    "slow": Case("5 ms each way", weather("delay 5"), lossy=True),
    "slow-and-lossy": Case("2 ms each way and loss of 2%", weather("delay 2", "loss 0.02"), lossy=True),
    "stall": Case("3 s each way, for 6 s", weather("delay 3000", seconds=6.0), lossy=True),
    "replaced": Case("replaced before it is missed", replaced(late=False), 3, limit=None),
    "replaced-late": Case("replaced after rank_timeout", replaced(late=True), 3, limit=None),
    "replaced-0": Case("replaced: the host of rank 0, on a shared disk", rank_0_replaced, 3, limit=None),
}
