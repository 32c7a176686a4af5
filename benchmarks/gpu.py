"""A GPU against the CPU: gradient steps a second, ordinary, recorded and compiled ones, in float32, TF32 and bfloat16,
for small and large networks.

``small`` is PPO and SAC with the networks of most tasks; ``wide`` is PPO with three layers of 2,048 units and
minibatches of 8,192. The environment is ``fast_cpu.py``'s control task, which costs next to nothing. Each measurement
is a training in a process of its own, and the ways take turns. Gradient steps are timed over a whole training, so those
of compiled ways contain the compiler's seconds: ``--scale 10`` makes their share small. Without a GPU, only the CPU is
measured.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import attrs
import click
from fast_cpu import register_control_task
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, alternate, in_own_process, pairwise_ratio, write_report
from trainings import RlcoreTraining

CPU = "CPU"
GPU = "GPU"
RECORDED = "GPU, recorded"
ON_GPU = {"device": "cuda"}
WAYS: dict[str, dict[str, Any]] = {
    CPU: {},
    GPU: ON_GPU,
    "GPU, compiled": {**ON_GPU, "compile": True},
    RECORDED: {**ON_GPU, "cuda_graphs": True},
    "GPU, compiled and recorded": {**ON_GPU, "compile": True, "cuda_graphs": True},
    "GPU, recorded, TF32": {**ON_GPU, "cuda_graphs": True, "tf32": True},
    "GPU, recorded, bfloat16": {**ON_GPU, "cuda_graphs": True, "bf16": True},
}
TARGET = 3.0  # times as many gradient steps as without recording, for small networks


@attrs.frozen
class Case:
    """A training, and the least ratio of gradient steps with recording to those without."""

    num_envs: int
    behavior: dict[str, Any]
    steps: int  # agent steps
    unit: int  # agent steps that trainings consist of: rollouts, or single steps
    gradient_steps: float  # for each agent step
    target: float | None = None


def _ppo(num_envs: int, buffer_size: int, batch_size: int, num_epoch: int, rollouts: int, **network: Any) -> Case:
    behavior = {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": batch_size, "buffer_size": buffer_size, "num_epoch": num_epoch},
        "network_settings": network,
    }
    small = network["hidden_units"] <= 256
    return Case(
        num_envs, behavior, rollouts * buffer_size, buffer_size, num_epoch / batch_size, TARGET if small else None
    )


SAC = {
    "trainer_type": "sac",
    "hyperparameters": {"batch_size": 256, "buffer_size": 100_000, "buffer_init_steps": 256},
    "network_settings": {"hidden_units": 256, "num_layers": 2},
}
CASES = {
    "ppo, small": _ppo(8, 2048, 256, 10, 20, hidden_units=64, num_layers=2),
    "sac, small": Case(1, SAC, 4_000, 1, 1.0, TARGET),
    "ppo, wide": _ppo(64, 16_384, 8192, 4, 3, hidden_units=2048, num_layers=3),
}


def measure(case: str, way: str, scale: float) -> list[float]:
    """Gradient steps per second of updating, and agent steps per second of the training, in this process."""
    register_control_task()
    chosen = CASES[case]
    wanted = max(1, round(chosen.steps * scale / chosen.unit)) * chosen.unit
    behavior = {**chosen.behavior, "max_steps": wanted}
    made = RlcoreTraining("benchmarks/control", chosen.num_envs, behavior, 1, torch_settings=WAYS[way])
    started = perf_counter()
    steps = made.train()
    seconds = perf_counter() - started
    timers = json.loads((made.run.directory.path / "run_logs" / "timers.json").read_text())
    return [chosen.gradient_steps * steps / _found(timers, "_update_policy")["total"], steps / seconds]


def _found(node: dict[str, Any], name: str) -> dict[str, Any]:
    """The timer ``name`` in a tree of timers."""
    children = node.get("children", {})
    if name in children:
        return dict(children[name])
    return next(filter(None, (_found(child, name) for child in children.values())), {})


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Turns of all ways.")
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True), help="Of all steps.")
@click.option("--case", "cases", multiple=True, type=click.Choice(list(CASES)), help="Only this case; repeatable.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(rounds: int, scale: float, cases: tuple[str, ...], json_file: Path | None) -> None:
    import torch

    console = Console()
    there = torch.cuda.is_available()
    console.print(f"GPU: {torch.cuda.get_device_name()}" if there else "There is no GPU: only the CPU is measured.")
    ways = list(WAYS) if there else [CPU]
    table = Table("case", "way", "gradient steps/s", "recorded is", "target", "agent steps/s")
    report: dict[str, Any] = {}
    missed = False
    for name in cases or tuple(CASES):

        def one(way: str, name: str = name) -> list[float]:
            return list(in_own_process("gpu:measure", case=name, way=way, scale=scale))

        speeds = alternate(ways, rounds, one)
        target = CASES[name].target
        for way in ways:
            shown = ""
            wanted = ""
            if there and way != RECORDED:
                ratio = pairwise_ratio([each[0] for each in speeds[RECORDED]], [each[0] for each in speeds[way]])
                shown = f"{ratio:.2f}x"
                if way == GPU and target is not None:
                    wanted = f"{target:g}x"
                    missed |= ratio < target
            gradient_steps, agent_steps = (median(each[kind] for each in speeds[way]) for kind in (0, 1))
            table.add_row(name, way, f"{gradient_steps:,.0f}", shown, wanted, f"{agent_steps:,.0f}")
        report[name] = speeds
    console.print(table)
    write_report(json_file, {"benchmark": "gpu", "rounds": rounds, "results": report})
    if not there:
        sys.exit(2)
    if missed:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
