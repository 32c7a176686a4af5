"""Environment steps per second of EnvPool, against Gymnasium's environments stepped one by one in this process.

``pong`` is Atari's Pong with the usual preparation: four steps of the game per action, and four gray pictures of 84 by
84 pixels. ``halfcheetah`` is HalfCheetah-v5. Each has 8 environments, stepped without a trainer:

* ``envpool``: ``environment.type: envpool``, with a thread for each core.
* ``in process``: ``environment.type: gymnasium``, which steps Gymnasium's environments one by one. Those of Pong have
  Gymnasium's wrappers AtariPreprocessing and FrameStackObservation.
* ``ale-py``, for Pong: ``environment.type: gymnasium`` with ale-py's own vectorized form, which has threads too.
* ``EnvPool alone``: EnvPool without rlcore.

A checkpoint makes a new pool of EnvPool; the seconds that this takes are printed too.

Every measurement is a process of its own. The ways take turns, and ratios are formed within a turn, of wall-clock time
and of the processor's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import Any

import attrs
import click
import numpy as np
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, alternate, in_own_process, pairwise_ratio, write_report

COUNT = 8  # environments
ENVPOOL = "envpool"
IN_PROCESS = "in process"
ALE = "ale-py"
ALONE = "EnvPool alone"
WRAPPED_PONG = "rlcore-benchmarks/Pong-v0"


@attrs.frozen
class Case:
    """An environment in each way, the steps of a measurement, and how many times as fast EnvPool has to be."""

    envpool: str
    in_process: str
    steps: int
    target: float | None
    ale: str | None = None

    @property
    def ways(self) -> tuple[str, ...]:
        return (ENVPOOL, IN_PROCESS, *([ALE] if self.ale else []), ALONE)


CASES = {
    "pong": Case("Pong-v5", WRAPPED_PONG, 8_000, 3.0, "ale_py:ALE/Pong-v5"),
    "halfcheetah": Case("HalfCheetah-v5", "HalfCheetah-v5", 24_000, None),
}


@attrs.frozen
class Measured:
    """One measurement: environment steps per second of each clock, and the seconds that a reset of all takes."""

    wall: float
    processor: float
    reset: float


def wrapped_pong(**options: Any) -> Any:
    """Return one Pong with Gymnasium's wrappers."""
    import ale_py
    import gymnasium
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    gymnasium.register_envs(ale_py)
    game = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0, **options)
    return FrameStackObservation(AtariPreprocessing(game), 4)


def measure(case: str, way: str, scale: float) -> dict[str, float]:
    """Measure one case in one way, in this process."""
    times = max(1, round(CASES[case].steps * scale) // COUNT)
    reset, step = _alone(CASES[case]) if way == ALONE else _of_rlcore(CASES[case], way)
    started = perf_counter()
    reset()
    seconds_of_reset = perf_counter() - started
    started = perf_counter()
    worked = process_time()
    for _ in range(times):
        step()
    wall = perf_counter() - started
    processor = process_time() - worked
    return attrs.asdict(Measured(times * COUNT / wall, times * COUNT / processor, seconds_of_reset))


def _of_rlcore(case: Case, way: str) -> tuple[Any, Any]:
    """The reset and the step, with constant actions, of the environment of a run."""
    import gymnasium

    import rlcore_gymnasium.environment
    import rlcore_gymnasium.envpool.environment
    from rlcore import Actions, EnvironmentSettings, EpisodeSeeds

    gymnasium.register(WRAPPED_PONG, entry_point="envpool_stepping:wrapped_pong")
    package = rlcore_gymnasium.envpool if way == ENVPOOL else rlcore_gymnasium
    make = package.environment.make_environment
    env_id = {ENVPOOL: case.envpool, IN_PROCESS: case.in_process, ALE: case.ale}[way]
    run: Any = SimpleNamespace(
        behavior_names=("Agent",),
        num_envs=COUNT,
        video=None,
        purpose="train",
        first_env=0,
        config=SimpleNamespace(environment_parameters={}),
    )
    environment = make(EnvironmentSettings(id=env_id), run)
    spec = environment.behaviors["Agent"]
    continuous = np.random.default_rng(0).uniform(-1.0, 1.0, (COUNT, spec.continuous)).astype(np.float32)
    actions = {"Agent": Actions(continuous, np.zeros((COUNT, len(spec.discrete)), np.int64))}
    return (
        lambda: environment.reset(EpisodeSeeds(0), np.zeros(COUNT, np.int64)),
        lambda: environment.step(actions),
    )


def _alone(case: Case) -> tuple[Any, Any]:
    """The reset and the step, with constant actions, of a pool of EnvPool."""
    import envpool

    from rlcore_gymnasium.envpool.tasks import cores

    pool = envpool.make_gymnasium(case.envpool, num_envs=COUNT, num_threads=min(COUNT, cores()), seed=0)
    shape = pool.action_space.shape
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (COUNT, *shape)) if shape else np.zeros(COUNT, np.int32)
    return pool.reset, lambda: pool.step(actions)


@click.command(help=__doc__)
@click.option("--case", "cases", multiple=True, type=click.Choice(list(CASES)), help="Only this case.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of all ways.")
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True), help="Of all steps.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(cases: tuple[str, ...], rounds: int, scale: float, json_file: Path | None) -> None:
    table = Table("case", "way", "steps/s", "a reset", "envpool is", "of processor time", "target")
    report: dict[str, Any] = {}
    missed = False
    for name in cases or tuple(CASES):
        case = CASES[name]

        def measured(way: str, name: str = name) -> Measured:
            return Measured(**in_own_process("envpool_stepping:measure", case=name, way=way, scale=scale))

        found = alternate(case.ways, rounds, measured)
        wall = {way: [each.wall for each in turns] for way, turns in found.items()}
        processor = {way: [each.processor for each in turns] for way, turns in found.items()}
        ratios = {way: pairwise_ratio(wall[ENVPOOL], wall[way]) for way in case.ways}
        missed |= case.target is not None and ratios[IN_PROCESS] < case.target
        for way in case.ways:
            other = way != ENVPOOL
            table.add_row(
                name,
                way,
                f"{median(wall[way]):,.0f}",
                f"{median(each.reset for each in found[way]):.2f} s",
                f"{ratios[way]:.2f}x" if other else "",
                f"{pairwise_ratio(processor[ENVPOOL], processor[way]):.2f}x" if other else "",
                f"{case.target:g}x" if case.target is not None and way == IN_PROCESS else "",
            )
        measurements = {way: [attrs.asdict(each) for each in turns] for way, turns in found.items()}
        report[name] = {"measurements": measurements, "ratios": ratios, "target": case.target}
    Console().print(table)
    write_report(json_file, {"benchmark": "envpool_stepping", "cases": report, "met": not missed})
    if missed:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
