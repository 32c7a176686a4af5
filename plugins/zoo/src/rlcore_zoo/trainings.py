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

from rlcore import RunStateError, load_plugins, python_command
from rlcore_zoo.entries import Entry, Measurement
from rlcore_zoo.packing import configuration_differences

LIBRARIES = ("gymnasium", "torch", "numpy", "mujoco", "box2d", "ale-py", "minigrid", "pettingzoo", "mpe2", "open_spiel")


def train(entry: Entry, seed: int, results: Path) -> Measurement:
    """Train ``entry`` with ``seed`` and play the episodes of its score.

    The run is ``results/zoo-TRAINER-WORLD-SEED``, see :func:`run_id_of`. One that was interrupted is resumed, and one
    that is finished is only measured; the CPU time is then unknown. Raises RunStateError if the training or the
    evaluation fails, and for a run of an earlier version of the file; click.Abort if it was interrupted.
    """
    run = run_id_of(entry.name, seed)
    directory = results / run
    words = ["run", f"zoo:{entry.name}", "--seed", f"{seed}", "--run-id", run, "--results-dir", f"{results}"]
    resumed = (directory / "configuration.yaml").exists()
    if resumed:
        _require_same_file(directory, entry.name)
        words.append("--resume")
    record(entry)
    started = perf_counter()
    cpu_before = _cpu_seconds()
    _rlcore(words)
    wall_seconds = perf_counter() - started
    cpu_seconds = _cpu_seconds() - cpu_before
    words = ["evaluate", f"{directory}", "--episodes", f"{entry.episodes}", "--json"]
    if not entry.deterministic:
        words.append("--stochastic")
    result = json.loads(_rlcore(words, captured=True))
    return Measurement(
        name=entry.name,
        fingerprint=_fingerprint(entry),
        seed=seed,
        score=score_of(result),
        episodes=entry.episodes,
        steps=_steps(directory),
        cpu_seconds=None if resumed else round(cpu_seconds, 1),  # an earlier process used some of it
        wall_seconds=round(wall_seconds, 1),
        date=f"{date.today()}",
        machine=_machine(),
        python=platform.python_version(),
        versions=_versions(entry.world.needs),
        command="rlcore zoo check",
    )


def record(entry: Entry) -> None:
    """Have the agent play that a file learns from, unless its episodes are there."""
    if entry.recording is not None and not entry.recording.exists():
        _rlcore(entry.recording_words)


def _require_same_file(directory: Path, name: str) -> None:
    differences = list(configuration_differences(directory, name, load_plugins()))
    if differences:
        raise RunStateError(
            f"{directory}: was trained with another version of zoo:{name} ({'; '.join(differences[:3])}); choose "
            "another --results-dir"
        )


def _fingerprint(entry: Entry) -> str:
    assert entry.fingerprint is not None, "what the training needs is installed"
    return entry.fingerprint


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
    returns = []
    for behavior in result["behaviors"].values():
        returns.append(behavior["mean_reward"] + behavior.get("mean_group_reward", 0.0))
    return fmean(returns)


def _rlcore(words: Sequence[str], captured: bool = False) -> str:
    """Run a command of rlcore in a process of its own; return its output if it is ``captured``."""
    command = python_command("-m", "rlcore", *words)
    stdout = subprocess.PIPE if captured else None
    ended = subprocess.run(command, stdout=stdout, text=True, check=False)
    if ended.returncode == 130:  # 128 + SIGINT
        raise click.Abort
    if ended.returncode:
        raise RunStateError(f"rlcore {' '.join(words)} ended with exit code {ended.returncode}")
    return ended.stdout or ""


def _cpu_seconds() -> float:
    """CPU time of all child processes that have ended; 0 on Windows, which does not tell."""
    used = times()
    return used.children_user + used.children_system


def _steps(directory: Path) -> int:
    """The agent steps of a finished run, of the behavior that took the most."""
    text = (directory / "result.json").read_text(encoding="utf-8")
    behaviors = json.loads(text)["behaviors"]
    return max(int(behavior["steps"]) for behavior in behaviors.values())


def _machine() -> str:
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name}, {cpu_count()} cores"


def _versions(needs: Sequence[str]) -> dict[str, str]:
    """The versions of rlcore, of what an entry needs, and of the libraries below that are installed."""
    versions = {}
    needed = [need.partition("[")[0] for need in needs]
    for distribution in ("rlcore", *needed, *LIBRARIES):
        try:
            versions[distribution] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return versions
