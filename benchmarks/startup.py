"""Measures how long rlcore takes to start.

It measures ``rlcore --help`` and ``rlcore plugins list`` relative to ``python -c "import click"``, as alternating
processes; the modules that the two commands import; and the time from the end of ``import torch`` to the end of the
first environment step of ``rlcore run examples/cartpole.yaml``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import click
from first_step_plugin import FILE_VARIABLE
from rich.console import Console
from rich.table import Table
from side_by_side import (
    HERE,
    MISSED,
    Figure,
    MeasurementFailed,
    alternate,
    environment_with_threads,
    pairwise_ratio,
    write_report,
)

RLCORE = Path(sysconfig.get_path("scripts")) / ("rlcore.exe" if os.name == "nt" else "rlcore")
BASELINE = "import click"
COMMANDS = {
    BASELINE: [sys.executable, "-c", "import click"],
    "rlcore --help": [str(RLCORE), "--help"],
    "rlcore plugins list": [str(RLCORE), "plugins", "list"],
}
RATIO_TARGET = 4.0
FIRST_STEP_TARGET = 1.5  # seconds
HEAVY = ("numpy", "torch")

# Import torch first, although `rlcore run` imports it late: the time then includes everything except torch.
RUN_AFTER_TORCH = """
import sys, time
import torch
print(repr(time.monotonic()), file=sys.stderr, flush=True)
from rlcore.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def wall_seconds(command: Sequence[str]) -> float:
    started = perf_counter()
    checked(command)
    return perf_counter() - started


def checked(command: Sequence[str], **variables: str) -> str:
    """Run a command to its end and return its standard error."""
    done = subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment_with_threads(), **variables},
        check=False,
    )
    if done.returncode != 0:
        raise MeasurementFailed(f"{' '.join(command)} ended with status {done.returncode}\n{done.stderr}")
    return done.stderr


def heavy_imports(command: Sequence[str]) -> list[str]:
    """Return which of numpy and torch a command of the ``rlcore`` script imports, from the import trace."""
    trace = checked([sys.executable, "-X", "importtime", *command])
    imported = {line.rpartition("|")[2].strip() for line in trace.splitlines() if line.startswith("import time:")}
    if "rlcore" not in imported:
        raise MeasurementFailed(f"{' '.join(command)}: the import trace has no rlcore in it")
    return [name for name in HEAVY if name in imported]


def first_step_seconds() -> float:
    """Measure the time from the end of ``import torch`` to the end of the first environment step, in a new process."""
    with tempfile.TemporaryDirectory() as directory:
        reached = Path(directory) / "reached"
        arguments = [
            "run",
            str(HERE.parent / "examples" / "cartpole.yaml"),
            *("--results-dir", directory),
            *("--set", "behaviors.CartPole.max_steps=8"),
            *("-p", "module:first_step_plugin"),
        ]
        search_path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
        errors = checked(
            [sys.executable, "-c", RUN_AFTER_TORCH, *arguments],
            PYTHONPATH=search_path,
            **{FILE_VARIABLE: str(reached)},
        )
        return float(reached.read_text()) - float(errors.splitlines()[0])


@click.command(help=__doc__)
@click.option("--rounds", default=15, show_default=True, type=click.IntRange(1), help="Turns of each command.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(rounds: int, json_file: Path | None) -> None:
    if not RLCORE.exists():
        raise MeasurementFailed(f"{RLCORE} does not exist; install rlcore in this environment")
    for command in COMMANDS.values():
        wall_seconds(command)  # warm up the file cache and the bytecode cache
    seconds = alternate(list(COMMANDS), rounds, lambda name: wall_seconds(COMMANDS[name]))
    first_steps = [first_step_seconds() for _ in range(max(3, rounds // 3))]

    table = Table(title="Starting rlcore (medians)")
    for column in ("what", "measured", "ratio", "target", "numpy, torch"):
        table.add_column(column, justify="left" if column in ("what", "numpy, torch") else "right", no_wrap=True)
    table.add_row(f'python -c "{BASELINE}"', f"{median(seconds[BASELINE]) * 1e3:.0f} ms")
    met = True
    ratios = {}
    imports = {}
    for name in list(COMMANDS)[1:]:
        ratios[name] = pairwise_ratio(seconds[name], seconds[BASELINE])
        imports[name] = heavy_imports(COMMANDS[name])
        met = met and ratios[name] <= RATIO_TARGET and not imports[name]
        table.add_row(
            name,
            f"{median(seconds[name]) * 1e3:.0f} ms",
            colored(f"{ratios[name]:.2f}x", ratios[name] <= RATIO_TARGET),
            f"{RATIO_TARGET:.0f}x",
            colored(", ".join(imports[name]) or "not imported", not imports[name]),
        )
    first_step = median(first_steps)
    met = met and first_step <= FIRST_STEP_TARGET
    shown = colored(f"{first_step:.2f} s", first_step <= FIRST_STEP_TARGET)
    table.add_row("rlcore run, after torch", shown, "", f"{FIRST_STEP_TARGET:.1f} s")
    Console().print(table)
    report = {"seconds": seconds, "ratios": ratios, "heavy_imports": imports, "first_step_seconds": first_steps}
    figures = [
        Figure(name, ratios[name], "x", f'python -c "{BASELINE}"', RATIO_TARGET, smaller=True,
               detail=f"{median(seconds[name]) * 1e3:.0f} ms")
        for name in ratios
    ]  # fmt: skip
    first = Figure("rlcore run to its first step, after torch", first_step, "s", target=FIRST_STEP_TARGET, smaller=True)
    write_report(json_file, {"benchmark": "startup", **report, "met": met}, [*figures, first])
    if not met:
        sys.exit(MISSED)


def colored(text: str, met: bool) -> str:
    color = "green" if met else "red"
    return f"[{color}]{text}[/{color}]"


if __name__ == "__main__":
    main()
