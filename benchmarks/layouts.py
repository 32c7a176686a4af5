"""Advice of a run about workers and ranks, against what they bring: PPO with 8 environments in three layouts.

The layouts are one process, 2 workers and 2 ranks. ``cartpole`` is CartPole-v1, ``halfcheetah`` HalfCheetah-v5, and
``busy`` an environment whose step takes 1 ms of the processor. Each is a training in processes of its own; the layouts
take turns, and ratios are formed within a turn. The table has, for each layout, the speed that it predicts for another
one from its own times, the speed that was measured, and the line that the run writes. The measured
speed has to be at least 0.85 times the predicted one.

Other processes on the machine make exchanges slower than they are; measure on an idle one.
"""

from __future__ import annotations

import json
import logging
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
from rich.table import Table
from side_by_side import MISSED, alternate, environment_with_threads, pairwise_ratio, write_report

COUNT = 8  # environments
ONE = "one process"
WORKERS = "2 workers"
RANKS = "2 ranks"
WAYS = (ONE, WORKERS, RANKS)
TOLERANCE = 0.85  # of a prediction
CARTPOLE = {"buffer_size": 256, "batch_size": 256, "num_epoch": 20, "learning_rate": 1e-3}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {  # environment, hyperparameters, agent steps
    "cartpole": ({"type": "gymnasium", "id": "CartPole-v1"}, CARTPOLE, 40_960),
    "halfcheetah": ({"type": "gymnasium", "id": "HalfCheetah-v5"}, {"buffer_size": 2048, "batch_size": 64}, 24_576),
    "busy": ({"type": "simulator", "id": "busy"}, {"buffer_size": 1024, "batch_size": 128}, 8192),
}


class Lines(logging.Handler):
    """The lines about the speed of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("speed: "):
            self.found.append(record.getMessage().removeprefix("speed: "))


def train(case: str, way: str, result: Path) -> None:
    """Train in this process, which may be a rank; write speed, line and predictions to ``result``."""
    # An instance of a class that other processes can import: as a script, this module has another name.
    from workers import SimulatorPlugin

    from rlcore import Run, load_plugins
    from rlcore_torch import layouts

    plugins = load_plugins()
    plugins.register(SimulatorPlugin(), "simulators")
    environment, hyperparameters, steps = CASES[case]
    lines = Lines()
    log = logging.getLogger("rlcore.plugin.torch")
    log.setLevel(logging.INFO)
    log.addHandler(lines)
    with TemporaryDirectory() as results:
        run = Run(
            {
                "preset": "none",
                "environment": {**environment, "num_envs": COUNT, "workers": 2 if way == WORKERS else None},
                "behaviors": {
                    "Agent": {
                        "trainer_type": "ppo",
                        "max_steps": steps,
                        "summary_freq": steps // 4,
                        "checkpoint_interval": steps,
                        "hyperparameters": hyperparameters,
                        "network_settings": {"hidden_units": 64},
                    }
                },
                "stats": {"console": False, "jsonl": False},
                "checkpoint_settings": {"run_id": "layouts", "results_dir": results},
            },
            plugins,
        )
        run.start()
        started = perf_counter()
        run.train()
        speed = steps / (perf_counter() - started)
        if os.environ.get("RANK", "0") != "0":
            return
        measured = run._started.context.stash[layouts.WATCH].measured  # type: ignore[union-attr]
    predicted = {}
    if way == ONE:
        h = run.config.behaviors["Agent"].hyperparameters
        gradient_steps = measured.updates * h.num_epoch * round(h.buffer_size / h.batch_size)
        predicted = {
            WORKERS: layouts.with_workers(measured, COUNT, 2),
            RANKS: layouts.with_ranks(measured, COUNT, 2, gradient_steps),
        }
    elif way == WORKERS:
        predicted = {ONE: layouts.without_workers(measured)}
    else:
        predicted = {ONE: layouts.without_ranks(measured, 2)}
    result.write_text(json.dumps({"speed": speed, "line": " ".join(lines.found), "predicted": predicted}))


def measure(case: str, way: str) -> dict[str, Any]:
    """One training in processes of its own."""
    with TemporaryDirectory() as place:
        result = Path(place) / "result.json"
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        command = [sys.executable, *(torchrun if way == RANKS else []), __file__, "--child", str(result)]
        subprocess.run([*command, "--case", case, "--way", way], check=True, env=environment_with_threads())
        return dict(json.loads(result.read_text()))


@click.command(help=__doc__)
@click.option("--case", "cases", multiple=True, type=click.Choice(list(CASES)), help="Only this case.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Turns of all ways.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
@click.option("--child", type=click.Path(path_type=Path), hidden=True)
@click.option("--way", default=ONE, hidden=True)
def main(cases: tuple[str, ...], rounds: int, json_file: Path | None, child: Path | None, way: str) -> None:
    if child is not None:
        train(cases[0], way, child)
        return
    table = Table("case", "measured in", "of", "predicted", "measured", "the run says")
    report: dict[str, Any] = {}
    missed = False
    for case in cases or tuple(CASES):
        found = alternate(WAYS, rounds, lambda way, case=case: measure(case, way))  # type: ignore[misc]
        speeds = {way: [each["speed"] for each in found[way]] for way in WAYS}
        for way in WAYS:
            for other in found[way][0]["predicted"]:
                predicted = median(each["predicted"][other] for each in found[way])
                ratio = pairwise_ratio(speeds[other], speeds[way])
                missed |= ratio < TOLERANCE * predicted
                said = next((each["line"] for each in found[way] if each["line"]), "")
                table.add_row(case, way, other, f"{predicted:.2f}x", f"{ratio:.2f}x", said)
        report[case] = found
    Console(width=200).print(table)
    write_report(json_file, {"benchmark": "layouts", "cases": report, "met": not missed})
    if missed:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
