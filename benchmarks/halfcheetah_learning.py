"""Returns of PPO and SAC on HalfCheetah-v5, against Stable-Baselines3 with the same hyperparameters.

Each (library, seed) trains in a process of its own and then plays 20 whole episodes deterministically, with the
observation normalizer of the training held fixed. The figure compared is the interquartile mean of the returns over
seeds and episodes (Agarwal et al. 2021, arXiv:2108.13264). A finished training is one line of the results file, and
what is there is not trained again: an interrupted benchmark continues with the same command.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import attrs
import click
import numpy as np
import ppo_trainings
import sac_trainings
from ppo_trainings import PPOCase
from rich.console import Console
from rich.table import Table
from sac_trainings import SACCase
from side_by_side import MISSED, circumstances, in_own_process
from trainings import Training

OURS, PEER = "rlcore", "stable-baselines3"
TARGET = 0.95
EPISODES = 20
PPO = PPOCase(
    env_id="HalfCheetah-v5",
    num_envs=8,
    rollout_rows=256,
    batch_size=256,
    num_epoch=10,
    steps=1_000_000,
    normalize=True,
    # With a deviation of 1 most actions of the untrained policy are cut off at the bounds, and either library learns on
    # some seeds to slide on its back: what is compared then is luck.
    initial_log_std=-1.0,
)
SAC = SACCase(env_id="HalfCheetah-v5", steps=100_000, random_steps=10_000)
CASES: dict[str, PPOCase | SACCase] = {"ppo": PPO, "sac": SAC}


def ready_training(algorithm: str, library: str, case: dict[str, Any], seed: int) -> Training:
    if algorithm == "ppo":
        return ppo_trainings.ready_training(library, PPOCase(**case), seed)
    return sac_trainings.ready_training(library, SACCase(**case), seed)


def train_and_evaluate(algorithm: str, library: str, case: dict[str, Any], seed: int) -> dict[str, Any]:
    """Trains to the end and plays; runs in a process of its own."""
    training = ready_training(algorithm, library, case, seed)
    started = perf_counter()
    steps = training.train()
    seconds = perf_counter() - started
    return {
        "library": library,
        "seed": seed,
        "case": case,
        "steps": steps,
        "seconds": seconds,
        "returns": training.evaluate(EPISODES),
    }


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean of the middle half: a quarter of the values is left out at either end, rounded down."""
    ordered = np.sort(np.asarray(values, np.float64))
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def finished_trainings(path: Path, case: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    """Trainings of this very case in the results file, by library and seed. A line cut short by a crash is skipped."""
    finished = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            result = json.loads(line)
        except ValueError:
            continue
        if result["case"] == case:
            finished[result["library"], result["seed"]] = result
    return finished


def train_missing(
    algorithm: str,
    missing: Sequence[tuple[str, int]],
    case: dict[str, Any],
    path: Path,
    jobs: int,
    console: Console,
) -> dict[tuple[str, int], dict[str, Any]]:
    """Trains what the file lacks, ``jobs`` at a time, and appends each result as it comes."""

    def one(library: str, seed: int) -> dict[str, Any]:
        target = "halfcheetah_learning:train_and_evaluate"
        result = in_own_process(target, algorithm=algorithm, library=library, case=case, seed=seed)
        line = json.dumps({**result, **circumstances()})
        with path.open("a") as file:  # a single short write: lines of two threads do not mix
            file.write(line + "\n")
        console.print(f"{library} seed {seed}: {describe(result)}")
        return dict(result)

    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.read_bytes()[-1:] not in (b"", b"\n"):  # a line that a crash cut short
        with path.open("a") as file:
            file.write("\n")
    with ThreadPoolExecutor(jobs) as pool:
        tasks = {key: pool.submit(one, *key) for key in missing}
        try:
            return {key: task.result() for key, task in tasks.items()}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def describe(result: dict[str, Any]) -> str:
    mean, std = np.mean(result["returns"]), np.std(result["returns"])
    return f"mean return {mean:,.0f} +- {std:,.0f}, {result['steps'] / result['seconds']:,.0f} steps/s"


def results_table(
    algorithm: str, results: dict[tuple[str, int], dict[str, Any]], quartile_means: dict[str, float]
) -> Table:
    table = Table(title=f"{algorithm.upper()} on HalfCheetah-v5, deterministic returns")
    for column in ("library", "mean by seed", "interquartile mean"):
        table.add_column(column, justify="left" if column == "library" else "right")
    for library, quartile_mean in quartile_means.items():
        means = [f"{np.mean(result['returns']):,.0f}" for (name, _), result in results.items() if name == library]
        table.add_row(library, ", ".join(means), f"{quartile_mean:,.0f}")
    return table


@click.command(help=__doc__)
@click.option("--algorithm", default="ppo", show_default=True, type=click.Choice(list(CASES)))
@click.option("--steps", type=int, help="Agent steps of each training: without it, 1M of PPO and 100k of SAC.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="Trainings of each library.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1, 2), help="Trainings at a time.")
@click.option(
    "--results",
    "path",
    type=click.Path(path_type=Path),
    help="One line of JSON for each finished training; without it, results/ALGORITHM_halfcheetah_learning.jsonl.",
)
def main(algorithm: str, steps: int | None, seeds: int, jobs: int, path: Path | None) -> None:
    console = Console()
    path = path or Path("results", f"{algorithm}_halfcheetah_learning.jsonl")
    stated = CASES[algorithm]
    case = attrs.asdict(stated.with_steps(steps or stated.steps))
    # Seed by seed, so that an interrupted benchmark has pairs.
    keys = [(library, seed) for seed in range(1, seeds + 1) for library in (OURS, PEER)]
    finished = finished_trainings(path, case)
    finished |= train_missing(algorithm, [key for key in keys if key not in finished], case, path, jobs, console)
    results = {key: finished[key] for key in keys}
    quartile_means = {
        library: interquartile_mean([r for key in keys if key[0] == library for r in results[key]["returns"]])
        for library in (OURS, PEER)
    }
    console.print(results_table(algorithm, results, quartile_means))
    if quartile_means[PEER] <= 0:
        console.print(f"{PEER} has not learned to run yet: no ratio; give it more --steps")
        sys.exit(MISSED)
    ratio = quartile_means[OURS] / quartile_means[PEER]
    console.print(f"rlcore is {ratio:.3f} of {PEER}; target {TARGET}")
    if ratio < TARGET:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
