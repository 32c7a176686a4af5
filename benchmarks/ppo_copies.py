"""PPO with more and more copies of CartPole: agent steps per second, which must not fall.

A rollout has 32 steps of every copy, and one minibatch is a quarter of it, so minibatches grow with the copies, up to
32,768 transitions. Each training runs in a process of its own, on one core. A round measures every number of copies
once, in turn.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any

import attrs
import click
from ppo_trainings import PPOCase
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, alternate, in_own_process, write_report

COPIES = (64, 256, 1024, 4096)
ROWS, MINIBATCHES = 32, 4
TARGET = 0.95  # of the speed with any smaller number of copies


def case_of(copies: int) -> PPOCase:
    """The training with so many copies, of at least 400,000 steps."""
    rollout = copies * ROWS
    case = PPOCase(
        env_id="CartPole-v1", num_envs=copies, rollout_rows=ROWS, batch_size=rollout // MINIBATCHES, num_epoch=4,
        steps=rollout,
    )  # fmt: skip
    return case.with_steps(400_000)


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each number of copies.")
@click.option("--scale", default=1.0, show_default=True, type=float, help="Factor on the steps of each training.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(rounds: int, scale: float, json_file: Path | None) -> None:
    console = Console()

    def one(copies: str) -> float:
        case = case_of(int(copies))
        case = case.with_steps(case.steps * scale)
        taken: dict[str, Any] = in_own_process(
            "ppo_speed:measure", library="rlcore", case=attrs.asdict(case), seed=1, pinned=True
        )
        speed: float = case.steps / taken["seconds"]
        console.print(f"{copies} copies: {speed:,.0f} steps/s")
        return speed

    speeds = alternate([str(copies) for copies in COPIES], rounds, one)
    table = Table(title="PPO on copies of CartPole, pinned to one core", caption="medians over the rounds")
    for column in ("copies", "minibatch", "steps/s", "of the fastest with fewer", "target"):
        table.add_column(column, justify="right")
    ratios: dict[str, float] = {}
    for at, copies in enumerate(COPIES):
        row = [f"{copies:,}", f"{case_of(copies).batch_size:,}", f"{median(speeds[str(copies)]):,.0f}"]
        if at:
            before = [max(turns) for turns in zip(*(speeds[str(fewer)] for fewer in COPIES[:at]), strict=True)]
            ratio = median(now / then for now, then in zip(speeds[str(copies)], before, strict=True))
            ratios[str(copies)] = ratio
            row += [f"{ratio:.2f}x", f"{TARGET:.2f}x"]
        table.add_row(*row)
    console.print(table)
    write_report(json_file, {"steps_per_second": speeds, "ratios": ratios, "target": TARGET})
    sys.exit(0 if all(ratio >= TARGET for ratio in ratios.values()) else MISSED)


if __name__ == "__main__":
    main()
