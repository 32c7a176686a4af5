"""PPO's agent steps per second, end to end, against Stable-Baselines3, sb3-contrib and Tianshou.

Each measurement is one training in a process of its own. The clock runs over the training call and nothing else:
imports, environments and networks come before it; rollouts, updates, statistics and rlcore's last checkpoint are in
it. The libraries take turns, and ratios are formed within a turn. Every case is measured twice: pinned, with each
training on one core, and free.

``limit`` is the share of the training's time that the products of its gradient steps would take at the speed of this
machine's best product of 256 x 256 matrices.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import attrs
import click
from ppo_trainings import PPOCase, ready_training
from rich.console import Console
from rich.table import Table
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

OURS = "rlcore"


@attrs.frozen
class Comparison:
    """A case, and how many times as fast as each peer rlcore has to be."""

    case: PPOCase
    targets: dict[str, float]
    sizes: tuple[int, int]  # of the observation, and of the policy's output


CARTPOLE_8 = PPOCase(
    env_id="CartPole-v1", num_envs=8, rollout_rows=128, batch_size=256, num_epoch=4, steps=80 * 8 * 128
)
CARTPOLE_64 = PPOCase(
    env_id="CartPole-v1", num_envs=64, rollout_rows=128, batch_size=2048, num_epoch=4, steps=40 * 64 * 128
)
HALFCHEETAH = PPOCase(
    env_id="HalfCheetah-v5", num_envs=8, rollout_rows=256, batch_size=256, num_epoch=10, steps=20 * 8 * 256
)
CARTPOLE_MEMORY = attrs.evolve(CARTPOLE_8, lstm_units=64, steps=30 * 8 * 128)
COMPARISONS = {
    "cartpole-8": Comparison(CARTPOLE_8, {"stable-baselines3": 3.0, "tianshou": 5.0}, (4, 2)),
    "cartpole-64": Comparison(CARTPOLE_64, {"stable-baselines3": 2.5}, (4, 2)),
    "cartpole-8-memory": Comparison(CARTPOLE_MEMORY, {"sb3-contrib": 2.0}, (4, 2)),
    "halfcheetah": Comparison(HALFCHEETAH, {"stable-baselines3": 1.6}, (17, 6)),
}


def measure(library: str, case: dict[str, Any], seed: int, pinned: bool) -> dict[str, float]:
    """Seconds of one training, by the wall clock and by the processor's; runs in a process of its own."""
    if pinned:
        pin_to_one_core()
    training = ready_training(library, PPOCase(**case), seed)
    # As `rlcore run` does before it trains, for every library: what was imported is not searched for garbage.
    gc.collect()
    gc.freeze()
    started = perf_counter()
    processor_started = process_time()
    steps = training.train()
    seconds = perf_counter() - started
    processor_seconds = process_time() - processor_started
    if steps != case["steps"]:
        raise RuntimeError(f"{library} took {steps} agent steps, not {case['steps']}")
    return {"seconds": seconds, "processor_seconds": processor_seconds, "product_speed": product_speed()}


def compare(
    name: str, comparison: Comparison, pinned: bool, rounds: int, scale: float, console: Console
) -> dict[str, Any]:
    """All rounds of one case: steps per second by library, and the ratio and its target by peer."""
    case = comparison.case.with_steps(comparison.case.steps * scale)

    def one(library: str) -> dict[str, float]:
        taken: dict[str, float] = in_own_process(
            "ppo_speed:measure", library=library, case=attrs.asdict(case), seed=1, pinned=pinned
        )
        share = taken["processor_seconds"] / taken["seconds"]
        note = (
            f" [yellow](had the processor for {share:.0%} of it: the machine is busy)[/yellow]" if share < 0.9 else ""
        )
        console.print(f"{name}: {library} {case.steps / taken['seconds']:,.0f} steps/s{note}")
        return taken

    taken = alternate([OURS, *comparison.targets], rounds, one)

    def speeds(clock: str) -> dict[str, list[float]]:
        return {library: [case.steps / each[clock] for each in runs] for library, runs in taken.items()}

    wall = speeds("seconds")
    processor = speeds("processor_seconds")
    peers = {}
    for peer, target in comparison.targets.items():
        ratio = pairwise_ratio(wall[OURS], wall[peer])
        peers[peer] = {
            "ratio": ratio,
            "processor_ratio": pairwise_ratio(processor[OURS], processor[peer]),
            "target": target,
            "met": ratio >= target,
        }
    flops = case.learning_flops(*comparison.sizes)
    return {
        "case": attrs.asdict(case),
        "limit": {
            library: median(flops / each["product_speed"] / each["seconds"] for each in runs)
            for library, runs in taken.items()
        },
        "steps_per_second": wall,
        "steps_per_processor_second": processor,
        "peers": peers,
    }


def results_table(results: dict[str, Any]) -> Table:
    table = Table(title="PPO, agent steps per second", caption="medians; ratios are taken turn by turn")
    for column in ("case", "library", "steps/s", "limit", "rlcore is", "target", "by CPU time"):
        table.add_column(column, justify="left" if column in ("case", "library") else "right", no_wrap=True)
    for name, result in results.items():
        for library, speeds in result["steps_per_second"].items():
            row = [name, library, f"{median(speeds):,.0f}", f"{result['limit'][library]:.0%}"]
            if library in result["peers"]:
                peer = result["peers"][library]
                color = "green" if peer["met"] else "red"
                row += [f"[{color}]{peer['ratio']:.2f}x[/{color}]", f"{peer['target']:.1f}x"]
                row += [f"{peer['processor_ratio']:.2f}x"]
            table.add_row(*row)
    return table


def figure(name: str, result: dict[str, Any], peer: str) -> Figure:
    found = result["peers"][peer]
    speeds = result["steps_per_second"]
    detail = (
        f"{median(speeds[OURS]):,.0f} against {median(speeds[peer]):,.0f} agent steps/s, "
        f"{found['processor_ratio']:.2f}x by CPU time"
    )
    return Figure(f"PPO, {name}", found["ratio"], "x", peer, found["target"], detail=detail)


@click.command(help=__doc__)
@click.option(
    "--case", "cases", multiple=True, type=click.Choice(list(COMPARISONS)), help="Only this case; repeatable."
)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each library.")
@click.option("--scale", default=1.0, show_default=True, type=float, help="Factor on the steps of each training.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(cases: tuple[str, ...], rounds: int, scale: float, json_file: Path | None) -> None:
    console = Console()
    results = {
        f"{name}, {'pinned' if pinned else 'free'}": compare(name, COMPARISONS[name], pinned, rounds, scale, console)
        for name in cases or tuple(COMPARISONS)
        for pinned in (True, False)
    }
    console.print(results_table(results))
    figures = [figure(name, result, peer) for name, result in results.items() for peer in result["peers"]]
    write_report(json_file, {"benchmark": "ppo_speed", "rounds": rounds, "results": results}, figures)
    if not all(peer["met"] for result in results.values() for peer in result["peers"].values()):
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
