"""Compares how APPO learns CartPole from policies that are 0, 1, 4 and 16 updates old, beside PPO.

Actors are in the process of the run (``in_process: true``), so that the lag is exact and each training can be repeated.
The score is the median of the last evaluations of 20 episodes without exploration; points of the curve are mean returns
of training episodes. All have the values of their preset, ``appo-discrete`` and ``ppo-discrete``.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from side_by_side import in_own_process, write_report

from rlcore import Run

LAGS = (0, 1, 4, 16)
POINTS = 10  # of a curve
LATE = 5  # evaluations of the score, at the last tenth of the training


def train(trainer: str, lag: int, seed: int, steps: int) -> dict[str, Any]:
    """Train in this process; return the ``curve`` and the ``score``."""
    environment: dict[str, Any] = {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 8}
    if trainer == "appo":
        environment["workers"] = {"executor": "actors", "count": 2, "in_process": True, "lag": lag}
    late = []
    curve = []
    with TemporaryDirectory() as results:
        run = Run(
            {
                "preset": f"{trainer}-discrete",
                "environment": environment,
                "env_settings": {"seed": seed},
                "behaviors": {"CartPole": {"max_steps": steps, "summary_freq": steps // (POINTS * LATE)}},
                "checkpoint_settings": {"run_id": "lag", "results_dir": results},
                "stats": {"console": False, "tensorboard": False},
            }
        )
        with run:
            for number, epoch in enumerate(run, 1):
                result = epoch.behaviors["CartPole"]
                if number % LATE == 0:
                    curve.append(result.mean_reward or 0.0)
                if result.steps > 0.9 * steps:
                    late.append(run.evaluate(episodes=20).score)
    return {"curve": curve, "score": median(late)}


@click.command(help=__doc__)
@click.option("--seed", "seeds", multiple=True, type=int, default=(1, 2, 3), show_default=True, help="Of a training.")
@click.option("--lag", "lags", multiple=True, type=int, default=LAGS, show_default=True, help="Of APPO, in updates.")
@click.option("--steps", default=100_000, show_default=True, type=click.IntRange(1000), help="Of a training.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(seeds: tuple[int, ...], lags: tuple[int, ...], steps: int, json_file: Path | None) -> None:
    table = Table(
        "", "late scores by seed", f"mean return after {steps // POINTS:,}, {2 * steps // POINTS:,}, ... steps"
    )
    report: dict[str, Any] = {}
    console = Console()
    for trainer, lag in [("ppo", 0), *(("appo", lag) for lag in lags)]:
        name = "PPO" if trainer == "ppo" else f"APPO, lag {lag}"
        found = [in_own_process("actor_lag:train", trainer=trainer, lag=lag, seed=seed, steps=steps) for seed in seeds]
        report[name] = found
        scores = ", ".join(f"{each['score']:.0f}" for each in found)
        curves = zip(*(each["curve"] for each in found), strict=False)
        curve = " ".join(f"{mean(values):.0f}" for values in curves)
        table.add_row(name, scores, curve)
        console.print(name, scores, curve)
    console.print(table)
    write_report(json_file, report)


if __name__ == "__main__":
    main()
