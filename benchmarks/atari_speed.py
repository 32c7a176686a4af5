"""PPO's agent steps per second on Atari's Pong, from pixels, against Stable-Baselines3.

Both have the preprocessing of Mnih et al. 2015 (doi:10.1038/nature14236), without sticky actions, the same network and
the same hyperparameters. rlcore steps ale-py's vectorized form; Stable-Baselines3 has its own Atari wrappers around
single games, in the training's process (DummyVecEnv) or in one process each (SubprocVecEnv). Each library computes with
one and with two threads, and its fastest way counts. Every measurement is one training in a process of its own, the
ways take turns, and ratios are formed within a turn.

``by CPU time`` divides by the processor seconds of the training and of its processes instead, which say more on a
machine that does something else too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import attrs
import click
from ppo_trainings import PPOCase, StableBaselines3Training, rlcore_training
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, Figure, alternate, in_own_process, write_report

PONG = PPOCase(
    env_id="ALE/Pong-v5",
    options={"repeat_action_probability": 0.0},
    images=True,
    clip_rewards=1.0,
    num_envs=8,
    rollout_rows=128,
    batch_size=256,
    num_epoch=4,
    steps=8 * 8 * 128,
    learning_rate=2.5e-4,
    epsilon=0.1,
    entropy_coefficient=0.01,
)
THREADS = (1, 2)
WAYS = ("rlcore", "dummy", "subproc")  # the last two are Stable-Baselines3
TARGET = 2.0


class WithAtariWrapper(StableBaselines3Training):
    """Stable-Baselines3 with its AtariWrapper, which clips rewards, and without ends of episodes at lives."""

    def _environment(self, num_envs: int, seed: int, kind: type) -> Any:
        from stable_baselines3.common.env_util import make_atari_env
        from stable_baselines3.common.vec_env import VecFrameStack

        games = make_atari_env(
            "ale_py:PongNoFrameskip-v4",
            n_envs=num_envs,
            seed=seed,
            vec_env_cls=kind,
            wrapper_kwargs={"terminal_on_life_loss": False},
        )
        return VecFrameStack(games, 4)


def processor_seconds() -> float:
    """Return the processor seconds of this process, its threads, and the processes that it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def measure(way: str, threads: int, steps: int, seed: int) -> dict[str, float]:
    """Seconds of one training, by the wall clock and by the processor's; runs in a process of its own."""
    import torch

    case = PONG.with_steps(steps)
    torch.set_num_threads(threads)
    if way == "rlcore":
        training: Any = rlcore_training(case, seed, torch_settings={"num_threads": threads})
    else:
        training = WithAtariWrapper(case, seed, processes=way == "subproc")
    started = perf_counter()
    used = processor_seconds()
    taken = training.train()
    seconds = perf_counter() - started
    if way == "subproc":
        training.environment.close()  # so that the processes' time is counted
    if not case.steps <= taken < case.steps + case.num_envs:  # a game that starts again takes no action in that step
        raise RuntimeError(f"{way} took {taken} agent steps, not {case.steps}")
    return {"wall": taken / seconds, "processor": taken / (processor_seconds() - used)}


def fastest(turn: dict[tuple[str, int], dict[str, float]], ours: bool, clock: str) -> float:
    return max(speeds[clock] for (way, _), speeds in turn.items() if (way == "rlcore") == ours)


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Turns of each way.")
@click.option("--steps", default=PONG.steps, show_default=True, type=click.IntRange(1), help="Agent steps.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(rounds: int, steps: int, json_file: Path | None) -> None:
    console = Console()
    names = {f"{way} {threads}": (way, threads) for threads in THREADS for way in WAYS}

    def one(name: str) -> dict[str, float]:
        way, threads = names[name]
        speeds: dict[str, float] = in_own_process(
            "atari_speed:measure", thread_variables=threads, way=way, threads=threads, steps=steps, seed=1
        )
        console.print(f"{name}: {speeds['wall']:,.0f} steps/s, {speeds['processor']:,.0f} per second of CPU time")
        return speeds

    measured = alternate(list(names), rounds, one)
    turns = [{names[name]: runs[turn] for name, runs in measured.items()} for turn in range(rounds)]
    ratios = {
        clock: median(fastest(turn, True, clock) / fastest(turn, False, clock) for turn in turns)
        for clock in ("wall", "processor")
    }
    table = Table(title="PPO on Pong, agent steps per second", caption="medians; the number is that of threads")
    for column in ("way", "steps/s", "by CPU time"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for name, runs in measured.items():
        table.add_row(name, *(f"{median(speeds[clock] for speeds in runs):,.0f}" for clock in ("wall", "processor")))
    console.print(table)
    met = ratios["wall"] >= TARGET
    console.print(f"rlcore is {ratios['wall']:.2f}x (target {TARGET}x), {ratios['processor']:.2f}x by CPU time")
    report = {"benchmark": "atari_speed", "case": attrs.asdict(PONG), "measured": measured, "ratios": ratios}
    detail = f"{ratios['processor']:.2f}x by CPU time"
    figure = Figure("PPO on ALE/Pong-v5 from pixels", ratios["wall"], "x", "stable-baselines3", TARGET, detail=detail)
    write_report(json_file, {**report, "target": TARGET, "met": met}, [figure])
    if not met:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
