"""Signals at random moments of runs, which the same command continues: what is lost, and what is equal in the end.

Each case is one command of ``rlcore run`` or ``rlcore sweep`` with ``--resume auto``. It is started, gets a signal at
a random moment, and is started again, until all signals of the case are sent; then it is left to finish. After each
signal the script checks that

- the exit code is that of the signal, or 0 if the run had just finished;
- the newest checkpoint is intact, and has every step of the last summary;
- the same command continues.

At the end, the weights, and all else that the trainer keeps, are compared bit for bit with the same run without a
signal. They are equal where the environment saves itself. Where it does not, the checkpoint of a signal ends episodes
that the other run plays on: such a case is ``statistical``, and is compared after a resume from a regular checkpoint
instead, which every case has to pass.

    python benchmarks/signal_storm.py                    # 100 signals
    python benchmarks/signal_storm.py --scale 0.2        # a fifth of them
    python benchmarks/signal_storm.py --case training --case "two ranks"

Processes of one run are forks of a server that has imported everything, so that a start costs a tenth of the time;
``--cold`` starts each from nothing. Runs of several processes are always started from nothing.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import click
import yaml
from rich.console import Console
from rich.table import Table

from rlcore import RunStateError, find_checkpoints, load_checkpoint

NAMES = ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGINT", "SIGHUP")
EARLY = "nothing"
STAGES = (EARLY, ".lock", "rlcore_run.json", "configuration.yaml")  # what a start writes, in this order
PATIENCE = 900.0  # seconds for a process to get on, on a loaded machine
LOOK = 0.01
BEHAVIOR: dict[str, Any] = {
    "trainer_type": "ppo",
    "hyperparameters": {"batch_size": 64, "buffer_size": 512, "num_epoch": 2},
    "network_settings": {"hidden_units": 16, "num_layers": 1},
    "summary_freq": 512,
    "checkpoint_interval": 2048,
    "keep_checkpoints": 0,
}
SWEEP = {
    "parameters": {"behaviors.Agent.hyperparameters.learning_rate": {"choices": [0.001, 0.003]}},
    "sampler": "grid",
    "trials": 2,
    "jobs": 2,
    "metric": "reward",
}


@attrs.frozen
class Case:
    """One command that gets signals.

    Attributes:
        signals: How many.
        changes: Blocks of the configuration.
        steps: ``max_steps``; several times what passes between two signals.
        words: The command, after ``rlcore``.
        runs: The run directories, relative to ``results``.
        exact: Whether the run equals one without signals.
        start: The share of signals before the first summary of a process.
        forks: Whether its process may be a fork.
    """

    name: str
    signals: int
    changes: dict[str, Any] = attrs.field(factory=dict)
    steps: int = 24_576
    words: tuple[str, ...] = ("run", "run.yaml", "--resume", "auto")
    runs: tuple[str, ...] = ("run",)
    exact: bool = True
    start: float = 0.0
    forks: bool = True


EVALUATED = {"evaluation": {"interval": 1024, "episodes": 100}}
TORCHRUN = ("torchrun", "--nproc-per-node", "2", "run.yaml", "--resume", "auto")
CASES = (
    Case("start", 12, start=1.0),
    Case("training", 22),
    Case("evaluation", 12, EVALUATED),
    Case("export", 12, {"export": {"onnx": {"checkpoints": True}}}),
    Case("asynchronous saves", 12, {"checkpoint_settings": {"asynchronous": True}}),
    Case("no saved environment", 10, {"environment": {"id": "FrozenLake-v1"}}, exact=False),
    Case("workers", 6, {"environment": {"workers": 2}}, forks=False),
    Case("two ranks", 6, words=TORCHRUN, forks=False),
    Case("seeds", 4, words=("run", "run.yaml", "--seeds", "1-2", "--jobs", "2", "--resume", "auto"),
         runs=("run-seed-1", "run-seed-2"), forks=False),
    Case("sweep", 4, {"sweep": SWEEP, "env_settings": {"seed": 1}}, words=("sweep", "run.yaml", "--resume", "auto"),
         runs=("run/trial-0000/seed-1", "run/trial-0001/seed-1"), forks=False),
)  # fmt: skip


def configuration(case: Case) -> dict[str, Any]:
    config: dict[str, Any] = {
        "preset": "none",
        "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 4},
        "env_settings": {"seed": 3},
        "behaviors": {"Agent": {**BEHAVIOR, "max_steps": case.steps}},
        "checkpoint_settings": {"run_id": "run"},
        "stats": {"console": False, "tensorboard": False},
    }
    if case.name == "seeds":
        del config["env_settings"]
    for block, values in case.changes.items():
        config[block] = {**config.get(block, {}), **values}
    return config


# ---------------------------------------------------------------- processes


def forked(words: tuple[str, ...], place: str) -> None:
    """The target of a fork: ``rlcore WORDS`` in the directory ``place``."""
    os.chdir(place)
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(file, number)
        os.close(file)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    sys.argv = ["rlcore", *words]
    from rlcore.cli.main import process

    process()


class Started:
    """A process of a command, a fork or a new one."""

    def __init__(self, case: Case, place: Path, forks: Any) -> None:
        self._fork: Any = None
        if forks is not None and case.forks:
            self._fork = forks.Process(target=forked, args=(case.words, str(place)))
            self._fork.start()
            self.pid = int(self._fork.pid)
            return
        words = [sys.executable, "-m", "rlcore", *case.words]
        with (place / "stdout").open("a") as out, (place / "stderr").open("a") as err:
            self._process = subprocess.Popen(words, cwd=place, stdout=out, stderr=err)
        self.pid = self._process.pid

    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self._fork is not None:
            code: int | None = self._fork.exitcode
            return code
        return self._process.poll()

    def wait(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while (code := self.code()) is None:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                raise RunStateError(f"process {self.pid} did not end within {PATIENCE:g} s")
            time.sleep(LOOK)
        return code


def sizes(place: Path, case: Case) -> int:
    """Bytes of the summaries of all runs."""
    found = 0
    for run in case.runs:
        file = place / "results" / run / "metrics.jsonl"
        found += file.stat().st_size if file.exists() else 0
    return found


def wait_for_moment(case: Case, place: Path, started: Started, choice: random.Random) -> None:
    """Return at a random moment: before the first summary of this process, or some summaries and a little later."""
    deadline = time.monotonic() + PATIENCE
    if choice.random() < case.start:
        since = time.time()
        written = place / "results" / case.runs[0] / choice.choice(STAGES)
        while started.code() is None and time.monotonic() < deadline:
            if written.name == EARLY or (written.exists() and written.stat().st_mtime > since):
                break
            time.sleep(0.001)
        time.sleep(choice.uniform(0.0, 0.3))
        return
    summaries = choice.randint(1, 3)
    before = sizes(place, case)
    while summaries and started.code() is None and time.monotonic() < deadline:
        time.sleep(LOOK)
        now = sizes(place, case)
        if now > before:
            before = now
            summaries -= 1
    time.sleep(choice.uniform(0.0, 0.3))


# ---------------------------------------------------------------- what is checked


@attrs.define
class Counted:
    """The results of a case: exit codes, lost steps, and whether its runs are equal."""

    case: Case
    codes: Counter[int] = attrs.field(factory=Counter)
    names: Counter[str] = attrs.field(factory=Counter)
    lost: int = 0  # steps of the last summary that no checkpoint has, over all signals
    slowest: float = 0.0  # seconds from a signal to the end of the process
    ended: bool = False
    equal: str = ""
    regular: str = ""
    problems: list[str] = attrs.field(factory=list)


def checked(run: Path) -> tuple[int, int]:
    """The step of the last summary, and that of the newest checkpoint, of which every file must be whole."""
    metrics = run / "metrics.jsonl"
    last = 0
    if metrics.exists():
        lines = [line for line in metrics.read_text().splitlines() if line.endswith("}")]
        last = max((int(json.loads(line)["step"]) for line in lines), default=0)
    newest = 0
    for checkpoint in find_checkpoints(run / "checkpoints")[-1:]:
        load_checkpoint(checkpoint.path)
        newest = checkpoint.step
    return last, newest


def learned(run: Path, step: int | None = None) -> dict[str, Any]:
    """All that the trainer saved at the last step, or at ``step``, as bytes by name."""
    from safetensors.numpy import load_file

    checkpoints = {checkpoint.step: checkpoint.path for checkpoint in find_checkpoints(run / "checkpoints")}
    path = checkpoints[max(checkpoints) if step is None else step]
    arrays: dict[str, Any] = {}
    for file in sorted(path.glob("*.safetensors")):
        if file.name != "run.safetensors":
            arrays |= {f"{file.name}/{name}": array.tobytes() for name, array in load_file(file).items()}
    return arrays


def storm(case: Case, count: int, place: Path, forks: Any, choice: random.Random, console: Console) -> Counted:
    counted = Counted(case)
    results = place / "results"
    for number in range(count):
        name = choice.choice(NAMES)
        started = Started(case, place, forks)
        wait_for_moment(case, place, started, choice)
        sent = time.monotonic()
        if started.code() is None:
            os.kill(started.pid, getattr(signal, name))
        code = started.wait()
        counted.slowest = max(counted.slowest, time.monotonic() - sent)
        counted.names[name] += 1
        counted.codes[code] += 1
        by_signal = {128 + getattr(signal, name), -getattr(signal, name), 0}
        # Python turns SIGINT into an exception of its own before the command is there.
        if name == "SIGINT":
            by_signal |= {1}
        if code not in by_signal:
            counted.problems.append(f"signal {number}, {name}: exit code {code}")
        for run in case.runs:
            try:
                last, newest = checked(results / run)
            except RunStateError as error:
                counted.problems.append(f"signal {number}, {name}: {error}")
                continue
            if last > newest and code > 128:
                counted.lost += last - newest
                counted.problems.append(f"signal {number}, {name}: {run}: summary of {last}, checkpoint of {newest}")
        console.print(f"{case.name} {number + 1}/{count}: {name}, code {code}", highlight=False)
        if code == 0:  # it was faster than its signals: again from the beginning
            shutil.rmtree(results, ignore_errors=True)
    code = Started(case, place, forks).wait()
    counted.ended = code == 0
    if code:
        counted.problems.append(f"the last command ended with {code}: {tail(place)}")
    return counted


def tail(place: Path) -> str:
    return " | ".join((place / "stderr").read_text().splitlines()[-3:])


def compare(counted: Counted, place: Path, whole: Path, forks: Any) -> None:
    """Compare the runs of a case with those that got no signal, and a resume from their first regular checkpoint."""
    case = counted.case
    if counted.ended:
        alike = [learned(place / "results" / run) == learned(whole / "results" / run) for run in case.runs]
        equal = all(alike)
        counted.equal = "equal" if equal else "statistical"
        if not equal and case.exact:
            counted.problems.append("the weights differ from those of the run without signals")
    if case.name in ("sweep", "seeds"):
        counted.regular = "-"  # as the case training: each of their runs is one
        return
    again = whole.parent / f"{whole.name} again"
    shutil.copytree(whole, again)
    run = again / "results" / case.runs[0]
    first, *later = find_checkpoints(run / "checkpoints")
    for checkpoint in later:
        shutil.rmtree(checkpoint.path)
    (run / "result.json").unlink()
    code = Started(case, again, forks).wait()
    equal = code == 0 and learned(run) == learned(whole / "results" / case.runs[0])
    counted.regular = "equal" if equal else "differs"
    if not equal:
        counted.problems.append(f"resumed from the regular checkpoint {first.step}: differs (code {code})")


def table(all_counted: list[Counted]) -> Table:
    shown = Table(
        "case", "signals", "exit codes", "steps lost", "slowest end", "finished", "without signals", "regular"
    )
    for counted in all_counted:
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(counted.codes.items()))
        shown.add_row(
            counted.case.name,
            str(counted.codes.total()),
            codes,
            str(counted.lost),
            f"{counted.slowest:.1f} s",
            "yes" if counted.ended else "no",
            counted.equal,
            counted.regular,
        )
    return shown


def preload() -> Any:
    """A fork server that has imported what a run needs."""
    forks = multiprocessing.get_context("forkserver")
    here = str(Path(__file__).resolve().parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH", ""))))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    forks.set_forkserver_preload(["signal_storm_imports", "signal_storm"])
    return forks


@click.command()
@click.option("--scale", type=float, default=1.0, help="Share of the 100 signals.")
@click.option("--case", "names", multiple=True, help="Only this case; may be repeated.")
@click.option("--seed", type=int, default=1, help="Seed of the moments and the signals.")
@click.option("--cold", is_flag=True, help="Start each process from nothing.")
def main(scale: float, names: tuple[str, ...], seed: int, cold: bool) -> None:
    """Send signals to runs at random moments, and print what was lost."""
    console = Console()
    forks = None if cold else preload()
    all_counted = []
    with TemporaryDirectory(prefix="storm-") as directory:
        for case in CASES:
            if names and case.name not in names:
                continue
            place = Path(directory) / case.name.replace(" ", "-")
            whole = Path(directory) / f"{case.name.replace(' ', '-')}-whole"
            for each in (place, whole):
                each.mkdir()
                (each / "run.yaml").write_text(yaml.safe_dump(configuration(case)))
                (each / "stderr").touch()
            code = Started(case, whole, forks).wait()
            if code:
                console.print(f"{case.name}: the run without signals ended with {code}: {tail(whole)}")
                continue
            choice = random.Random(f"{seed} {case.name}")
            counted = storm(case, max(1, round(case.signals * scale)), place, forks, choice, console)
            compare(counted, place, whole, forks)
            all_counted.append(counted)
            for problem in counted.problems:
                console.print(f"  {case.name}: {problem}", highlight=False)
    console.print(table(all_counted))
    total = sum(counted.codes.total() for counted in all_counted)
    problems = sum(len(counted.problems) for counted in all_counted)
    console.print(f"{total} signals, {problems} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
