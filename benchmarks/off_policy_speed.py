"""Agent steps per second of an off-policy training, end to end, against Stable-Baselines3: what such scripts share.

Each measurement is one training in a process of its own; the clock runs over the training call. Pinned trainings have
one core and one thread. Free ones have two cores. rlcore has no key for its threads; Stable-Baselines3 is measured with
one PyTorch thread and with two, and the faster of the two, turn by turn, is the one rlcore is compared with.

``limit`` is the share of rlcore's time that the products of its gradient steps would take, on one core, at the speed of
this machine's best product of 256 x 256 matrices.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import attrs
import click
import dqn_trainings
import sac_trainings
import td3_trainings
from dqn_trainings import DQNCase
from rich.console import Console
from rich.table import Table
from sac_trainings import SACCase
from side_by_side import (
    MISSED,
    Figure,
    alternate,
    in_own_process,
    pairwise_ratio,
    pin_to_one_core,
    product_speed,
    write_report,
)
from td3_trainings import TD3Case

OURS = "rlcore"
PEER = "stable-baselines3"
Entrant = tuple[str, int | None]  # a library and its threads; None: what it does without a key
# The first of each list is ours.
ENTRANTS: Mapping[str, Sequence[Entrant]] = {
    "pinned": [(OURS, None), (PEER, 1)],
    "free": [(OURS, None), (PEER, 1), (PEER, 2)],
}
Case = SACCase | TD3Case | DQNCase
READY: Mapping[str, tuple[Callable[..., Case], Callable[..., Any]]] = {
    "dqn": (DQNCase, dqn_trainings.ready_training),
    "sac": (SACCase, sac_trainings.ready_training),
    "td3": (TD3Case, td3_trainings.ready_training),
}


def measure(
    algorithm: str, library: str, threads: int | None, case: dict[str, Any], seed: int, pinned: bool
) -> list[float]:
    """Steps per second of one training, by the wall clock and by the processor's, and FLOPs per second of a product."""
    if pinned:
        pin_to_one_core()
    make, ready = READY[algorithm]
    training = ready(library, make(**case), seed, threads)
    started = perf_counter()
    processor_started = process_time()
    steps = training.train()
    speeds = [steps / (perf_counter() - started), steps / (process_time() - processor_started)]
    return [*speeds, product_speed()]


@attrs.frozen
class SpeedBenchmark:
    """Trainings of one algorithm, timed.

    Attributes:
        algorithm: A key of READY.
        cases: The trainings, each with the numbers in an observation and in an action.
        targets: The ratio to reach, pinned and free.
        entrants: What is measured, pinned and free; rlcore first.
    """

    algorithm: str
    cases: Sequence[tuple[Case, tuple[int, int]]]
    targets: Mapping[str, float]
    entrants: Mapping[str, Sequence[Entrant]] = ENTRANTS

    def compare(self, core: str, case: Case, sizes: tuple[int, int], rounds: int, console: Console) -> dict[str, Any]:
        """All rounds on one core or on two: speeds by entrant, the ratio to the faster peer, and its target.

        ``others`` are the ratios to libraries without a target.
        """
        entrants = {_named(*each): each for each in self.entrants[core]}

        def one(entrant: str) -> list[float]:
            library, threads = entrants[entrant]
            figures: list[float] = in_own_process(
                "off_policy_speed:measure",
                thread_variables=1 if library == OURS else threads or 1,
                algorithm=self.algorithm,
                library=library,
                threads=threads,
                case=attrs.asdict(case),
                seed=1,
                pinned=core == "pinned",
            )
            console.print(f"{case.env_id}, {core}, {entrant}: {figures[0]:,.1f} steps/s, {figures[1]:,.1f} by CPU time")
            return figures

        measured = alternate(list(entrants), rounds, one)
        ours = next(iter(measured.values()))
        fastest = {}
        for peer in dict.fromkeys(library for library, _ in entrants.values() if library != OURS):
            own = [speeds for entrant, speeds in measured.items() if entrants[entrant][0] == peer]
            fastest[peer] = [max(turn, key=lambda figures: figures[0]) for turn in zip(*own, strict=True)]
        ratios = {
            peer: [pairwise_ratio([each[k] for each in ours], [each[k] for each in best]) for k in (0, 1)]
            for peer, best in fastest.items()
        }
        ratio, processor_ratio = ratios.pop(PEER)
        flops_per_step = case.learning_flops(*sizes) / case.steps
        return {
            "speeds": measured,
            "ratio": ratio,
            "processor_ratio": processor_ratio,
            "others": {peer: found[0] for peer, found in ratios.items()},
            "limit": median(speed * flops_per_step / product for speed, _, product in ours),
            "target": self.targets[core],
        }

    def run(self, rounds: int, scale: float, cores: Sequence[str], json_file: Path | None) -> None:
        """Measure, print a table, and end the process with the exit code of a benchmark."""
        console = Console()
        name = self.algorithm.upper()
        cases = [(case.with_steps(case.steps * scale), sizes) for case, sizes in self.cases]
        results = {
            (case.env_id, core): self.compare(core, case, sizes, rounds, console)
            for case, sizes in cases
            for core in cores
        }
        table = Table(title=f"{name}, agent steps per second", caption="medians")
        for column in ("environment", "core", "library", "steps/s", "by CPU time"):
            table.add_column(column, justify="right" if column in ("steps/s", "by CPU time") else "left")
        for place, result in results.items():
            for entrant, measured in result["speeds"].items():
                table.add_row(*place, entrant, *(f"{median(each[k] for each in measured):,.1f}" for k in (0, 1)))
        console.print(table)
        for place, result in results.items():
            others = "".join(f"{ratio:.2f}x the faster {peer}; " for peer, ratio in result["others"].items())
            console.print(
                f"{', '.join(place)}: rlcore is {result['ratio']:.2f}x the faster {PEER} "
                f"({result['processor_ratio']:.2f}x by CPU time); target {result['target']}x; {others}"
                f"{result['limit']:.0%} of the arithmetic limit of one core"
            )
        write_report(
            json_file,
            {
                "benchmark": f"{self.algorithm}_speed",
                "rounds": rounds,
                "cases": [attrs.asdict(case) for case, _ in cases],
                "results": {", ".join(place): result for place, result in results.items()},
            },
            [
                Figure(
                    f"{name} on {', '.join(place)}",
                    result["ratio"],
                    "x",
                    PEER,
                    result["target"],
                    detail=f"{result['processor_ratio']:.2f}x by CPU time",
                )
                for place, result in results.items()
            ],
        )
        if any(result["ratio"] < result["target"] for result in results.values()):
            sys.exit(MISSED)

    def only(self, names: Sequence[str]) -> SpeedBenchmark:
        """The trainings in environments of these names."""
        return attrs.evolve(self, cases=[each for each in self.cases if each[0].env_id in names])

    def command(self, text: str | None) -> click.Command:
        """The command of a script, whose docstring is ``text``."""

        @click.command(help=f"{text}\n\n{__doc__.partition(chr(10) * 2)[2]}")
        @click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each entrant.")
        @click.option(
            "--scale", default=1.0, show_default=True, type=float, help="Factor on the steps of each training."
        )
        @click.option("--core", "cores", multiple=True, type=click.Choice([*ENTRANTS]), help="One of both only.")
        @click.option(
            "--env", "names", multiple=True, type=click.Choice([case.env_id for case, _ in self.cases]), help="Only it."
        )
        @click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
        def main(
            rounds: int, scale: float, cores: tuple[str, ...], names: tuple[str, ...], json_file: Path | None
        ) -> None:
            chosen = self.only(names) if names else self
            chosen.run(rounds, scale, cores or [*ENTRANTS], json_file)

        return main


def _named(library: str, threads: int | None) -> str:
    return library if threads is None else f"{library}, {threads} thread{'s' * (threads > 1)}"
