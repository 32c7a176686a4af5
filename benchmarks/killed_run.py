"""A training that is killed with ``kill -9`` and resumed, beside the same training that is not killed.

Both are commands of ``rlcore run`` with one seed. The second one is killed at random times, after its first checkpoint,
and resumed each time. At the end, every array of both last checkpoints is compared bit for bit: weights, moments of the
optimizer, random generators, open episodes.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import click
import numpy as np
from rich.console import Console
from side_by_side import MISSED, Figure, MeasurementFailed, write_report

CONFIG = Path(__file__).resolve().parent.parent / "examples/cartpole.yaml"


def run_command(config: Path, results: Path, run_id: str, steps: int, *more: str) -> list[str]:
    """Return the command of a training with a checkpoint in every twentieth part of it."""
    words = ["run", str(config), "--run-id", run_id, "--results-dir", str(results), "--seed", "1"]
    words += ["--max-steps", str(steps), "--set", f"default_settings.checkpoint_interval={steps // 20}"]
    return [sys.executable, "-m", "rlcore", *words, *more]


def trained(command: list[str]) -> float:
    """Run a command to its end and return its seconds."""
    started = perf_counter()
    ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        raise MeasurementFailed(f"{' '.join(command)} ended with status {ended.returncode}\n{ended.stderr}")
    return perf_counter() - started


def killed(command: list[str], run: Path, seconds: float) -> bool:
    """Kill a command after it has a checkpoint and ``seconds`` have passed; return whether it was still training."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not any(run.glob("checkpoints/[0-9]*")):
        sleep(0.01)
    sleep(seconds)
    alive = process.poll() is None
    process.kill()  # SIGKILL
    process.wait()
    return alive


def arrays(run: Path) -> dict[str, Any]:
    """Return every array of the last checkpoint by file and name."""
    from safetensors.numpy import load_file

    last = max(run.glob("checkpoints/[0-9]*"), key=lambda path: int(path.name))
    files = {path.name: load_file(path) for path in last.glob("*.safetensors")}
    return {f"{file}/{name}": array for file, found in files.items() for name, array in found.items()}


@click.command(help=__doc__)
@click.option("--config", default=CONFIG, type=click.Path(exists=True, path_type=Path), help="The training.")
@click.option("--steps", default=60_000, show_default=True, type=click.IntRange(1000), help="Its agent steps.")
@click.option("--kills", default=5, show_default=True, type=click.IntRange(1), help="How often it is killed.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the figures to this file.")
def main(config: Path, steps: int, kills: int, json_file: Path | None) -> None:
    console = Console()
    moments = random.Random(1)
    with TemporaryDirectory() as place:
        results = Path(place)
        seconds = trained(run_command(config, results, "whole", steps))
        counted = 0
        for number in range(kills):
            command = run_command(config, results, "killed", steps, *(["--resume"] if number else []))
            alive = killed(command, results / "killed", moments.uniform(0.0, seconds / (2 * kills)))
            counted += alive
            console.print(f"kill {number + 1}: {'while it trained' if alive else 'too late, it had ended'}")
        trained(run_command(config, results, "killed", steps, "--resume"))
        whole = arrays(results / "whole")
        other = arrays(results / "killed")
    differ = sorted(name for name in whole.keys() | other.keys() if not same(whole.get(name), other.get(name)))
    numbers = sum(array.size for array in whole.values())
    console.print(f"killed {counted} times: {len(differ)} of {len(whole)} arrays differ ({numbers:,} numbers)")
    for name in differ:
        console.print(f"  {name}")
    what = f"arrays that differ after {counted} kills, of {len(whole)} in the last checkpoint"
    figure = Figure(what, len(differ), "arrays", target=0, smaller=True, detail=f"{numbers:,} numbers compared")
    write_report(json_file, {"benchmark": "killed_run", "differ": differ, "met": not differ}, [figure])
    if differ:
        sys.exit(MISSED)


def same(one: Any, other: Any) -> bool:
    """Return whether two arrays exist and are equal bit for bit."""
    return one is not None and other is not None and one.dtype == other.dtype and np.array_equal(
        np.frombuffer(one.tobytes(), np.uint8), np.frombuffer(other.tobytes(), np.uint8)
    )  # fmt: skip


if __name__ == "__main__":
    main()
