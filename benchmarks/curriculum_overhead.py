"""The cost of four environment parameters under a curriculum, in a PPO training on 64 CartPole environments.

Two trainings take turns, each in a process of its own: one without environment parameters, one whose length, gravity,
mass and force are drawn again for every episode, from lessons that advance on the way. The values stay close to
CartPole's own, so that both learn alike and their episodes are of about the same length.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import attrs
import click
import torch
from ppo_speed import CARTPOLE_64
from ppo_trainings import PPOCase, rlcore_training
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, alternate, in_own_process, pairwise_ratio, write_report
from trainings import BEHAVIOR

TARGET = 0.95
ENTRANTS = ("without parameters", "4 parameters, lessons")
NOMINAL = {"length": 0.5, "gravity": 9.8, "masspole": 0.1, "force_mag": 10.0}
LESSONS = 3
CASE = CARTPOLE_64.with_steps(2 * CARTPOLE_64.steps)


def environment_parameters() -> dict[str, Any]:
    """A uniform sampler in each lesson, within 2, 4 and 6 percent of CartPole's own value."""
    blocks = {}
    for name, value in NOMINAL.items():
        lessons: list[dict[str, Any]] = []
        for number in range(LESSONS):
            share = 0.02 * (number + 1)
            bounds = {"min_value": (1 - share) * value, "max_value": (1 + share) * value}
            lessons.append(
                {"name": f"lesson{number}", "value": {"sampler_type": "uniform", "sampler_parameters": bounds}}
            )
            if number < LESSONS - 1:
                criterion = {"behavior": BEHAVIOR, "threshold": 25.0 * (number + 1), "min_lesson_length": 100}
                lessons[-1]["completion_criteria"] = criterion
        blocks[name] = {"curriculum": lessons}
    return blocks


def measure(entrant: str, case: dict[str, Any], seed: int) -> dict[str, Any]:
    """Steps per second and episodes of one training; runs in a process of its own."""
    torch.set_num_threads(1)
    blocks = {} if entrant == ENTRANTS[0] else {"environment_parameters": environment_parameters()}
    training: Any = rlcore_training(PPOCase(**case), seed, **blocks)
    started = perf_counter()
    steps = training.train()
    speed = steps / (perf_counter() - started)
    return {"speed": speed, "episodes": training.run.results()[BEHAVIOR].episodes}


@click.command(help=__doc__)
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(1), help="Turns of each.")
@click.option("--scale", default=1.0, show_default=True, type=float, help="Factor on the steps of each training.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(rounds: int, scale: float, json_file: Path | None) -> None:
    console = Console()
    case = attrs.asdict(CASE.with_steps(CASE.steps * scale))

    def one(entrant: str) -> dict[str, Any]:
        taken: dict[str, Any] = in_own_process("curriculum_overhead:measure", entrant=entrant, case=case, seed=1)
        console.print(f"{entrant}: {taken['speed']:,.0f} steps/s, {taken['episodes']:,} episodes")
        return taken

    taken = alternate(ENTRANTS, rounds, one)
    speeds = {entrant: [each["speed"] for each in runs] for entrant, runs in taken.items()}
    ratio = pairwise_ratio(speeds[ENTRANTS[1]], speeds[ENTRANTS[0]])
    table = Table(title="PPO on 64 copies of CartPole, agent steps per second", caption="medians")
    for column in ("training", "steps/s", "episodes"):
        table.add_column(column, justify="left" if column == "training" else "right")
    for entrant in ENTRANTS:
        episodes = taken[entrant][0]["episodes"]
        table.add_row(entrant, f"{median(speeds[entrant]):,.0f}", f"{episodes:,}")
    console.print(table)
    console.print(f"with parameters it trains at {ratio:.3f} of the speed without; target {TARGET}")
    write_report(json_file, {"benchmark": "curriculum_overhead", "rounds": rounds, "case": case, "taken": taken})
    if ratio < TARGET:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
