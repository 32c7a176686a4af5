"""A central critic (MAPPO) beside independent PPO, on cooperative tasks of MPE.

Both methods train files of rlcore-zoo, ppo/simple_*.yaml, with equal settings, seeds and numbers of steps. Independent
critics read what their agent observes, central ones also what its team mates do. Compared are the mean return of all
episodes of the training, and that of 100 episodes of the trained policies with the most likely actions. An episode is a
game: all agents get its reward. Each training has a process of its own.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
import yaml
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, in_own_process, write_report

TASKS = {"speaker_listener": 1, "line": 4}  # by name, the agents of each behavior in a game
METHODS = ("central", "independent")
FIGURES = ("training", "trained")
EPISODES = 100


def measure(task: str, method: str, seed: int, scale: float) -> dict[str, float]:
    """Mean returns over the training and of the trained policies."""
    from rlcore import Run
    from rlcore_zoo.collection import path_of

    config = yaml.safe_load(path_of(f"ppo/simple_{task}").read_text(encoding="utf-8"))
    block = config["default_settings"]
    block["max_steps"] = round(block["max_steps"] * scale)
    block["summary_freq"] = block["max_steps"] // 20
    if method == "independent":
        config["environment"]["options"]["state"] = None
        block["network_settings"]["critic_observations"] = []
    config |= {"env_settings": {"seed": seed}, "stats": {"console": False}}
    with tempfile.TemporaryDirectory() as directory:
        config["checkpoint_settings"]["results_dir"] = directory
        with Run(config) as run:
            of_epochs = [each.mean_reward for epoch in run for each in epoch.behaviors.values()]
            [returns, *_] = [each.returns for each in run.evaluate(EPISODES * TASKS[task]).behaviors.values()]
    parts = [mean for mean in of_epochs if mean is not None]  # None: no episode ended between two summaries
    return {"training": float(np.mean(parts)), "trained": float(np.mean(returns))}


@click.command(help=__doc__)
@click.option("--task", "tasks", multiple=True, type=click.Choice(list(TASKS)), help="One task; may be repeated.")
@click.option("--seeds", default="1,2,3", show_default=True, help="Seeds, separated by commas.")
@click.option("--scale", default=1.0, show_default=True, type=float, help="Factor on the steps of each training.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(tasks: tuple[str, ...], seeds: str, scale: float, json_file: Path | None) -> None:
    console = Console()
    chosen = tasks or tuple(TASKS)
    numbers = [int(seed) for seed in seeds.split(",")]
    found: list[dict[str, Any]] = []
    for task, seed, method in product(chosen, numbers, METHODS):
        result = in_own_process("central_critic:measure", task=task, method=method, seed=seed, scale=scale)
        found.append({"task": task, "method": method, "seed": seed, **result})
        shown = ", ".join(f"{name} {result[name]:.2f}" for name in FIGURES)
        console.print(f"{task}, seed {seed}, {method}: {shown}")

    def returns(task: str, method: str, figure: str) -> list[float]:
        return [each[figure] for each in found if (each["task"], each["method"]) == (task, method)]

    table = Table(title="Mean returns by seed", caption=f"seeds {seeds}")
    for column in ("task", "episodes", *METHODS, "better"):
        table.add_column(column)
    missed = False
    for task, figure in product(chosen, FIGURES):
        central, independent = (returns(task, method, figure) for method in METHODS)
        better = sum(ours > theirs for ours, theirs in zip(central, independent, strict=True))
        missed |= better < len(numbers)
        cells = [", ".join(f"{value:.2f}" for value in each) for each in (central, independent)]
        table.add_row(task, figure, *cells, f"{better} of {len(numbers)}")
    console.print(table)
    write_report(json_file, {"benchmark": "central_critic", "scale": scale, "episodes": EPISODES, "taken": found})
    if missed:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
