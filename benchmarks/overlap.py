"""Measures workers that overlap with the run against the same workers in lock-step; 8 environments but for ``single``.

``waiting``: SAC learns while an environment waits 1 ms in each step, in 2 workers, and has 2 updates for each step of
all. ``sac`` is SAC on HalfCheetah-v5 with as many updates, ``ppo`` the PPO training of ``workers.py``, both in 2
workers. ``varying``: a trainer that only counts, and 4 workers whose steps take 1 ms, and one in 20 of them 20 ms.

Agent steps are counted when their outcome is known. Every measurement is a run in a process of its own. The ways take
turns, and ratios are formed within a turn.

``single``: SAC with two layers of 256 units, and one gradient step for each step of one environment, which waits 5 ms,
in one worker.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import click
import numpy as np
from loop_overhead import StubEnvironment
from ppo_speed import HALFCHEETAH
from ppo_trainings import rlcore_training
from rich.console import Console
from rich.table import Table
from side_by_side import alternate, in_own_process, pairwise_ratio, write_report
from workers import ConstantActions

from rlcore import Actions, AgentBatch, EnvironmentSpec, Run, TrainerSpec, hookimpl, load_plugins

COUNT = {"single": 1}  # environments; in others 8
LOCK_STEP = "lock-step"
HALF = "overlap: half"
UPDATES = "overlap: updates"
FIRST = "wait_for: 2"
SETTINGS: dict[str, dict[str, Any]] = {
    LOCK_STEP: {}, HALF: {"overlap": "half"}, UPDATES: {"overlap": "updates"}, FIRST: {"wait_for": 2}
}  # fmt: skip
WAYS = {
    "waiting": (LOCK_STEP, HALF, UPDATES),
    "single": (LOCK_STEP, UPDATES),
    "sac": (LOCK_STEP, HALF, UPDATES),
    "ppo": (LOCK_STEP, HALF),
    "varying": (LOCK_STEP, FIRST),
}
STEPS = {"waiting": 6_000, "single": 1_500, "sac": 6_000, "ppo": HALFCHEETAH.steps // 2, "varying": 6_000}
WORKERS = {"varying": 4, "single": 1}  # in others 2
SECONDS = {"single": 0.005}  # of a step; in others 0.001
# how many steps are slow, and how slow
SLOW = 0.05
SLOW_SECONDS = 0.02
SAC = {
    "trainer_type": "sac",
    "hyperparameters": {"batch_size": 128, "buffer_size": 50_000, "buffer_init_steps": 500, "steps_per_update": 4.0},
    "network_settings": {"hidden_units": 64, "num_layers": 2},
}
SINGLE = {
    "trainer_type": "sac",
    "hyperparameters": {"batch_size": 256, "buffer_size": 50_000, "buffer_init_steps": 256},
    "network_settings": {"hidden_units": 256, "num_layers": 2, "activation": "relu"},
}


class Waiting(StubEnvironment):
    """The stub of ``loop_overhead.py``, which waits in every step."""

    def __init__(self, settings: Any, run: Any) -> None:
        super().__init__(settings, run)
        self._varying, self._seconds = settings.id == "varying", SECONDS.get(settings.id, 0.001)
        self._random = np.random.default_rng(run.first_env)

    def step(self, actions: Any) -> Any:
        if self._varying:
            sleep(SLOW_SECONDS if self._random.random() < SLOW else self._seconds)
        else:
            for _ in range(self.num_envs):
                sleep(self._seconds)
        return super().step(actions)


class Counting(ConstantActions):
    """Counts the agent steps whose outcome is known."""

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        closed = batch.transition_closed
        self.steps += len(batch.reward) if closed is None else int(closed.sum())


class WaitingPlugin:
    @hookimpl
    def rlcore_environments(self) -> list[EnvironmentSpec]:
        return [EnvironmentSpec(name="waiting", target="overlap:Waiting")]

    @hookimpl
    def rlcore_trainers(self) -> list[TrainerSpec]:
        return [TrainerSpec(name="counting", target="overlap:Counting", settings="loop_overhead:StubSettings")]


def steps_per_second(case: str, way: str, scale: float) -> float:
    """Measure one case in one way, in this process."""
    workers = {"count": WORKERS.get(case, 2), **SETTINGS[way]}
    if case == "ppo":
        halfcheetah = HALFCHEETAH.with_steps(STEPS[case] * scale)
        environment = {
            "type": "gymnasium", "id": halfcheetah.env_id, "num_envs": halfcheetah.num_envs, "workers": workers
        }  # fmt: skip
        training = rlcore_training(halfcheetah, 0, environment=environment)
        started = perf_counter()
        return float(training.train() / (perf_counter() - started))
    # An instance of a class that other processes can import: as a script, this module has another name.
    from overlap import WaitingPlugin as Plugin

    plugins = load_plugins()
    plugins.register(Plugin(), "waiting")
    steps = max(1, round(STEPS[case] * scale))
    environment = {"type": "gymnasium", "id": "HalfCheetah-v5"} if case == "sac" else {"type": "waiting", "id": case}
    behavior = {"varying": {"trainer_type": "counting"}, "single": SINGLE}.get(case, SAC)
    with TemporaryDirectory() as results:
        run = Run(
            {
                "preset": "none",
                "environment": {**environment, "num_envs": COUNT.get(case, 8), "workers": workers},
                "behaviors": {"Agent": {**behavior, "max_steps": steps, "checkpoint_interval": steps}},
                "checkpoint_settings": {"run_id": "overlap", "results_dir": results},
                "stats": {"console": False, "tensorboard": False},
            },
            plugins,
        )
        run.start()
        started = perf_counter()
        run.train()
        return steps / (perf_counter() - started)


@click.command(help=__doc__)
@click.option("--case", "cases", multiple=True, type=click.Choice(list(WAYS)), help="Only this case.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of all ways.")
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True), help="Of all steps.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(cases: tuple[str, ...], rounds: int, scale: float, json_file: Path | None) -> None:
    table = Table("case", "way", "agent steps/s", "against lock-step")
    report: dict[str, Any] = {}
    for name in cases or tuple(WAYS):

        def measure(way: str, name: str = name) -> float:
            return float(in_own_process("overlap:steps_per_second", case=name, way=way, scale=scale))

        speeds = alternate(WAYS[name], rounds, measure)
        ratios = {way: pairwise_ratio(speeds[way], speeds[LOCK_STEP]) for way in WAYS[name]}
        for way in WAYS[name]:
            table.add_row(name, way, f"{median(speeds[way]):,.0f}", f"{ratios[way]:.2f}x")
        report[name] = {"steps_per_second": speeds, "ratios": ratios}
    Console().print(table)
    write_report(json_file, {"benchmark": "overlap", "cases": report})


if __name__ == "__main__":
    main()
