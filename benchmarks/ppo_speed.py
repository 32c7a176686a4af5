"""PPO's agent steps per second, end to end, against Stable-Baselines3 and Tianshou.

Each measurement is one training in a process of its own. The clock runs over the training call and nothing else:
imports, environments and networks come before it; rollouts, updates, statistics and rlcore's last checkpoint are in
it. The libraries take turns, and ratios are formed within a turn.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import attrs
import click
from ppo_trainings import PPOCase, ready_training
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, alternate, in_own_process, pairwise_ratio, write_report

OURS = "rlcore"


@attrs.frozen
class Comparison:
    """A case, and how many times as fast as each peer rlcore has to be."""

    case: PPOCase
    targets: dict[str, float]


CARTPOLE_8 = PPOCase(
    env_id="CartPole-v1", num_envs=8, rollout_rows=128, batch_size=256, num_epoch=4, steps=80 * 8 * 128
)
CARTPOLE_64 = PPOCase(
    env_id="CartPole-v1", num_envs=64, rollout_rows=128, batch_size=2048, num_epoch=4, steps=40 * 64 * 128
)
HALFCHEETAH = PPOCase(
    env_id="HalfCheetah-v5", num_envs=8, rollout_rows=256, batch_size=256, num_epoch=10, steps=20 * 8 * 256
)
COMPARISONS = {
    "cartpole-8": Comparison(CARTPOLE_8, {"stable-baselines3": 3.0, "tianshou": 5.0}),
    "cartpole-64": Comparison(CARTPOLE_64, {"stable-baselines3": 2.5}),
    "halfcheetah": Comparison(HALFCHEETAH, {"stable-baselines3": 1.5}),
}


def measure(library: str, case: dict[str, Any], seed: int) -> float:
    """Agent steps per second of one training; runs in a process of its own."""
    training = ready_training(library, PPOCase(**case), seed)
    started = perf_counter()
    steps = training.train()
    seconds = perf_counter() - started
    if steps != case["steps"]:
        raise RuntimeError(f"{library} took {steps} agent steps, not {case['steps']}")
    return steps / seconds


def compare(name: str, comparison: Comparison, rounds: int, scale: float, console: Console) -> dict[str, Any]:
    """All rounds of one case: steps per second by library, and the ratio and its target by peer."""
    case = comparison.case.with_steps(comparison.case.steps * scale)

    def one(library: str) -> float:
        speed: float = in_own_process("ppo_speed:measure", library=library, case=attrs.asdict(case), seed=1)
        console.print(f"{name}: {library} {speed:,.0f} steps/s")
        return speed

    speeds = alternate([OURS, *comparison.targets], rounds, one)
    peers = {}
    for peer, target in comparison.targets.items():
        ratio = pairwise_ratio(speeds[OURS], speeds[peer])
        peers[peer] = {"ratio": ratio, "target": target, "met": ratio >= target}
    return {"case": attrs.asdict(case), "steps_per_second": speeds, "peers": peers}


def results_table(results: dict[str, Any]) -> Table:
    table = Table(title="PPO, agent steps per second (medians)")
    for column in ("case", "library", "steps/s", "slowest", "fastest", "rlcore is", "target"):
        table.add_column(column, justify="left" if column in ("case", "library") else "right", no_wrap=True)
    for name, result in results.items():
        for library, speeds in result["steps_per_second"].items():
            peer = result["peers"].get(library)
            compared = ("", "")
            if peer is not None:
                color = "green" if peer["met"] else "red"
                compared = (f"[{color}]{peer['ratio']:.2f}x[/{color}]", f"{peer['target']:.1f}x")
            figures = (f"{figure:,.0f}" for figure in (median(speeds), min(speeds), max(speeds)))
            table.add_row(name, library, *figures, *compared)
    return table


@click.command(help=__doc__)
@click.option(
    "--case", "cases", multiple=True, type=click.Choice(list(COMPARISONS)), help="Only this case; repeatable."
)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each library.")
@click.option("--scale", default=1.0, show_default=True, type=float, help="Factor on the steps of each training.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(cases: tuple[str, ...], rounds: int, scale: float, json_file: Path | None) -> None:
    console = Console()
    results = {name: compare(name, COMPARISONS[name], rounds, scale, console) for name in cases or tuple(COMPARISONS)}
    console.print(results_table(results))
    write_report(json_file, {"benchmark": "ppo_speed", "rounds": rounds, "results": results})
    if not all(peer["met"] for result in results.values() for peer in result["peers"].values()):
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
