"""SAC's agent steps per second, end to end, against Stable-Baselines3, on one core and on two.

One environment, Pendulum-v1, and one gradient step with 256 transitions on networks of 256-256 for each of its steps.
Each measurement is one training in a process of its own; the clock runs over the training call. Pinned trainings have
one core and one thread. Free ones have two cores: rlcore runs with ``num_threads: 2``, Stable-Baselines3 is measured
with one PyTorch thread and with two, and the faster of the two, turn by turn, is the one rlcore is compared with.

``limit`` is the share of rlcore's time that the products of its gradient steps would take, on one core, at the speed of
this machine's best product of 256 x 256 matrices.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import attrs
import click
from rich.console import Console
from rich.table import Table
from sac_trainings import SACCase, ready_training
from side_by_side import (
    MISSED,
    alternate,
    in_own_process,
    pairwise_ratio,
    pin_to_one_core,
    product_speed,
    write_report,
)

OURS, PEER = "rlcore", "stable-baselines3"
PENDULUM = SACCase(env_id="Pendulum-v1", steps=4_000, random_steps=256, learning_rate=1e-3, buffer_size=100_000)
SIZES = (3, 1)  # Pendulum's observation and action
TARGETS = {"pinned": 1.4, "free": 1.5}
# Library and threads, the first of each list is ours.
ENTRANTS = {"pinned": [(OURS, 1), (PEER, 1)], "free": [(OURS, 2), (PEER, 1), (PEER, 2)]}


def measure(library: str, threads: int, case: dict[str, Any], seed: int, pinned: bool) -> list[float]:
    """Steps per second of one training, by the wall clock and by the processor's, and FLOPs per second of a product."""
    if pinned:
        pin_to_one_core()
    training = ready_training(library, SACCase(**case), seed, threads)
    started, processor_started = perf_counter(), process_time()
    steps = training.train()
    speeds = [steps / (perf_counter() - started), steps / (process_time() - processor_started)]
    return [*speeds, product_speed()]


def compare(core: str, case: SACCase, rounds: int, console: Console) -> dict[str, Any]:
    """All rounds on one core or on two: speeds by entrant, the ratio to the faster peer, and its target."""
    entrants = {
        f"{library}, {threads} thread{'s' * (threads > 1)}": (library, threads) for library, threads in ENTRANTS[core]
    }

    def one(entrant: str) -> list[float]:
        library, threads = entrants[entrant]
        figures: list[float] = in_own_process(
            "sac_speed:measure",
            thread_variables=threads if library == PEER else 1,
            library=library,
            threads=threads,
            case=attrs.asdict(case),
            seed=1,
            pinned=core == "pinned",
        )
        console.print(f"{core}, {entrant}: {figures[0]:,.1f} steps/s, {figures[1]:,.1f} by CPU time")
        return figures

    measured = alternate(list(entrants), rounds, one)
    ours, *peers = measured.values()
    best = [max(turn, key=lambda figures: figures[0]) for turn in zip(*peers, strict=True)]
    flops_per_step = case.learning_flops(*SIZES) / case.steps
    return {
        "speeds": measured,
        "ratio": pairwise_ratio([each[0] for each in ours], [each[0] for each in best]),
        "processor_ratio": pairwise_ratio([each[1] for each in ours], [each[1] for each in best]),
        "limit": median(speed * flops_per_step / product for speed, _, product in ours),
        "target": TARGETS[core],
    }


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each entrant.")
@click.option("--scale", default=1.0, show_default=True, type=float, help="Factor on the steps of each training.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(rounds: int, scale: float, json_file: Path | None) -> None:
    console = Console()
    case = PENDULUM.with_steps(PENDULUM.steps * scale)
    results = {core: compare(core, case, rounds, console) for core in ENTRANTS}
    table = Table(title="SAC on Pendulum-v1, agent steps per second", caption="medians")
    for column in ("core", "library", "steps/s", "by CPU time"):
        table.add_column(column, justify="left" if column in ("core", "library") else "right")
    for core, result in results.items():
        for entrant, measured in result["speeds"].items():
            table.add_row(core, entrant, *(f"{median(each[k] for each in measured):,.1f}" for k in (0, 1)))
    console.print(table)
    for core, result in results.items():
        console.print(
            f"{core}: rlcore is {result['ratio']:.2f}x the faster {PEER} "
            f"({result['processor_ratio']:.2f}x by CPU time); target {result['target']}x; "
            f"{result['limit']:.0%} of the arithmetic limit of one core"
        )
    write_report(
        json_file, {"benchmark": "sac_speed", "rounds": rounds, "case": attrs.asdict(case), "results": results}
    )
    if any(result["ratio"] < result["target"] for result in results.values()):
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
