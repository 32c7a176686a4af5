"""The environments of a run in 2 worker processes, against one process and Stable-Baselines3.

``busy`` and ``sleep`` are environments whose step takes 1 ms: of the processor, measured by its clock, so that a busy
machine does not shorten the work, and of waiting. ``halfcheetah`` is HalfCheetah-v5, of which 8 take 0.4 ms together:
little more than an exchange with workers, which pay with more of them (``halfcheetah-32``). These are stepped by a run
with a trainer that only counts. ``training`` is a complete PPO training on HalfCheetah-v5. Each has 8 environments,
except ``halfcheetah-32``.

Every measurement is a run in a process of its own. The ways take turns, and ratios are formed within a turn.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep, thread_time
from typing import Any

import attrs
import click
import numpy as np
from loop_overhead import StubEnvironment, StubTrainer
from ppo_speed import HALFCHEETAH
from ppo_trainings import StableBaselines3Training, rlcore_training
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, alternate, in_own_process, pairwise_ratio, write_report

from rlcore import Actions, EnvironmentSpec, Run, TrainerSpec, hookimpl, load_plugins

COUNT = 8  # environments
WORKERS = 2
SECONDS = 0.001  # of a step of one environment
ONE = "one process"
SEVERAL = "2 workers"
PEER = "SubprocVecEnv"
ACTORS = "2 actors"  # of Ray, measured by `ray_workers.py`


class Simulator(StubEnvironment):
    """The stub of ``loop_overhead.py``, with steps that take their time."""

    def __init__(self, settings: Any, run: Any) -> None:
        super().__init__(settings, run)
        self._busy = settings.id == "busy"

    def step(self, actions: Any) -> Any:
        for _ in range(self.num_envs):
            if self._busy:
                end = thread_time() + SECONDS
                while thread_time() < end:
                    pass
            else:
                sleep(SECONDS)
        return super().step(actions)


class ConstantActions(StubTrainer):
    """The trainer of ``loop_overhead.py``, with actions for any behavior."""

    def __init__(self, settings: Any, behavior: Any, run: Any) -> None:
        super().__init__(settings, behavior, run)
        drawn = np.random.default_rng(0).uniform(-1.0, 1.0, (behavior.slots, behavior.continuous))
        self._actions = Actions(drawn.astype(np.float32), np.zeros((behavior.slots, len(behavior.discrete)), np.int64))


class SimulatorPlugin:
    @hookimpl
    def rlcore_environments(self) -> list[EnvironmentSpec]:
        return [EnvironmentSpec(name="simulator", target="workers:Simulator")]

    @hookimpl
    def rlcore_trainers(self) -> list[TrainerSpec]:
        settings = "loop_overhead:StubSettings"
        return [TrainerSpec(name="constant", target="workers:ConstantActions", settings=settings)]


@attrs.frozen
class Case:
    """An environment, how often it is stepped, and how many times as fast 2 workers have to be."""

    environment: dict[str, str]
    steps: int  # agent steps
    targets: dict[str, float]
    count: int = COUNT  # environments


HALFCHEETAH_V5 = {"type": "gymnasium", "id": "HalfCheetah-v5"}
CASES = {
    "busy": Case({"type": "simulator", "id": "busy"}, 400 * COUNT, {ONE: 1.7}),
    "sleep": Case({"type": "simulator", "id": "sleep"}, 400 * COUNT, {ONE: 1.7}),
    "halfcheetah": Case(HALFCHEETAH_V5, 5_000 * COUNT, {PEER: 2.0}),
    "halfcheetah-32": Case(HALFCHEETAH_V5, 2_000 * 32, {ONE: 1.3}, 32),
    "training": Case({}, HALFCHEETAH.steps, {PEER: 2.0}),
}


def steps_per_second(case: str, way: str, scale: float) -> float:
    """Measure one case in one way, in this process."""
    if case == "training":
        return _training_speed(way, scale)
    count = CASES[case].count
    steps = max(1, round(CASES[case].steps * scale) // count) * count
    if way == PEER:
        return _peer_speed(steps)
    # An instance of a class that other processes can import: as a script, this module has another name.
    from workers import SimulatorPlugin as Plugin

    plugins = load_plugins()
    plugins.register(Plugin(), "simulators")
    with TemporaryDirectory() as results:
        run = Run(
            {
                "environment": {**CASES[case].environment, "num_envs": count, "workers": _workers(way)},
                "behaviors": {"Agent": {"trainer_type": "constant", "max_steps": steps}},
                "checkpoint_settings": {"run_id": "workers", "results_dir": results},
            },
            plugins,
        )
        run.start()
        started = perf_counter()
        run.train()
        return steps / (perf_counter() - started)


def _workers(way: str) -> Any:
    return {SEVERAL: WORKERS, ACTORS: {"executor": "ray", "count": WORKERS}}.get(way)


def _peer_speed(steps: int) -> float:
    """Stable-Baselines3's processes, one for each environment, with random actions."""
    import numpy as np
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import SubprocVecEnv

    environment = make_vec_env("HalfCheetah-v5", n_envs=COUNT, vec_env_cls=SubprocVecEnv)
    environment.reset()
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (COUNT, 6)).astype(np.float32)
    started = perf_counter()
    for _ in range(steps // COUNT):
        environment.step(actions)
    seconds = perf_counter() - started
    environment.close()
    return steps / seconds


def _training_speed(way: str, scale: float) -> float:
    case = HALFCHEETAH.with_steps(HALFCHEETAH.steps * scale)
    if way == PEER:
        training: Any = StableBaselines3Training(case, 0, processes=True)
    else:
        environment = {"type": "gymnasium", "id": case.env_id, "num_envs": case.num_envs, "workers": _workers(way)}
        training = rlcore_training(case, 0, environment=environment)
    started = perf_counter()
    return float(training.train() / (perf_counter() - started))


@click.command(help=__doc__)
@click.option("--case", "cases", multiple=True, type=click.Choice(list(CASES)), help="Only this case.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of all ways.")
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True), help="Of all steps.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(cases: tuple[str, ...], rounds: int, scale: float, json_file: Path | None) -> None:
    table = Table("case", "way", "agent steps/s", "2 workers are", "target")
    report: dict[str, Any] = {}
    missed = False
    for name in cases or tuple(CASES):
        case = CASES[name]
        ways = [ONE, SEVERAL, *([PEER] if PEER in case.targets else [])]

        def measure(way: str, name: str = name) -> float:
            return float(in_own_process("workers:steps_per_second", case=name, way=way, scale=scale))

        speeds = alternate(ways, rounds, measure)
        ratios = {way: pairwise_ratio(speeds[SEVERAL], speeds[way]) for way in ways if way != SEVERAL}
        missed |= any(ratios[way] < target for way, target in case.targets.items())
        for way in ways:
            shown = f"{ratios[way]:.2f}x" if way in ratios else ""
            table.add_row(name, way, f"{median(speeds[way]):,.0f}", shown, _shown(case.targets.get(way)))
        report[name] = {"steps_per_second": speeds, "ratios": ratios, "targets": case.targets}
    Console().print(table)
    write_report(json_file, {"benchmark": "workers", "cases": report, "met": not missed})
    if missed:
        sys.exit(MISSED)


def _shown(target: float | None) -> str:
    return "" if target is None else f"{target:g}x"


if __name__ == "__main__":
    main()
