"""The worth of each piece of code written for a CPU: agent steps per second of trainings with that piece alone off.

Six trainings: PPO on CartPole with 8 environments and with 1024, PPO on a control task of HalfCheetah's size, SAC and
TD3 on Pendulum, and DQN on CartPole, with the hyperparameters of the other speed benchmarks. The control task returns
made-up observations, so the time of a simulator does not hide that of the trainer. Each measurement is one training in
a process of its own. A round measures every entrant once, in turn, and a share is taken within a round, by the wall
clock and by the processor's. Pinned trainings may use one core, free ones two. ``threads`` is the choice between one
thread and two, which is off with one core and with PPO.

With ``--preset`` instead, an evaluation of an untrained policy and a training of a thousand steps with the values of
these presets, pinned to one core.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import attrs
import click
import dqn_trainings
import ppo_trainings
import sac_trainings
import td3_trainings
from dqn_speed import CARTPOLE
from ppo_copies import case_of
from ppo_speed import CARTPOLE_8, HALFCHEETAH
from rich.console import Console
from rich.table import Table
from sac_speed import PENDULUM
from side_by_side import MISSED, alternate, in_own_process, pin_to_one_core, write_report
from td3_speed import PENDULUM as TD3_PENDULUM

WORTH = 0.05  # of a training's speed, in one case at least; a piece below is not worth its code
TRAININGS = {
    "ppo cartpole": ("ppo", CARTPOLE_8, 0.5),
    "ppo copies": ("ppo", case_of(1024), 1.0),
    "ppo control": ("ppo", attrs.evolve(HALFCHEETAH, env_id="benchmarks/control"), 1.0),
    "sac pendulum": ("sac", PENDULUM, 0.25),
    "td3 pendulum": ("td3", TD3_PENDULUM, 0.5),
    "dqn cartpole": ("dqn", CARTPOLE, 0.8),
}
PRESET_TASK = "Pendulum-v1"
EVALUATED_EPISODES = 20  # of 200 steps
TRAINED_STEPS = 1000
RANDOM_STEPS = 300  # before them
EVERYTHING = "all pieces"
NOTHING = "plain PyTorch"
PIECES = ("by_hand", "acting", "flat_adam", "threads")


def switch_off(piece: str) -> None:
    """Let every trainer of this process compute without ``piece``."""
    from rlcore_torch import TorchAdam, backend, template

    changes: dict[str, dict[str, Any]] = {"acting": {"numpy_actor": None}, "flat_adam": {"adam": TorchAdam}}
    pieces = {"by_hand": "by_hand", "threads": "update_threads"}
    choose = backend.choose_backend

    def without_piece(run: Any) -> backend.Backend:
        chosen = choose(run)
        if piece in changes:
            return attrs.evolve(chosen, **changes[piece])
        return attrs.evolve(chosen, pieces=chosen.pieces - {pieces[piece]})

    template.choose_backend = without_piece


def register_control_task() -> None:
    """A Gymnasium environment with HalfCheetah's observations and actions, and no physics."""
    import gymnasium
    import numpy as np

    class Control(gymnasium.Env):  # type: ignore[misc]
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (17,), np.float64)
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (6,), np.float32)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            super().reset(seed=seed)
            self.state = self.np_random.normal(size=17)
            return self.state, {}

        def step(self, action: Any) -> Any:
            self.state = 0.9 * self.state
            self.state[:6] += action
            return self.state, float(self.state[0]), False, False, {}

    gymnasium.register("benchmarks/control", Control, max_episode_steps=1000)


def measure(training: str, piece: str, pinned: bool, scale: float, seed: int) -> list[float]:
    """Agent steps per second of one training, by the wall clock and by the processor's; runs in its own process."""
    if pinned:
        pin_to_one_core()
    register_control_task()
    algorithm, case, share = TRAININGS[training]
    settings = {"fast_cpu": piece != NOTHING}
    if piece in PIECES:
        switch_off(piece)
    module = {"dqn": dqn_trainings, "ppo": ppo_trainings, "sac": sac_trainings, "td3": td3_trainings}[algorithm]
    made = module.rlcore_training(  # type: ignore[attr-defined]
        case.with_steps(case.steps * share * scale),  # type: ignore[attr-defined]
        seed,
        torch_settings=settings,
    )
    started = perf_counter()
    processor_started = process_time()
    steps = made.train()
    return [steps / (perf_counter() - started), steps / (process_time() - processor_started)]


def measure_preset(preset: str, piece: str, trains: bool, scale: float, seed: int) -> list[float]:
    """Agent steps per second of a training or an evaluation with a preset, by the wall clock and by the processor's."""
    from rlcore import Run

    pin_to_one_core()
    if piece in PIECES:
        switch_off(piece)
    steps = RANDOM_STEPS + round(TRAINED_STEPS * scale)
    episodes = max(1, round(EVALUATED_EPISODES * scale))
    with TemporaryDirectory() as results:
        configuration: dict[str, Any] = {
            "preset": preset,
            "environment": {"id": PRESET_TASK},
            "env_settings": {"seed": seed},
            "default_settings": {
                "hyperparameters": {"buffer_init_steps": RANDOM_STEPS, "save_replay_buffer": False},
                "max_steps": steps,
                "checkpoint_interval": steps,
            },
            "checkpoint_settings": {"run_id": "benchmark", "results_dir": results},
            "torch_settings": {"fast_cpu": piece != NOTHING, "num_threads": 1},
        }
        with Run(configuration) as run:
            run.evaluate(1)
            started = perf_counter()
            processor_started = process_time()
            if trains:
                run.train()
                taken = float(run.steps)
            else:
                (result,) = run.evaluate(episodes).behaviors.values()
                taken = result.mean_length * result.episodes
            return [taken / (perf_counter() - started), taken / (process_time() - processor_started)]


def compare_presets(presets: Sequence[str], rounds: int, scale: float, console: Console) -> dict[str, Any]:
    """Print and return what acting in NumPy brings to evaluations and trainings with ``presets``."""
    table = Table(title=f"What acting in NumPy brings on {PRESET_TASK}", caption="medians, turn by turn")
    for column in ("preset", "of", "PyTorch steps/s", "NumPy steps/s", "wall clock", "CPU time"):
        table.add_column(column, justify="left" if column in ("preset", "of") else "right")
    results: dict[str, Any] = {}
    for preset in presets:
        for trains in (False, True):
            kind = "training" if trains else "evaluation"

            def one(piece: str, preset: str = preset, trains: bool = trains) -> list[float]:
                arguments = {"preset": preset, "piece": piece, "trains": trains, "scale": scale, "seed": 1}
                figures: list[float] = in_own_process("fast_cpu:measure_preset", **arguments)
                return figures

            speeds = alternate([EVERYTHING, "acting"], rounds, one)
            results[f"{preset}, {kind}"] = speeds
            turns = list(zip(speeds[EVERYTHING], speeds["acting"], strict=True))
            fast, slow = (median(turn[way][0] for turn in turns) for way in (0, 1))
            wall, processor = (median(a[clock] / b[clock] for a, b in turns) - 1 for clock in (0, 1))
            table.add_row(preset, kind, f"{slow:,.0f}", f"{fast:,.0f}", f"{wall:+.0%}", f"{processor:+.0%}")
    console.print(table)
    return results


def compare(training: str, pinned: bool, rounds: int, scale: float, console: Console) -> dict[str, list[list[float]]]:

    def one(piece: str) -> list[float]:
        arguments = {"training": training, "piece": piece, "pinned": pinned, "scale": scale, "seed": 1}
        wall, processor = figures = in_own_process("fast_cpu:measure", **arguments)
        core = "pinned" if pinned else "free"
        console.print(f"{training}, {core}, {piece}: {wall:,.0f} steps/s, {processor:,.0f} by CPU time")
        return list(figures)

    return alternate([EVERYTHING, *PIECES, NOTHING], rounds, one)


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each entrant.")
@click.option("--scale", default=1.0, show_default=True, type=float, help="Factor on the steps of each training.")
@click.option(
    "--training", "trainings", multiple=True, type=click.Choice(list(TRAININGS)), help="Only this one; repeatable."
)
@click.option("--preset", "presets", multiple=True, help="Measure this preset instead; repeatable.")
@click.option("--core", type=click.Choice(["pinned", "free"]), help="Only pinned to one core, or only free.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(
    rounds: int,
    scale: float,
    trainings: tuple[str, ...],
    presets: tuple[str, ...],
    core: str | None,
    json_file: Path | None,
) -> None:
    console = Console()
    if presets:
        results = compare_presets(presets, rounds, scale, console)
        write_report(json_file, {"benchmark": "fast_cpu", "rounds": rounds, "results": results})
        return
    table = Table(
        title="What each piece brings", caption="medians, turn by turn: by the wall clock, and below by CPU time"
    )
    for column in ("training", "core", "steps/s", *PIECES, "all"):
        table.add_column(column, justify="left" if column in ("training", "core") else "right")
    results = {}
    worth = dict.fromkeys(PIECES, 0.0)
    for training in trainings or tuple(TRAININGS):
        for cores in [core] if core else ["pinned", "free"]:
            speeds = compare(training, cores == "pinned", rounds, scale, console)
            results[f"{training}, {cores}"] = speeds
            row = [training, cores, f"{median(wall for wall, _ in speeds[EVERYTHING]):,.0f}"]
            for entrant in (*PIECES, NOTHING):
                turns = list(zip(speeds[EVERYTHING], speeds[entrant], strict=True))
                wall, processor = (median(a[clock] / b[clock] for a, b in turns) - 1 for clock in (0, 1))
                row.append(f"{wall:+.0%}\n{processor:+.0%}")
                if entrant in worth:
                    worth[entrant] = max(worth[entrant], wall)
            table.add_row(*row)
    console.print(table)
    write_report(json_file, {"benchmark": "fast_cpu", "rounds": rounds, "results": results, "worth": worth})
    if not (trainings or core) and min(worth.values()) < WORTH:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
