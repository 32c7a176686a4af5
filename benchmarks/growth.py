"""Measures what a run costs as it grows: CPU time and memory by its checkpoints, behaviors, agents, steps and metrics.

Each size is measured in a process of its own, with the stubs of ``loop_overhead.py`` as trainer and environment, so
that what rlcore itself does is all there is. An exponent is the slope of the logarithm of the processor time over the
logarithm of the size, by least squares: 1 is a cost for each checkpoint, agent or step that stays the same. Memory is
the largest that the process had.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Mapping
from math import log
from pathlib import Path
from statistics import linear_regression
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import attrs
import click
from loop_overhead import SLOTS, StubPlugin
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, in_own_process, write_report

from rlcore import Run, latest_summaries, load_plugins

TARGET = 1.05  # an exponent
BASE_STEPS = 20_000  # environment steps of a run whose behaviors or agents are counted
STEPS_BETWEEN_SAVES = 100


def measure(kind: str, size: int) -> dict[str, float]:
    """The processor seconds and the largest memory in MiB of one size; runs in a process of its own."""
    with TemporaryDirectory() as results:
        seconds = KINDS[kind].seconds(size, Path(results))
    return {"seconds": seconds, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def of_run(
    results: Path, env_steps: int, behaviors: int = 1, envs: int = SLOTS, checkpoints: int = 0, **counts: int
) -> float:
    """The processor seconds of a training."""
    plugins = load_plugins()
    plugins.register(StubPlugin(), "stub")
    steps = env_steps * envs
    run = Run(
        {
            "environment": {"type": "stub", "num_envs": envs},
            "behaviors": {f"Agent{k}": {} for k in range(behaviors)},
            "default_settings": {
                "trainer_type": "stub",
                "max_steps": steps,
                "checkpoint_interval": steps // checkpoints if checkpoints else steps,
                "keep_checkpoints": checkpoints or 1,
                "summary_freq": steps,
                **counts,
            },
            "checkpoint_settings": {"run_id": "growth", "results_dir": str(results)},
            "stats": {"console": False, "tensorboard": False},
        },
        plugins,
    )
    run.start()
    started = process_time()
    run.train()
    return process_time() - started


def of_status(lines: int, results: Path) -> float:
    """The processor seconds of what ``rlcore status`` reads of a run with so many ``lines`` of metrics."""
    stats = {f"Policy/Statistic {k}": 0.5 for k in range(20)}
    with (results / "metrics.jsonl").open("w") as file:
        for k in range(lines):
            file.write(json.dumps({"behavior": "Agent", "step": k, "time": k, "stats": stats}) + "\n")
    started = process_time()
    (latest,) = latest_summaries(results).values()
    assert latest.step == lines - 1
    return process_time() - started


@attrs.frozen
class Kind:
    """Something that grows.

    Attributes:
        sizes: How many of them are measured.
        seconds: The processor seconds with so many of them, in a directory for results.
    """

    sizes: tuple[int, ...]
    seconds: Callable[[int, Path], float]


KINDS = {
    "kept checkpoints": Kind(
        (50, 200, 800),
        lambda size, results: of_run(results, STEPS_BETWEEN_SAVES * size, checkpoints=size),
    ),
    "behaviors": Kind((1, 10, 100), lambda size, results: of_run(results, BASE_STEPS, behaviors=size)),
    "agents": Kind((10, 100, 1000), lambda size, results: of_run(results, BASE_STEPS, envs=size)),
    "environment steps": Kind(
        (100_000, 300_000, 1_000_000),
        lambda size, results: of_run(results, size, summary_freq=80_000, checkpoint_interval=800_000),
    ),
    "lines of metrics": Kind((1_000, 10_000, 160_000), of_status),
}


@click.command(help=__doc__)
@click.option(
    "--rounds", default=3, show_default=True, type=click.IntRange(1), help="Of each size; the fastest counts."
)
@click.option("--of", "kinds", multiple=True, type=click.Choice(list(KINDS)), help="Only this one; repeatable.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(rounds: int, kinds: tuple[str, ...], json_file: Path | None) -> None:
    table = Table(title="What grows with the size of a run")
    for column in ("size of", "sizes", "seconds", "for each, us", "memory, MiB", "exponent"):
        table.add_column(column, justify="left" if column == "size of" else "right")
    exponents = {}
    results: dict[str, Any] = {}
    for kind in kinds or tuple(KINDS):
        sizes = KINDS[kind].sizes
        found = {}
        for size in sizes:
            turns = [in_own_process("growth:measure", kind=kind, size=size) for _ in range(rounds)]
            found[size] = min(turns, key=lambda turn: turn["seconds"])
        exponents[kind] = exponent({size: each["seconds"] for size, each in found.items()})
        results[kind] = {str(size): each for size, each in found.items()}
        table.add_row(
            kind,
            "\n".join(f"{size:,}" for size in sizes),
            "\n".join(f"{each['seconds']:.2f}" for each in found.values()),
            "\n".join(f"{1e6 * each['seconds'] / size:,.1f}" for size, each in found.items()),
            "\n".join(f"{each['memory']:.0f}" for each in found.values()),
            f"{exponents[kind]:.2f}",
        )
    Console().print(table)
    met = max(exponents.values()) <= TARGET
    write_report(json_file, {"benchmark": "growth", "results": results, "exponents": exponents, "met": met})
    if not met:
        sys.exit(MISSED)


def exponent(seconds: Mapping[int, float]) -> float:
    """The slope of the logarithm of seconds over that of sizes."""
    slope, _ = linear_regression([log(size) for size in seconds], [log(each) for each in seconds.values()])
    return slope


if __name__ == "__main__":
    main()
