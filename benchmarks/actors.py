"""Measures actors against one actor, and against as many workers: agent steps per second of CartPole that waits.

Each actor or worker has one environment, whose step takes CartPole's time and sleeps: for equally long each time, or
for times of an exponential distribution with this mean. APPO learns in both, with equal settings. The learner is full
where it no longer waits for fragments (``Performance/Seconds Waiting for Workers``); more actors bring nothing there.

Every measurement is a run in a process of its own, from its first update on. The ways take turns.
"""

from __future__ import annotations

import platform
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import click
import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table
from side_by_side import alternate, in_own_process, write_report

from rlcore import Run

COUNTS = (1, 2, 4, 8)
MILLISECONDS = (1.0, 5.0)
SECONDS = 20.0  # of each measurement
FRAGMENT = 16
SLOW_CARTPOLE = "SlowCartPole-v0"
APPO = {
    "trainer_type": "appo",
    "hyperparameters": {"buffer_size": 256, "batch_size": 128, "num_epoch": 1},
    "network_settings": {"hidden_units": 64, "num_layers": 2, "activation": "tanh"},
}


class SlowCartPole(gymnasium.Wrapper[Any, Any, Any, Any]):
    """CartPole whose step sleeps ``seconds`` more, on average if ``varies``."""

    def __init__(self, seconds: float, varies: bool) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self._seconds = seconds
        self._varies = varies
        self._random = np.random.default_rng()

    def step(self, action: Any) -> Any:
        sleep(self._random.exponential(self._seconds) if self._varies else self._seconds)
        return self.env.step(action)


gymnasium.register(SLOW_CARTPOLE, "actors:SlowCartPole")


def speed(executor: str, count: int, milliseconds: float, varies: bool, seconds: float) -> dict[str, float]:
    """Return agent steps per second, and the share of the time in which the learner waited, in this process."""
    workers: dict[str, Any] = {"executor": executor, "count": count}
    if executor == "actors":
        workers["fragment"] = FRAGMENT
    with TemporaryDirectory() as results:
        run = Run(
            {
                "preset": "none",
                "environment": {
                    "type": "gymnasium",
                    "id": f"actors:{SLOW_CARTPOLE}",
                    "num_envs": count,
                    "workers": workers,
                    "options": {"seconds": milliseconds / 1000.0, "varies": varies},
                },
                "behaviors": {"Agent": {**APPO, "max_steps": 10_000_000, "summary_freq": 256}},
                "checkpoint_settings": {"run_id": "actors", "results_dir": results},
                "stats": {"console": False, "tensorboard": False},
            }
        )
        first: tuple[float, float, int] | None = None
        with run:
            for epoch in run:
                result = epoch.behaviors["Agent"]
                waited = result.stats["Performance/Seconds Waiting for Workers"].mean
                now = perf_counter()
                connected = result.stats.get("Actors/Connected")
                if first is None and (connected is None or connected.mean == count):
                    first = now, waited, result.steps
                if first is not None and now - first[0] >= seconds:
                    break
        assert first is not None
        took = now - first[0]
        return {"speed": (result.steps - first[2]) / took, "waited": (waited - first[1]) / took}


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.machine()


@click.command(help=__doc__)
@click.option("--count", "counts", multiple=True, type=int, default=COUNTS, show_default=True, help="Actors.")
@click.option("--ms", "times", multiple=True, type=float, default=MILLISECONDS, show_default=True, help="Of a step.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Turns of all ways.")
@click.option("--seconds", default=SECONDS, show_default=True, help="Of each measurement.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(
    counts: tuple[int, ...], times: tuple[float, ...], rounds: int, seconds: float, json_file: Path | None
) -> None:
    console = Console()
    console.print(processor())
    table = Table("step", "count", "actors: steps/s", "of count x one actor", "learner waits", "workers: steps/s")
    report: dict[str, Any] = {"processor": processor()}
    for milliseconds in times:
        for varies in (False, True):

            def measure(way: str, milliseconds: float = milliseconds, varies: bool = varies) -> dict[str, float]:
                executor, number = way.split()
                found: dict[str, float] = in_own_process(
                    "actors:speed",
                    executor=executor,
                    count=int(number),
                    milliseconds=milliseconds,
                    varies=varies,
                    seconds=seconds,
                )
                return found

            ways = [f"{executor} {count}" for count in sorted({1, *counts}) for executor in ("actors", "processes")]
            found = alternate(ways, rounds, measure)
            name = f"{milliseconds:g} ms{' exponential' if varies else ''}"
            report[name] = found
            speeds = {way: median(each["speed"] for each in measured) for way, measured in found.items()}
            for count in sorted({1, *counts}):
                of_actors = speeds[f"actors {count}"]
                waits = median(each["waited"] for each in found[f"actors {count}"])
                share = of_actors / count / speeds["actors 1"]
                of_workers = speeds[f"processes {count}"]
                table.add_row(
                    name, str(count), f"{of_actors:,.0f}", f"{share:.2f}", f"{waits:.0%}", f"{of_workers:,.0f}"
                )
    console.print(table)
    write_report(json_file, report)


if __name__ == "__main__":
    main()
