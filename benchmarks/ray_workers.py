"""The cost of Ray actors: 8 environments in 2 actors, against 2 workers that are processes.

A step of an environment takes 1 ms, of the processor (``busy``) or of waiting (``sleep``). Every measurement is a run
in a process of its own, which starts Ray before the time is taken and ends it after that: both take seconds, however
long a training is. The ways take turns, and ratios are formed within a turn.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, alternate, in_own_process, pairwise_ratio, write_report
from workers import ACTORS, SEVERAL, WORKERS
from workers import steps_per_second as speed_of_run

TARGET = 0.6


def steps_per_second(case: str, way: str, scale: float) -> float:
    """Measure one case in one way, in this process."""
    from rlcore_workers.ray.session import connection
    from rlcore_workers.ray.settings import RaySettings

    if way != ACTORS:
        return speed_of_run(case, way, scale)
    connection.open(RaySettings(count=WORKERS))
    try:
        return speed_of_run(case, way, scale)
    finally:
        connection.close()


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of both ways.")
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True), help="Of all steps.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(rounds: int, scale: float, json_file: Path | None) -> None:
    table = Table("case", SEVERAL, ACTORS, "ratio", "target")
    report = {}
    missed = False
    for name in ("busy", "sleep"):

        def measure(way: str, name: str = name) -> float:
            return float(in_own_process("ray_workers:steps_per_second", case=name, way=way, scale=scale))

        speeds = alternate([SEVERAL, ACTORS], rounds, measure)
        ratio = pairwise_ratio(speeds[ACTORS], speeds[SEVERAL])
        missed |= ratio < TARGET
        shown = [f"{median(speeds[way]):,.0f}" for way in (SEVERAL, ACTORS)]
        table.add_row(name, *shown, f"{ratio:.2f}x", f"{TARGET:g}x")
        report[name] = {"steps_per_second": speeds, "ratio": ratio, "target": TARGET}
    Console().print(table)
    write_report(json_file, {"benchmark": "ray_workers", "cases": report, "met": not missed})
    if missed:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
