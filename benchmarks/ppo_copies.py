"""PPO with more and more copies of CartPole: agent steps per second, which must not fall, and the share of the limit.

Networks have two layers of 64 units, for the policy and for the value. A rollout has fewer steps of each copy the more
copies there are, and one minibatch is a quarter of it, of at least 256 transitions, so minibatches grow with the copies
up to 32,768. Each training runs in a process of its own, on one core. A round measures every number of copies once, in
turn. ``limit`` is as in ``ppo_speed.py``: the share of the time that the products of the gradient steps would take at
the speed of this machine's best product.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any

import attrs
import click
from ppo_speed import COMPARISONS
from ppo_trainings import PPOCase
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, Figure, alternate, in_own_process, write_report

ROWS = {1: 1024, 8: 128, 64: 128, 256: 32, 1024: 32, 4096: 32}  # of a rollout, by copies
STEPS = {1: 15_000, 8: 60_000}  # of a training; else 800,000
MINIBATCHES = 4
SMALLEST = 256
TARGET = 0.95  # of the speed with any smaller number of copies
# the share of the limit
LIMIT_COPIES = 1024
LIMIT_TARGET = 0.4
CARTPOLE_SIZES = COMPARISONS["cartpole-64"].sizes


def case_of(copies: int) -> PPOCase:
    """The training with so many copies."""
    rows = ROWS[copies]
    case = PPOCase(
        env_id="CartPole-v1", num_envs=copies, rollout_rows=rows, num_epoch=4, steps=1,
        batch_size=max(SMALLEST, copies * rows // MINIBATCHES),
    )  # fmt: skip
    return case.with_steps(STEPS.get(copies, 800_000))


def measure(copies: int, scale: float) -> dict[str, float]:
    """Agent steps per second, and the share of the limit."""
    case = case_of(copies)
    case = case.with_steps(case.steps * scale)
    taken: dict[str, Any] = in_own_process(
        "ppo_speed:measure", library="rlcore", case=attrs.asdict(case), seed=1, pinned=True
    )
    least = case.learning_flops(*CARTPOLE_SIZES) / taken["product_speed"]
    return {"speed": case.steps / taken["seconds"], "limit": least / taken["seconds"]}


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each number of copies.")
@click.option("--scale", default=1.0, show_default=True, type=float, help="Factor on the steps of each training.")
@click.option(
    "--copies", "chosen", multiple=True, type=click.Choice(list(map(str, ROWS))), help="Only so many; repeatable."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(rounds: int, scale: float, chosen: tuple[str, ...], json_file: Path | None) -> None:
    console = Console()

    def one(copies: str) -> dict[str, float]:
        found = measure(int(copies), scale)
        console.print(f"{copies} copies: {found['speed']:,.0f} steps/s, {found['limit']:.0%} of the limit")
        return found

    names = [str(copies) for copies in ROWS if not chosen or str(copies) in chosen]
    found = alternate(names, rounds, one)
    table = Table(title="PPO on copies of CartPole, pinned to one core", caption="medians over the rounds")
    for column in ("copies", "minibatch", "steps/s", "limit", "of the fastest with fewer", "target"):
        table.add_column(column, justify="right")
    ratios: dict[str, float] = {}
    figures = []
    for at, copies in enumerate(names):
        speeds, limit = ([each[key] for each in found[copies]] for key in ("speed", "limit"))
        row = [copies, f"{case_of(int(copies)).batch_size:,}", f"{median(speeds):,.0f}", f"{median(limit):.0%}"]
        if at:
            before = [
                max(each["speed"] for each in turns)
                for turns in zip(*(found[each] for each in names[:at]), strict=True)
            ]
            ratios[copies] = median(now / then for now, then in zip(speeds, before, strict=True))
            row += [f"{ratios[copies]:.2f}x", f"{TARGET:.2f}x"]
        table.add_row(*row)
        what = f"PPO on CartPole, {copies} environments, pinned to one core: share of the arithmetic limit"
        target = LIMIT_TARGET if copies == str(LIMIT_COPIES) else None
        detail = f"{median(speeds):,.0f} agent steps/s"
        figures.append(Figure(what, median(limit), "", target=target, detail=detail))
    console.print(table)
    report = {"benchmark": "ppo_copies", "found": found, "ratios": ratios, "target": TARGET}
    write_report(json_file, report, figures)
    reached = all(figure.target is None or figure.value >= figure.target for figure in figures)
    sys.exit(0 if reached and all(ratio >= TARGET for ratio in ratios.values()) else MISSED)


if __name__ == "__main__":
    main()
