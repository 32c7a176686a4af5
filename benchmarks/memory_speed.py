"""PPO with memory: agent steps per second of whole trainings and seconds of updates, against sb3-contrib.

CartPole without velocities, which needs memory, with 8 and with 64 environments. Entrants: rlcore with an LSTM, rlcore
with the NumPy steps of acting switched off, rlcore with a GRU, RecurrentPPO of sb3-contrib, and with ``--before``
rlcore of an earlier checkout. Networks, rollouts, minibatches and passes are those of ``ppo_trainings.py``. Each
measurement is one training in a process of its own, with one thread on one core. The entrants take turns, and ratios
are formed within a turn. The time of an update is the median over the training.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import attrs
import click
from ppo_speed import CARTPOLE_8, CARTPOLE_64
from ppo_trainings import PPOCase, StableBaselines3ContribTraining, rlcore_training
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, Figure, alternate, in_own_process, pairwise_ratio, pin_to_one_core, write_report

OURS = "rlcore"
IN_TORCH = "rlcore, acting in PyTorch"
GRU = "rlcore, GRU"
PEER = "sb3-contrib"
BEFORE = "rlcore before"
TARGET = 2.0  # times RecurrentPPO of sb3-contrib
WORTH = 1.05  # times the training without the NumPy steps, in one case at least
HIDDEN = "benchmarks/HiddenVelocities"
CASES = {
    "cartpole-8": attrs.evolve(CARTPOLE_8, env_id=HIDDEN, lstm_units=64, steps=20 * 8 * 128),
    "cartpole-64": attrs.evolve(CARTPOLE_64, env_id=HIDDEN, lstm_units=64, steps=6 * 64 * 128),
}


def register_hidden_velocities() -> None:
    """CartPole of which only positions are seen."""
    import gymnasium
    import numpy as np

    class Hidden(gymnasium.ObservationWrapper):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(gymnasium.make("CartPole-v1"))
            space: Any = self.env.observation_space
            self.observation_space = gymnasium.spaces.Box(space.low[::2], space.high[::2], dtype=np.float32)

        def observation(self, observation: Any) -> Any:
            return observation[::2]

    gymnasium.register(HIDDEN, Hidden)


def measure(entrant: str, case: dict[str, Any]) -> dict[str, float]:
    """Seconds of one training and of its median update; runs in a process of its own."""
    import torch

    pin_to_one_core()
    torch.set_num_threads(1)
    register_hidden_velocities()
    stated = PPOCase(**case)
    if entrant == PEER:
        from sb3_contrib import RecurrentPPO

        training: Any = StableBaselines3ContribTraining(stated, seed=1)
        seconds = timed(RecurrentPPO, "train")
    else:
        from rlcore_ppo.trainer import PPOTrainer

        if entrant == IN_TORCH:
            from rlcore_torch import backend, template

            chosen = backend.choose_backend
            template.choose_backend = lambda run: attrs.evolve(chosen(run), numpy_memory=None)
        training = rlcore_training(stated, 1, memory_type="gru" if entrant == GRU else "lstm")
        seconds = timed(PPOTrainer, "update")
    started = perf_counter()
    steps = training.train()
    return {"steps_per_second": steps / (perf_counter() - started), "update": median(seconds)}


def timed(kind: type, name: str) -> list[float]:
    """Let the method ``name`` of ``kind`` note how long each call takes."""
    seconds: list[float] = []
    method = getattr(kind, name)

    def call(self: Any, *arguments: Any) -> Any:
        started = perf_counter()
        result = method(self, *arguments)
        seconds.append(perf_counter() - started)
        return result

    setattr(kind, name, call)
    return seconds


@contextmanager
def sources_of(checkout: Path | None) -> Iterator[None]:
    """Let processes that begin here import the members of ``checkout``."""
    if checkout is None:
        yield
        return
    before = os.environ.get("PYTHONPATH")
    folders = [
        folder for member in ("core", "plugins/*", "builtin_trainers/*") for folder in checkout.glob(f"{member}/src")
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def compare(name: str, entrants: list[str], before: Path | None, rounds: int, scale: float, console: Console) -> Any:
    case = CASES[name].with_steps(CASES[name].steps * scale)

    def one(entrant: str) -> dict[str, float]:
        with sources_of(before if entrant == BEFORE else None):
            taken: dict[str, float] = in_own_process("memory_speed:measure", entrant=entrant, case=attrs.asdict(case))
        console.print(
            f"{name}: {entrant} {taken['steps_per_second']:,.0f} steps/s, an update {1e3 * taken['update']:,.0f} ms"
        )
        return taken

    taken = alternate(entrants, rounds, one)
    return {
        entrant: {
            "steps_per_second": median(run["steps_per_second"] for run in runs),
            "update_ms": 1e3 * median(run["update"] for run in runs),
            "speed_ratio": ratio(taken, entrant, "steps_per_second"),
            "update_ratio": 1.0 / ratio(taken, entrant, "update"),
        }
        for entrant, runs in taken.items()
    }


def ratio(taken: dict[str, list[dict[str, float]]], entrant: str, what: str) -> float:
    """How many times that of ``entrant`` rlcore's is."""
    return pairwise_ratio([run[what] for run in taken[OURS]], [run[what] for run in taken[entrant]])


@click.command(help=__doc__)
@click.option("--case", "cases", multiple=True, type=click.Choice(list(CASES)), help="Only this case; repeatable.")
@click.option("--without", multiple=True, type=click.Choice([IN_TORCH, GRU, PEER]), help="Leave an entrant out.")
@click.option("--before", type=click.Path(path_type=Path, exists=True), help="A checkout of an earlier version.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Turns of each entrant.")
@click.option("--scale", default=1.0, show_default=True, type=float, help="Factor on the steps of each training.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(
    cases: tuple[str, ...], without: tuple[str, ...], before: Path | None, rounds: int, scale: float,
    json_file: Path | None,
) -> None:  # fmt: skip
    console = Console()
    entrants = [OURS, *(each for each in (IN_TORCH, GRU, PEER) if each not in without), *([BEFORE] if before else [])]
    results = {name: compare(name, entrants, before, rounds, scale, console) for name in cases or tuple(CASES)}
    table = Table(title="PPO with memory, on one core", caption="medians; ratios are taken turn by turn")
    for column in ("case", "entrant", "steps/s", "update, ms", "rlcore is", "its update is"):
        table.add_column(column, justify="left" if column in ("case", "entrant") else "right", no_wrap=True)
    figures = []
    for name, found in results.items():
        for entrant, row in found.items():
            numbers = f"{row['steps_per_second']:,.0f}", f"{row['update_ms']:,.0f}"
            ratios = f"{row['speed_ratio']:.2f}x", f"{row['update_ratio']:.2f}x as fast"
            table.add_row(name, entrant, *numbers, *(ratios if entrant != OURS else ("", "")))
            if entrant != OURS:
                what = f"PPO with memory, {name}"
                figures.append(Figure(what, row["speed_ratio"], "x", entrant, TARGET if entrant == PEER else None))
    console.print(table)
    write_report(json_file, {"benchmark": "memory_speed", "rounds": rounds, "results": results}, figures)
    met = [figure.value >= figure.target for figure in figures if figure.target is not None]
    worth = [found[IN_TORCH]["speed_ratio"] for found in results.values() if IN_TORCH in found]
    if not all(met) or (worth and max(worth) < WORTH):
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
