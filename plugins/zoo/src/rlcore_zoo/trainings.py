"""Trains a file of the zoo in full, as ``rlcore run`` does, and measures what it reached."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import date
from importlib import metadata
from os import cpu_count, times
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any

import click

from rlcore import RunStateError, python_command
from rlcore_zoo.entries import Entry, Measurement, fingerprint

LIBRARIES = ("gymnasium", "torch", "numpy", "mujoco", "box2d", "ale-py", "minigrid", "pettingzoo", "mpe2", "open_spiel")


def train(entry: Entry, seed: int, results: Path, env: str | None = None) -> Measurement:
    """Train ``entry`` with ``seed`` and play the episodes of its score.

    The run is ``results/zoo-TRAINER-WORLD-SEED``, see :func:`run_id_of`. One that was interrupted is resumed, and one
    that is finished is only measured; the CPU time is then unknown. ``env`` is the environment of an entry that needs
    one. Raises RunStateError if the training or the evaluation fails, and click.Abort if it was interrupted.
    """
    run = run_id_of(entry.name, seed)
    directory = results / run
    words = ["run", f"zoo:{entry.name}", "--seed", f"{seed}", "--run-id", run, "--results-dir", f"{results}"]
    words += ["--env", env] if env is not None else []
    whole = not (directory / "configuration.yaml").exists()
    started = perf_counter()
    before = _cpu_seconds()
    _rlcore(words if whole else [*words, "--resume"])
    seconds = perf_counter() - started
    cpu = _cpu_seconds() - before
    drawn = [] if entry.deterministic else ["--stochastic"]
    text = _rlcore(["evaluate", f"{directory}", "--episodes", f"{entry.episodes}", "--json", *drawn], captured=True)
    return Measurement(
        name=entry.name,
        fingerprint=fingerprint(entry.path),
        seed=seed,
        score=score_of(json.loads(text)),
        episodes=entry.episodes,
        steps=_steps(directory),
        cpu_seconds=round(cpu, 1) if whole else None,
        wall_seconds=round(seconds, 1),
        date=f"{date.today()}",
        machine=_machine(),
        python=platform.python_version(),
        versions=_versions(entry.world.needs),
        command="rlcore zoo check",
    )


def run_id_of(name: str, seed: int) -> str:
    """Return what the run of a file is called: ``zoo-ppo-CartPole-v1-4`` for seed 4 of ``ppo/CartPole-v1``."""
    return f"zoo-{name.replace('/', '-')}-{seed}"


def score_of(result: Mapping[str, Any]) -> float:
    """Return the score of what ``rlcore evaluate --json`` prints.

    Against opponents, the mean reward against them. Else the mean return of an agent, with what its group shares,
    averaged over behaviors.
    """
    if "score" in result:
        return float(result["score"])
    return fmean(each["mean_reward"] + each.get("mean_group_reward", 0.0) for each in result["behaviors"].values())


def _rlcore(words: Sequence[str], captured: bool = False) -> str:
    """Run a command of rlcore in a process of its own; return its output if it is ``captured``."""
    command = python_command("-m", "rlcore", *words)
    done = subprocess.run(command, stdout=subprocess.PIPE if captured else None, text=True, check=False)
    if done.returncode == 130:
        raise click.Abort
    if done.returncode:
        raise RunStateError(f"rlcore {' '.join(words)} ended with exit code {done.returncode}")
    return done.stdout or ""


def _cpu_seconds() -> float:
    """CPU time of all child processes that have ended; 0 on Windows, which does not tell."""
    used = times()
    return used.children_user + used.children_system


def _steps(directory: Path) -> int:
    """The agent steps of a finished run, of the behavior that took the most."""
    result = json.loads((directory / "result.json").read_text(encoding="utf-8"))
    return max(int(each["steps"]) for each in result["behaviors"].values())


def _machine() -> str:
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    return f"{name}, {cpu_count()} cores"


def _versions(needs: Sequence[str]) -> dict[str, str]:
    """The versions of rlcore, of what an entry needs, and of the libraries below that are installed."""
    found = {}
    for each in ("rlcore", *(need.partition("[")[0] for need in needs), *LIBRARIES):
        try:
            found[each] = metadata.version(each)
        except metadata.PackageNotFoundError:
            continue
    return found
