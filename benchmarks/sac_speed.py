"""SAC's agent steps per second, end to end, against Stable-Baselines3, with both cores free to use.

One environment, Pendulum-v1, and one gradient step with 256 transitions on networks of 256-256 for each of its steps.
Each measurement is one training in a process of its own; the clock runs over the training call. rlcore gives PyTorch
one thread and takes the gradients of policy and critics in two Python threads. Stable-Baselines3 is measured with one
PyTorch thread and with two, and the faster of the two, turn by turn, is what rlcore is compared with.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import attrs
import click
from rich.console import Console
from rich.table import Table
from sac_trainings import SACCase, ready_training
from side_by_side import MISSED, alternate, in_own_process, pairwise_ratio, write_report

OURS, PEER = "rlcore", "stable-baselines3"
TARGET = 1.5
PENDULUM = SACCase(env_id="Pendulum-v1", steps=4_000, random_steps=256, learning_rate=1e-3, buffer_size=100_000)
# Library, and PyTorch's threads in each operation.
ENTRANTS = {f"{OURS}, 1 thread and a pair": (OURS, 1), f"{PEER}, 1 thread": (PEER, 1), f"{PEER}, 2 threads": (PEER, 2)}


def measure(library: str, threads: int, case: dict[str, Any], seed: int) -> float:
    """Steps per second of one training; runs in a process of its own."""
    training = ready_training(library, SACCase(**case), seed, threads)
    started = perf_counter()
    steps = training.train()
    return steps / (perf_counter() - started)


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each entrant.")
@click.option("--scale", default=1.0, show_default=True, type=float, help="Factor on the steps of each training.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(rounds: int, scale: float, json_file: Path | None) -> None:
    console = Console()
    case = attrs.asdict(PENDULUM.with_steps(PENDULUM.steps * scale))

    def one(entrant: str) -> float:
        library, threads = ENTRANTS[entrant]
        speed: float = in_own_process(
            "sac_speed:measure", thread_variables=threads, library=library, threads=threads, case=case, seed=1
        )
        console.print(f"{entrant}: {speed:,.1f} steps/s")
        return speed

    speeds = alternate(list(ENTRANTS), rounds, one)
    ours = next(iter(speeds.values()))
    best_of_peer = [max(turn) for turn in zip(*list(speeds.values())[1:], strict=True)]
    ratio = pairwise_ratio(ours, best_of_peer)
    table = Table(title="SAC on Pendulum-v1, agent steps per second", caption="medians")
    table.add_column("library")
    table.add_column("steps/s", justify="right")
    for entrant, measured in speeds.items():
        table.add_row(entrant, f"{median(measured):,.1f}")
    console.print(table)
    console.print(f"rlcore is {ratio:.2f}x the faster {PEER}; target {TARGET}x")
    write_report(
        json_file, {"benchmark": "sac_speed", "rounds": rounds, "case": case, "speeds": speeds, "ratio": ratio}
    )
    if ratio < TARGET:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
