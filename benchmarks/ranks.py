"""The speed of ranks: a PPO training in 2 processes that ``torchrun`` starts, against one process.

A step of an environment takes 1 ms of the processor, measured by its clock, so that a busy machine does not shorten the
work. There are 8 environments in all. Both ways take turns, and the ratio is formed within a turn.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click
from rich.console import Console
from side_by_side import MISSED, Figure, alternate, environment_with_threads, pairwise_ratio, write_report

COUNT = 8  # environments
RANKS = 2
TARGET = 1.6
ONE = "one process"
SEVERAL = f"{RANKS} ranks"


def train(steps: int, result: Path) -> None:
    """Train in this process, which may be a rank; write agent steps per second to ``result``."""
    # An instance of a class that other processes can import: as a script, this module has another name.
    from workers import SimulatorPlugin

    from rlcore import Run, load_plugins

    plugins = load_plugins()
    plugins.register(SimulatorPlugin(), "simulators")
    run = Run(
        {
            "environment": {"type": "simulator", "id": "busy", "num_envs": COUNT},
            "behaviors": {
                "Agent": {
                    "trainer_type": "ppo",
                    "max_steps": steps,
                    "checkpoint_interval": steps,
                    "hyperparameters": {"buffer_size": 1024, "batch_size": 128},
                    "network_settings": {"hidden_units": 64},
                }
            },
            "stats": {"console": False, "jsonl": False},
            "checkpoint_settings": {"run_id": "ranks", "results_dir": str(result.parent)},
        },
        plugins,
    )
    run.start()
    started = perf_counter()
    run.train()
    if os.environ.get("RANK", "0") == "0":
        result.write_text(json.dumps(steps / (perf_counter() - started)))


def speed(way: str, steps: int) -> float:
    """Agent steps per second of one training in processes of its own."""
    with TemporaryDirectory() as place:
        result = Path(place) / "speed.json"
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        command = [sys.executable, *(torchrun if way == SEVERAL else []), __file__]
        subprocess.run([*command, "--child", str(result), "--steps", str(steps)], check=True,
                       env=environment_with_threads())  # fmt: skip
        return float(json.loads(result.read_text()))


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of both ways.")
@click.option("--steps", default=8192, show_default=True, type=click.IntRange(1024), help="Agent steps of a training.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
@click.option("--child", type=click.Path(path_type=Path), hidden=True)
def main(rounds: int, steps: int, json_file: Path | None, child: Path | None) -> None:
    if child is not None:
        train(steps, child)
        return
    speeds = alternate([ONE, SEVERAL], rounds, lambda way: speed(way, steps))
    ratio = pairwise_ratio(speeds[SEVERAL], speeds[ONE])
    for way, measured in speeds.items():
        Console().print(f"{way}: {median(measured):,.0f} agent steps/s")
    Console().print(f"{SEVERAL} are {ratio:.2f}x as fast as {ONE}; the target is {TARGET:g}x")
    report: dict[str, Any] = {"steps_per_second": speeds, "ratio": ratio, "target": TARGET, "met": ratio >= TARGET}
    figure = Figure("PPO, steps of 1 ms, 2 ranks of torchrun", ratio, "x", ONE, TARGET)
    write_report(json_file, {"benchmark": "ranks", **report}, [figure])
    if ratio < TARGET:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
