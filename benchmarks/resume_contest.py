"""Compares trainings that were killed three times, and resumed in the way of their library, with whole ones.

Each library trains in processes of its own: A without a stop; A again, which must give the same numbers, or the library
is not deterministic and the table says so; and B, which gets SIGKILL at three random moments between 20 and 80% of the
steps and is resumed each time as its documentation says. The states of A and B at the end are compared bit for bit.
Each library saves with everything that it offers; benchmarks/contestants/ has the code, one file for each library. A
library that is not installed gets a line instead of a column.

With --results FILE, each finished contestant is appended to the file, and those that are in it are not trained again:
after an interruption, the same command continues.
"""

from __future__ import annotations

import ast
import json
import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

import attrs
import click
import numpy as np
from compared_states import KINDS, compare, compare_tensorboard
from rich.console import Console
from side_by_side import HERE, MISSED, Figure, circumstances, environment_with_threads, write_report

KILLS = 3
EARLIEST, LATEST = 0.2, 0.8  # of the steps


@attrs.frozen
class Contestant:
    """A library with an algorithm.

    Attributes:
        name: What the column is called.
        distribution: What pip installs; the column has its version.
        script: The file in ``contestants/``.
        task: The first argument of the script.
        off_policy: Whether it trains with a replay buffer, on Pendulum-v1 instead of CartPole-v1.
        others: Functions of the script that this training does not use.
    """

    name: str
    distribution: str
    script: str
    task: str
    off_policy: bool = False
    others: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.script.removeprefix('with_')}-{self.task}"

    @property
    def title(self) -> str:
        return "SAC on Pendulum-v1" if self.off_policy else "PPO on CartPole-v1"

    @property
    def version(self) -> str | None:
        """The installed version; None if the library is not installed."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return None


CONTESTANTS = (
    Contestant("rlcore", "rlcore", "with_rlcore", "ppo"),
    Contestant("Stable-Baselines3", "stable-baselines3", "with_sb3", "ppo", others=("off_policy",)),
    Contestant("Tianshou", "tianshou", "with_tianshou", "ppo", others=("sac",)),
    Contestant("TorchRL", "torchrl", "with_torchrl", "ppo"),
    Contestant("skrl", "skrl", "with_skrl", "ppo", others=("sac",)),
    Contestant("CleanRL's page", "torch", "with_cleanrl", "ppo"),
    Contestant("rlcore", "rlcore", "with_rlcore", "sac", off_policy=True),
    Contestant("Stable-Baselines3", "stable-baselines3", "with_sb3", "sac", off_policy=True, others=("ppo",)),
    Contestant("sb3-contrib (TQC)", "sb3-contrib", "with_sb3", "tqc", off_policy=True, others=("ppo",)),
    Contestant("Tianshou", "tianshou", "with_tianshou", "sac", off_policy=True, others=("ppo",)),
    Contestant("skrl", "skrl", "with_skrl", "sac", off_policy=True, others=("ppo",)),
)


class Failed(Exception):
    """A training of a library ended with an error, or too early; the message has its last lines."""


@attrs.frozen
class Kill:
    """One SIGKILL: the step it came at, and the step that the resumed process had the weights of."""

    step: int
    resumed: int

    @property
    def lost(self) -> int:
        return self.step - self.resumed


class Training:
    """One training in a directory, started as often as needed."""

    def __init__(self, contestant: Contestant, place: Path, steps: int, seed: int) -> None:
        self.contestant = contestant
        self.place = place
        self._steps = steps
        self._seed = seed
        place.mkdir(parents=True)

    def whole(self) -> None:
        """Train to the end without a stop."""
        self._finish(self._start())

    def killed(self, moments: list[int]) -> list[Kill]:
        """Train to the end, killed at the first step that is at least each of ``moments``, and resumed."""
        stopped: list[int] = []
        resumed: list[int] = []
        for moment in moments:
            process = self._start()
            try:
                stopped.append(self._wait_for(moment, process))
            finally:
                kill(process)
            resumed.append(self._began("weights"))
        self._finish(self._start())
        resumed.append(self._began("weights"))
        return [Kill(*pair) for pair in zip(stopped, resumed[1:], strict=True)]

    def _start(self) -> subprocess.Popen[bytes]:
        for name in ("steps.bin", "began.json"):
            (self.place / name).unlink(missing_ok=True)
        script = HERE / "contestants" / f"{self.contestant.script}.py"
        words = [self.contestant.task, str(self.place), str(self._steps), str(self._seed)]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, str(script), *words],
                stdout=log,
                stderr=log,
                env={**environment_with_threads(), "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore"},
                start_new_session=True,
            )

    @property
    def _log(self) -> Path:
        return self.place.with_suffix(".log")

    def _finish(self, process: subprocess.Popen[bytes]) -> None:
        try:
            status = process.wait()
        finally:
            kill(process)
        if status:
            raise Failed(f"ended with status {status}: {self._last_lines()}")

    def _wait_for(self, moment: int, process: subprocess.Popen[bytes]) -> int:
        """Wait until the training has taken ``moment`` steps, and return how many it has taken."""
        while True:
            step = self._step()
            if step >= moment:
                return step
            if process.poll() is not None:
                raise Failed(f"ended at step {step}, before it could be killed at {moment}: {self._last_lines()}")
            sleep(0.002)

    def _step(self) -> int:
        try:
            count = np.fromfile(self.place / "steps.bin", np.int64)
            return self._began("step") + int(count[0])
        except (OSError, ValueError, IndexError):
            return 0  # the process has not begun

    def _began(self, what: str) -> int:
        return int(json.loads((self.place / "began.json").read_text())[what])

    def _last_lines(self) -> str:
        return " / ".join(self._log.read_text(errors="replace").strip().splitlines()[-3:])[-600:]

    def state(self) -> dict[str, Any]:
        """Every array of the state at the end, by ``KIND/NAME``."""
        with np.load(self.place / "end.npz") as file:
            return dict(file)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Send SIGKILL to a process and those that it started, unless it has ended by itself."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def marked_lines(contestant: Contestant) -> list[int]:
    """How many lines of the contestant's script are marked as written to save, and to resume."""
    text = (HERE / "contestants" / f"{contestant.script}.py").read_text()
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name in contestant.others:
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return [sum(line.endswith(f"  # {mark}") for line in lines) for mark in ("save", "resume")]


@attrs.frozen
class Outcome:
    """The column of a contestant."""

    contestant: Contestant
    cells: dict[str, str]
    kills: list[Kill]

    @property
    def differs(self) -> list[str]:
        """Return the kinds of states that are not equal after the kills."""
        compared = (*KINDS.values(), "TensorBoard")
        return [name for name in compared if self.cells[name] not in ("equal", "none")]


def contest(contestant: Contestant, place: Path, steps: int, seed: int, pool: ThreadPoolExecutor) -> Outcome:
    """Train A, A again and B, and compare them."""
    source = random.Random(f"{seed} {contestant.key}")
    moments = sorted(int(source.uniform(EARLIEST, LATEST) * steps) for _ in range(KILLS))
    names = ("whole", "again", "killed")
    whole, again, killed = (Training(contestant, place / contestant.key / name, steps, seed) for name in names)
    runs = [pool.submit(whole.whole), pool.submit(again.whole)]
    with_kills = pool.submit(killed.killed, moments)
    for run in runs:
        run.result()
    kills = with_kills.result()
    expected, repeated, resumed = whole.state(), again.state(), killed.state()
    undetermined = [name for kind, name in KINDS.items() if compare(kind, expected, repeated) not in ("equal", "none")]
    saving, resuming = marked_lines(contestant)
    cells = {
        "version": "a page" if contestant.distribution == "torch" else contestant.version or "",
        "control, A and A again": f"differs: {', '.join(undetermined)}" if undetermined else "equal",
        **{name: compare(kind, expected, resumed) for kind, name in KINDS.items()},
        "TensorBoard": compare_tensorboard(whole.place, killed.place),
        "steps lost at each kill": ", ".join(f"{kill.lost:,}" for kill in kills),
        "lines to save, to resume": f"{saving}, {resuming}",
    }
    return Outcome(contestant, cells, kills)


def training_of(contestant: Contestant, steps: int, seed: int) -> dict[str, Any]:
    """Return what a line of the file of results is for: an outcome with other values does not count."""
    return {"contestant": contestant.key, "version": contestant.version, "steps": steps, "seed": seed}


def keep(path: Path, outcome: Outcome, training: dict[str, Any]) -> None:
    """Append an outcome to the file of results."""
    kills = [attrs.asdict(kill) for kill in outcome.kills]
    with path.open("a") as file:
        file.write(json.dumps({"training": training, "cells": outcome.cells, "kills": kills}) + "\n")


def kept(path: Path | None, contestant: Contestant, training: dict[str, Any]) -> Outcome | None:
    """Return the outcome of a training from the file of results; None if the file does not have it."""
    lines = path.read_text().splitlines() if path is not None and path.exists() else []
    for found in map(json.loads, lines):
        if found["training"] == training:
            return Outcome(contestant, found["cells"], [Kill(**kill) for kill in found["kills"]])
    return None


def markdown(outcomes: list[Outcome]) -> str:
    """A table with one column for each contestant."""
    names = list(outcomes[0].cells)
    lines = ["| | " + " | ".join(outcome.contestant.name for outcome in outcomes) + " |"]
    lines.append("|---" * (len(outcomes) + 1) + "|")
    lines += ["| " + " | ".join([name, *(outcome.cells[name] for outcome in outcomes)]) + " |" for name in names]
    return "\n".join(lines)


@click.command(help=__doc__)
@click.option("--only", multiple=True, help="A contestant, such as sb3-ppo. May be repeated.")
@click.option("--ppo-steps", default=4_000, show_default=True, type=click.IntRange(2000), help="Steps on CartPole-v1.")
@click.option("--sac-steps", default=1_000, show_default=True, type=click.IntRange(1000), help="Steps on Pendulum-v1.")
@click.option("--seed", default=1, show_default=True, help="Seed of the trainings and of the moments of the kills.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Trainings at a time.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep everything in this new folder.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep the outcome of each finished contestant in this file, and do not train those again that are in it.",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write everything to this file.")
def main(
    only: tuple[str, ...],
    ppo_steps: int,
    sac_steps: int,
    seed: int,
    jobs: int,
    folder: Path | None,
    results: Path | None,
    json_file: Path | None,
) -> None:
    known = [contestant.key for contestant in CONTESTANTS]
    unknown = sorted(set(only) - set(known))
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}: the contestants are {', '.join(known)}", param_hint="--only")
    if folder is not None and folder.exists():
        raise click.BadParameter(f"{folder} exists; name a new folder", param_hint="--folder")
    console = Console(soft_wrap=True, highlight=False)
    outcomes: list[Outcome] = []
    absent: dict[str, str] = {}
    with TemporaryDirectory() as temporary, ThreadPoolExecutor(jobs) as pool, ThreadPoolExecutor(jobs) as rows:
        place = folder if folder is not None else Path(temporary)
        waiting = {}
        for contestant in CONTESTANTS:
            if only and contestant.key not in only:
                continue
            if contestant.version is None:
                absent[contestant.key] = f"{contestant.distribution} is not installed"
                continue
            steps = sac_steps if contestant.off_policy else ppo_steps
            training = training_of(contestant, steps, seed)
            finished = kept(results, contestant, training)
            if finished is not None:
                outcomes.append(finished)
                continue
            waiting[rows.submit(contest, contestant, place, steps, seed, pool)] = (contestant, training)
        for outcome in as_completed(waiting):
            contestant, training = waiting[outcome]
            try:
                outcomes.append(outcome.result())
                if results is not None:
                    keep(results, outcomes[-1], training)
                console.print(f"{contestant.key}: {len(outcomes[-1].differs)} kinds of state differ")
            except Failed as failure:
                absent[contestant.key] = str(failure)
                console.print(f"{contestant.key}: {failure}")
            report(json_file, outcomes, absent)  # what is finished is kept if the contest is stopped
    outcomes.sort(key=lambda outcome: CONTESTANTS.index(outcome.contestant))
    for off_policy, steps in ((False, ppo_steps), (True, sac_steps)):
        chosen = [outcome for outcome in outcomes if outcome.contestant.off_policy == off_policy]
        if chosen:
            console.print(f"\n{chosen[0].contestant.title}, {steps:,} steps\n\n{markdown(chosen)}")
    for key, reason in absent.items():
        console.print(f"\n{key}: no column, because {reason}")
    console.print(f"\n{machine()}; seed {seed}")
    report(json_file, outcomes, absent)
    if any(outcome.differs for outcome in outcomes if outcome.contestant.distribution == "rlcore"):
        sys.exit(MISSED)


def machine() -> str:
    """Return the versions that all contestants share, the processor and the date."""
    where = circumstances()
    shared = ("torch", "numpy", "gymnasium")
    versions = ", ".join(f"{name} {where['versions'][name]}" for name in shared if name in where["versions"])
    return f"Python {where['python']}, {versions}; {where['processor']}, {where['cpus']} cores; {where['date']}"


def report(path: Path | None, outcomes: list[Outcome], absent: dict[str, str]) -> None:
    figures = []
    for outcome in outcomes:
        contestant = outcome.contestant
        ours = contestant.distribution == "rlcore"
        figures.append(
            Figure(
                f"kinds of state that differ after {KILLS} kills: {contestant.name}, {contestant.title}",
                len(outcome.differs),
                "kinds",
                target=0 if ours else None,
                smaller=True,
                detail=", ".join(outcome.differs),
            )
        )
    found = {
        outcome.contestant.key: {"cells": outcome.cells, "kills": [attrs.asdict(kill) for kill in outcome.kills]}
        for outcome in outcomes
    }
    write_report(path, {"benchmark": "resume_contest", "contestants": found, "absent": absent}, figures)


if __name__ == "__main__":
    main()
