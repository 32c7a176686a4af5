"""PPO on thousands of cart-poles whose batches are tensors, against the same training with arrays.

``tensors`` is ``environment.type: torch-cartpole`` as it is; ``arrays`` is the same environment, whose batches become
NumPy arrays in every step. ``gymnasium`` is CartPole-v1 of ``environment.type: gymnasium``, which steps all cart-poles
in one call of NumPy; ``one by one`` is the same with a wrapper, which therefore steps one after the other, as it does
with environments that have no form for many. All have the same network, rollouts of 32 steps and minibatches.

* ``stepping`` is the environment alone, with constant actions.
* ``collecting`` is acting, stepping and storing within a training: all but the updates.
* ``training`` is everything.

The memory is that of the tensors of the environment and of the rollout, for each environment. Every measurement is a
process of its own, and the ways take turns. With ``--device cuda``, networks and cart-poles are on the GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import attrs
import click
import numpy as np
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, alternate, in_own_process, pairwise_ratio, pin_to_one_core, write_report

TENSORS, ARRAYS, GYMNASIUM, ONE_BY_ONE = WAYS = "tensors", "arrays", "gymnasium", "one by one"
PARTS = ("stepping", "collecting", "training")
ROWS = 32
MINIBATCHES = 4
EPOCHS = 4
TARGET = 5.0  # times as many steps while collecting as one by one, at the most environments


@attrs.frozen
class Measured:
    """Agent steps per second, and bytes for each environment; 0 where they are not tensors."""

    stepping: float
    collecting: float
    training: float
    environment_bytes: float
    rollout_bytes: float


def measure(way: str, num_envs: int, rollouts: int, device: str, pinned: bool) -> dict[str, float]:
    """Measure one way, in this process: the first update is left out."""
    if pinned:
        pin_to_one_core()
    from rlcore import Actions, Run
    from rlcore_torch import AsNumpy, TensorActions
    from rlcore_torch.tensors.cartpole import TorchCartPole

    class Arrays(AsNumpy):
        """Gives arrays to every trainer."""

        def keep_batches(self, trainers: Sequence[Any]) -> bool:
            return False

    size = num_envs * ROWS
    config: dict[str, Any] = {
        "preset": "none",
        "environment": {"num_envs": num_envs},
        "env_settings": {"seed": 1},
        "behaviors": {
            "CartPole": {
                "trainer_type": "ppo",
                "max_steps": (rollouts + 1) * size,
                "summary_freq": size,
                "checkpoint_interval": (rollouts + 2) * size,
                "network_settings": {"hidden_units": 64, "num_layers": 2, "activation": "tanh"},
                "hyperparameters": {"buffer_size": size, "batch_size": size // MINIBATCHES, "num_epoch": EPOCHS},
            }
        },
        "torch_settings": {"device": device},
        "checkpoint_settings": {"force": True},
        "stats": {"console": False, "tensorboard": False},
    }
    given = None
    if way in (GYMNASIUM, ONE_BY_ONE):
        config["environment"] |= {"type": "gymnasium", "id": "CartPole-v1"}
        if way == ONE_BY_ONE:
            config["environment"]["wrappers"] = [{"name": "gymnasium:Wrapper"}]
    elif way == TENSORS:
        config["environment"] |= {"type": "torch-cartpole"}
    else:
        given = Arrays(TorchCartPole(num_envs, device))
    with Run(config, environment=given) as run:
        epochs = list(run)[1:]
        environment = run.environment
        trainer = run.behaviors["CartPole"].trainer
        steps = size * len(epochs)
        chosen = np.zeros((num_envs, 1), np.int64)
        actions: Any = Actions(None, chosen)
        inside = getattr(environment, "tensors", None)
        if way == TENSORS:
            actions = TensorActions.of(actions, inside.device)
        times = max(5, (40_000 if way == ONE_BY_ONE else 400_000) // num_envs)
        started = perf_counter()
        for _ in range(times):
            environment.step({"CartPole": actions})
        stepping = times * num_envs / (perf_counter() - started)
    return attrs.asdict(
        Measured(
            stepping,
            steps / sum(epoch.collect_seconds for epoch in epochs),
            steps / sum(epoch.seconds for epoch in epochs),
            _bytes(vars(inside)) / num_envs if inside else 0.0,
            _bytes(vars(trainer.buffer)) / num_envs if way == TENSORS else 0.0,
        )
    )


def _bytes(value: Any) -> int:
    """The bytes of the tensors in nested mappings."""
    import torch

    if isinstance(value, torch.Tensor):
        return int(value.numel() * value.element_size())
    return sum(map(_bytes, value.values())) if isinstance(value, dict) else 0


@click.command(help=__doc__)
@click.option("--envs", multiple=True, default=(64, 1024, 4096), show_default=True, type=int, help="Environments.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Turns of all ways.")
@click.option("--steps", default=500_000, show_default=True, type=int, help="Agent steps of a measurement.")
@click.option("--device", default="cpu", show_default=True, help="The device, as in torch_settings.")
@click.option("--free", is_flag=True, help="Do not pin measurements to one core.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(envs: Sequence[int], rounds: int, steps: int, device: str, free: bool, json_file: Path | None) -> None:
    console = Console()
    table = Table("environments", "way", *PARTS, title="PPO on cart-poles: agent steps/s, and tensors against each way")
    report: dict[str, Any] = {}
    memory = ""
    ratio = 0.0
    for count in envs:

        def one(way: str, count: int = count) -> Measured:
            rollouts = max(2, -(-steps // (count * ROWS * (4 if way == ONE_BY_ONE else 1))))
            found = in_own_process(
                "tensor_environments:measure",
                way=way,
                num_envs=count,
                rollouts=rollouts,
                device=device,
                pinned=not free,
            )
            return Measured(**found)

        turns = alternate(list(WAYS), rounds, one)
        report[str(count)] = {way: [attrs.asdict(each) for each in found] for way, found in turns.items()}
        for way, found in turns.items():
            row = []
            for part in PARTS:
                speeds = [getattr(each, part) for each in found]
                ratio_of_part = pairwise_ratio([getattr(each, part) for each in turns[TENSORS]], speeds)
                row.append(f"{median(speeds):,.0f}" + ("" if way == TENSORS else f" ({ratio_of_part:.2f}x)"))
                if way == ONE_BY_ONE and part == "collecting":
                    ratio = ratio_of_part
            table.add_row(f"{count:,}", way, *row)
        tensors = turns[TENSORS][0]
        memory += (
            f"{count:,} environments: {tensors.environment_bytes:,.0f} bytes each for the simulator, "
            f"{tensors.rollout_bytes:,.0f} for {ROWS} steps of the rollout\n"
        )
    console.print(table)
    console.print(memory + f"target: collecting {TARGET:.0f}x that of one by one at {envs[-1]:,}; found {ratio:.2f}x")
    write_report(json_file, {"measured": report, "target": TARGET})
    sys.exit(0 if ratio >= TARGET else MISSED)


if __name__ == "__main__":
    main()
