"""Hosts that are cut off, lose their power or are replaced, while they train together: what ends, what continues, when.

The hosts are namespaces of this machine (``tests/support/hosts.py``), which needs Linux and root. In each fault, every
process must end or continue within ``rank_timeout`` and 15 seconds, with a line that names the host, and the last
checkpoint must be intact and not older than its interval. ``python benchmarks/host_faults.py --only cut --repeat 2``
runs some of them; results are added to ``--results``, and the table has all that are there.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import click

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))

from hosts import Hosts, Job, hosts, problem, switch_problem  # noqa: E402

TIMEOUT = 8  # rank_timeout
LIMIT = TIMEOUT + 15  # seconds in which all have ended or continue
INTERVAL = 1024  # steps between two checkpoints
FIRST = 2 * INTERVAL  # the step from which faults come
START_SECONDS = 240.0
LEARN_SECONDS = 400.0
CONFIG = """
preset: none
environment: {{id: CartPole-v1, num_envs: 8{workers}}}
behaviors:
  CartPole:
    trainer_type: ppo
    max_steps: {steps}
    summary_freq: 512
    checkpoint_interval: {interval}
    hyperparameters: {{buffer_size: 512, batch_size: 256, num_epoch: 1}}
checkpoint_settings: {{run_id: run}}
torch_settings: {{rank_timeout: {timeout}}}
"""
ENDLESS = 100_000_000
ALIVE = "keep_alive_interval=2,keep_alive_max_attempt=2"
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


class Missed(Exception):
    """A rule that does not hold, in one line."""


@attrs.define
class Case:
    """One fault: ``run`` makes it on fresh hosts, and returns the seconds until all had ended or continued.

    Attributes:
        name: What happens.
        count: Hosts.
        lossy: Whether they are at the slow and lossy switch.
    """

    name: str
    run: Callable[[Hosts], tuple[float, str]]
    count: int = 2
    lossy: bool = False


def member(made: Hosts, number: int, *options: str, endpoint: int = 1, steps: int = ENDLESS, **more: Any) -> Job:
    """Start ``rlcore torchrun`` with one rank on a host."""
    size = more.pop("size", 2)
    timeout = more.pop("timeout", TIMEOUT)
    text = CONFIG.format(workers="", steps=steps, interval=INTERVAL, timeout=timeout)
    (made[number].folder / "run.yaml").write_text(text)
    command = [
        sys.executable, "-m", "rlcore", "torchrun", "--nnodes", str(size), "--nproc-per-node", "1",
        "--rdzv-backend", "c10d", "--rdzv-endpoint", f"host{endpoint}:29400", "--rdzv-id", "job", *options, "run.yaml",
    ]  # fmt: skip
    return made.start(number, command, **more)


def learning(job: Job, step: int = FIRST) -> None:
    """Wait until rank 0 has learned ``step`` steps."""
    job.said(f"Step: {step}.", START_SECONDS)


def all_ended(jobs: list[Job], lost: str, began: float) -> float:
    """The seconds after which all ``jobs`` had ended. Raises Missed if one did not, or does not name the host."""
    last = 0.0
    for job in jobs:
        try:
            code = job.ended(max(0.1, LIMIT + 60 - (time.monotonic() - began)))
        except AssertionError as error:
            raise Missed(f"{job.host.name} hangs") from error
        last = max(last, time.monotonic() - began)
        if code != 1:
            raise Missed(f"{job.host.name} ended with {code}")
        lines = [line for line in job.output().splitlines() if line.startswith("error: ")]
        if not any(lost in line for line in lines):
            raise Missed(f"{job.host.name} does not name {lost}: {lines}")
    return last


def require_checkpoint(made: Hosts, number: int, at_least: int) -> int:
    """The step of the last intact checkpoint on a host. Raises Missed if more was lost than an interval."""
    from rlcore import load_checkpoint
    from rlcore.storage.checkpoints import find_checkpoints

    found = find_checkpoints(made[number].folder / "results/run/checkpoints")
    for checkpoint in reversed(found):
        load_checkpoint(checkpoint.path)
        if checkpoint.step < at_least - INTERVAL - 512:  # a summary may be printed before its checkpoint is complete
            raise Missed(f"the last checkpoint is of step {checkpoint.step}, and {at_least} were learned")
        return checkpoint.step
    raise Missed("no checkpoint is left")


def last_step(job: Job) -> int:
    """The step of the last summary that a job printed."""
    steps = [int(part.split(".")[0]) for part in job.output().split("Step: ")[1:]]
    return steps[-1]


def lose(lost: int, power: bool, size: int = 2, endpoint: int = 1) -> Callable[[Hosts], tuple[float, str]]:
    """Lose a host: its link, or its power."""

    def run(made: Hosts) -> tuple[float, str]:
        jobs = [member(made, number, size=size, endpoint=endpoint) for number in range(1, size + 1)]
        first = jobs[0]
        learning(first)
        learned = last_step(first)
        began = time.monotonic()
        (made.lose_power if power else made.cut)(lost)
        left = [job for job in jobs if job.host.number != lost]
        seconds = all_ended(left, f"host{lost}", began)
        if not power:  # the host that is cut off must end too; it cannot know that it is the one
            seconds = max(seconds, all_ended([jobs[lost - 1]], "host", began))
        step = require_checkpoint(made, 1, learned)
        return seconds, f"checkpoint {step} of {learned}"

    return run


def replaced(late: bool) -> Callable[[Hosts], tuple[float, str]]:
    """Lose a host, and start the command on another one, before or after the others miss it."""

    def run(made: Hosts) -> tuple[float, str]:
        steps = FIRST + 16 * INTERVAL

        def start(number: int) -> Job:
            conf = f"is_host={int(number == 1)},{ALIVE}"
            options = ("--max-restarts", "2", "--rdzv-conf", conf)
            return member(made, number, *options, steps=steps, timeout=TIMEOUT if late else 600, **OWN_STORE)

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
        for job in (first, third):
            if job.ended(LEARN_SECONDS):
                raise Missed(f"{job.host.name} ended with {job.code}")
        return seconds, "resumed, done"

    return run


def short_cut(made: Hosts) -> tuple[float, str]:
    """Cut a link for less than rank_timeout."""
    jobs = [member(made, number, timeout=30) for number in (1, 2)]
    learning(jobs[0])
    began = time.monotonic()
    made.cut(2)
    time.sleep(4)
    made.heal(2)
    learned = last_step(jobs[0])
    learning(jobs[0], learned + 1024)
    return time.monotonic() - began, "continued"


def weather(*orders: str) -> Callable[[Hosts], tuple[float, str]]:
    """Slow links down, or lose frames; all continue."""

    def run(made: Hosts) -> tuple[float, str]:
        jobs = [member(made, number, steps=FIRST + 4 * INTERVAL, timeout=60) for number in (1, 2)]
        learning(jobs[0], 1024)
        began = time.monotonic()
        for order in orders:
            made.tell(order)
        learned = last_step(jobs[0])
        learning(jobs[0], learned + 512)
        seconds = time.monotonic() - began
        for job in jobs:
            if job.ended(LEARN_SECONDS):
                raise Missed(f"{job.host.name} ended with {job.code}")
        return seconds, "continued, done"

    return run


def muted(made: Hosts) -> tuple[float, str]:
    """Lose the frames of one host only: it still hears the other."""
    jobs = [member(made, number) for number in (1, 2)]
    learning(jobs[0])
    learned = last_step(jobs[0])
    began = time.monotonic()
    made.tell("mute 2")
    seconds = all_ended(jobs, "host", began)
    return seconds, f"checkpoint {require_checkpoint(made, 1, learned)} of {learned}"


# ---------------------------------------------------------------- Ray

TOKEN = "0123456789abcdef0123456789abcdef"
RAY = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "RAY_USAGE_STATS_ENABLED": "0"}


def start_ray(made: Hosts, count: int) -> None:
    """Start Ray on the first ``count`` hosts; the first one is the head."""
    for number in range(1, count + 1):
        place = ["--head", "--port=6379"] if number == 1 else ["--address=10.77.0.1:6379"]
        words = [
            sys.executable, "-m", "ray.scripts.scripts", "start", *place, "--num-cpus=2",
            f"--node-ip-address=10.77.0.{number}", "--object-store-memory=80000000", "--disable-usage-stats",
            "--include-dashboard=false",
        ]  # fmt: skip
        job = made.start(number, words if number == 1 else words[:-1], **RAY)
        if job.ended(START_SECONDS):
            raise Missed(f"Ray did not start: {job.output()[-300:]}")


def ray_command(made: Hosts, number: int, *words: str, workers: str = "", steps: int = ENDLESS) -> Job:
    """Start ``rlcore WORDS`` on a host of the cluster. All hosts have the same directory."""
    shared = made.folder / "shared"
    shared.mkdir(exist_ok=True)
    text = CONFIG.format(workers=workers, steps=steps, interval=INTERVAL, timeout=TIMEOUT)
    (shared / "run.yaml").write_text(text)
    command = ["env", "-C", str(shared), sys.executable, "-m", "rlcore", *words]
    return made.start(number, command, **RAY)


def ray_ranks(lost: int, power: bool) -> Callable[[Hosts], tuple[float, str]]:
    """Lose a host of ranks that Ray started, or the head, while the command runs on host 2."""

    def run(made: Hosts) -> tuple[float, str]:
        start_ray(made, 2)
        here = 1 if lost == 2 else 2
        options = ("--count", "3", "--address", "10.77.0.1:6379", "--wait", "5")
        job = ray_command(made, here, "ray", "ranks", *options, "run.yaml")
        learning(job)
        began = time.monotonic()
        (made.lose_power if power else made.cut)(lost)
        try:
            code = job.ended(LIMIT + 90)
        except AssertionError as error:
            raise Missed("the command hangs") from error
        seconds = time.monotonic() - began
        if f"host{lost}" not in job.output().partition("Step: ")[2]:
            raise Missed(f"host{lost} is not named: {job.output().splitlines()[-3:]}")
        return seconds, f"exit code {code}"

    return run


def ray_workers(made: Hosts) -> tuple[float, str]:
    """Lose the host of workers of Ray: the run continues on the host that is left."""
    start_ray(made, 2)
    job = ray_command(
        made, 1, "run", "run.yaml", workers=", workers: {executor: ray, count: 3, address: '10.77.0.1:6379'}"
    )
    learning(job)
    began = time.monotonic()
    made.cut(2)
    learned = last_step(job)
    job.said("host2", 60)
    seconds = time.monotonic() - began
    learning(job, (learned // 512 + 4) * 512)
    return seconds, f"continued after {time.monotonic() - began:.0f} s"


CASES = {
    "cut": Case("cut: the host of rank 1", lose(2, power=False)),
    "power": Case("power loss: the host of rank 1", lose(2, power=True)),
    "cut-0": Case("cut: the host of rank 0 and of the store", lose(1, power=False)),
    "power-0": Case("power loss: the host of rank 0 and of the store", lose(1, power=True)),
    "cut-of-3": Case("cut: one of three hosts", lose(3, power=False, size=3), 3),
    "power-of-3": Case("power loss: one of three hosts", lose(3, power=True, size=3), 3),
    "cut-meeting": Case("cut: the host where all meet, not of rank 0", lose(3, False, size=3, endpoint=3), 3),
    "cut-0-of-3": Case("cut: the host of rank 0, all meet elsewhere", lose(1, False, size=3, endpoint=2), 3),
    "short": Case("cut: for 4 s", short_cut),
    "replaced": Case("replaced before it is missed", replaced(late=False), 3),
    "replaced-late": Case("replaced after rank_timeout", replaced(late=True), 3),
    "lossy": Case("loss of 1% of all frames", weather("loss 0.01"), lossy=True),
    "slow": Case("5 ms each way", weather("delay 5"), lossy=True),
    "muted": Case("cut: one way", muted, lossy=True),
    "ray-ranks": Case("Ray: cut, the host of ranks", ray_ranks(2, power=False)),
    "ray-head": Case("Ray: power loss, the head", ray_ranks(1, power=True)),
    "ray-workers": Case("Ray: cut, the host of workers", ray_workers),
}


@click.command()
@click.option("--only", multiple=True, type=click.Choice([*CASES]), help="Faults to make; all by default.")
@click.option("--repeat", default=2, show_default=True, type=click.IntRange(1), help="How often each is made.")
@click.option("--results", type=click.Path(path_type=Path), help="File to which results are added, as JSON lines.")
@click.option("--show", is_flag=True, help="Print the table of the file and make no fault.")
def main(only: tuple[str, ...], repeat: int, results: Path | None, show: bool) -> None:
    """Make faults of hosts, and print what ended or continued after how many seconds."""
    why = problem()
    if why is not None:
        raise click.ClickException(why)
    rows: list[dict[str, Any]] = []
    if results is not None and results.exists():
        rows = [json.loads(line) for line in results.read_text().splitlines()]
    names = [] if show else [name for _ in range(repeat) for name in only or CASES]
    for name in names:
        case = CASES[name]
        if case.lossy and switch_problem() is not None:
            row = {"case": name, "problem": f"not tried: {switch_problem()}"}
        elif name.startswith("ray") and importlib.util.find_spec("ray") is None:
            row = {"case": name, "problem": "not tried: ray is not installed"}
        else:
            row = made_once(name, case)
        rows.append(row)
        if results is not None:
            with results.open("a") as file:
                file.write(json.dumps(row) + "\n")
        click.echo(described(row))
    click.echo()
    click.echo(table(rows))
    if not all(map(held, rows)):
        sys.exit(1)


def made_once(name: str, case: Case) -> dict[str, Any]:
    """Make a fault on fresh hosts."""
    with TemporaryDirectory(prefix="hosts-") as folder, hosts(Path(folder), case.count, case.lossy) as made:
        try:
            seconds, note = case.run(made)
        except (Missed, AssertionError) as error:
            return {"case": name, "problem": str(error)[:2000]}
        ends = "continued" not in note and "resumed" not in note and "exit code" not in note
        return {"case": name, "seconds": round(seconds, 1), "note": note, "ends": ends}


def held(row: dict[str, Any]) -> bool:
    """Whether all rules held: also the limit, where processes had to end."""
    return "problem" not in row and (row["seconds"] <= LIMIT or not row["ends"])


def described(row: dict[str, Any]) -> str:
    """A result in one line."""
    if "problem" in row:
        return f"{row['case']}: MISSED: {row['problem']}"
    return f"{row['case']}: {row['seconds']} s; {row['note']}"


def table(rows: list[dict[str, Any]]) -> str:
    """The results by fault, as a table of Markdown."""
    lines = [
        f"| fault ({TIMEOUT} s rank_timeout, {LIMIT} s limit) | tries | held | longest | what happened |",
        "|---|---|---|---|---|",
    ]
    for name, case in CASES.items():
        tries = [row for row in rows if row["case"] == name]
        if not tries:
            continue
        longest = max((row["seconds"] for row in tries if "problem" not in row), default=0.0)
        notes = "; ".join(dict.fromkeys(row.get("note", row.get("problem", ""))[:60] for row in tries))
        lines.append(f"| {case.name} | {len(tries)} | {sum(map(held, tries))} | {longest:.1f} s | {notes} |")
    lines.append(f"| all | {len(rows)} | {sum(map(held, rows))} | | |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
