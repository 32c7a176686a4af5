"""Microseconds of a step of 1,024 environments, in ``rlcore-jax`` and in the simulator alone.

* ``step alone``: one jitted call of the library's own vectorized step, which is waited for. For pgx it is
  ``auto_reset(step, init)``, whose observations are booleans, of the player who acts next. For MuJoCo Playground it is
  ``step``, which gives the whole state and never resets.
* ``observed``: the same with the observation of each player in float32, as a network needs it. Only for pgx;
  Playground's state has it.
* ``tensors``: ``JaxTensors``, which also counts time limits, keeps final observations, shows each player what it sees,
  adds up the rewards of those who wait, and hands all to PyTorch.
* ``numpy``: the same as arrays of NumPy, for trainers that compute in NumPy.

Actions are random, and all ways take turns in one process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, Figure, alternate, pairwise_ratio, write_report

from rlcore import EnvironmentSettings, EpisodeSeeds

ALONE = "step alone"
OBSERVED = "observed"
TENSORS = "tensors"
NUMPY = "numpy"
WAYS = (ALONE, OBSERVED, TENSORS, NUMPY)
GAMES = ("minatar-breakout", "connect_four")
PLAYGROUND = ("CartpoleBalance", "CheetahRun")
TARGET = 2.0


def ways_of(task: str, num_envs: int) -> dict[str, Callable[[int], Any]]:
    """Return a function for each way that makes the step with this number, and waits for it."""
    ways = ways_of_playground(task, num_envs) if task in PLAYGROUND else ways_of_pgx(task, num_envs)
    return {way: ways[way] for way in WAYS if way in ways}


def ways_of_pgx(game: str, num_envs: int) -> dict[str, Callable[[int], Any]]:
    import jax
    import jax.numpy as jnp
    import pgx
    from pgx.experimental import auto_reset

    from rlcore import Actions
    from rlcore_jax.games import make_environment
    from rlcore_jax.settings import PgxSettings
    from rlcore_torch import TensorActions

    rules = pgx.make(game)
    players = rules.num_players
    actions = np.random.default_rng(0).integers(0, rules.num_actions, (64, num_envs), np.int32)
    init = jax.jit(jax.vmap(rules.init))
    restarting = auto_reset(rules.step, rules.init)

    def observed(state: Any, action: Any, key: Any) -> Any:
        state = restarting(state, action, key)
        seen = [state.observation] if players == 1 else [rules.observe(state, player) for player in range(players)]
        return state, jnp.stack(seen).astype(jnp.float32)

    keys = [jax.block_until_ready(each) for each in jax.random.split(jax.random.key(0), (64, num_envs))]

    def jitted(function: Callable[..., Any]) -> Callable[[int], None]:
        step = jax.jit(jax.vmap(function))
        states = [init(keys[0])]

        def make_step(number: int) -> None:
            states[0] = jax.block_until_ready(step(states[0], actions[number % 64], keys[number % 64]))[0]

        return make_step

    of_slots = [np.repeat(each, players).astype(np.int64)[:, None] for each in actions]
    return {
        ALONE: jitted(lambda *arguments: (restarting(*arguments), None)),
        OBSERVED: jitted(observed),
        **ways_of_rlcore(
            lambda run: make_environment(EnvironmentSettings(id=game, options=PgxSettings()), run),
            num_envs,
            [TensorActions(discrete=torch.from_numpy(each)) for each in of_slots],
            [Actions(discrete=each) for each in of_slots],
        ),
    }


def ways_of_playground(task: str, num_envs: int) -> dict[str, Callable[[int], Any]]:
    import jax

    from rlcore import Actions
    from rlcore_jax.playground import PlaygroundTask, make_environment
    from rlcore_jax.settings import PlaygroundSettings
    from rlcore_torch import TensorActions

    alone = PlaygroundTask(task, {}).task
    size = (64, num_envs, alone.action_size)
    actions = np.random.default_rng(0).uniform(-1, 1, size).astype(np.float32)
    step = jax.jit(jax.vmap(alone.step))
    states = [jax.jit(jax.vmap(alone.reset))(jax.random.split(jax.random.key(0), num_envs))]

    def step_alone(number: int) -> None:
        states[0] = jax.block_until_ready(step(states[0], actions[number % 64]))

    return {
        ALONE: step_alone,
        **ways_of_rlcore(
            lambda run: make_environment(EnvironmentSettings(id=task, options=PlaygroundSettings()), run),
            num_envs,
            [TensorActions(continuous=torch.from_numpy(each)) for each in actions],
            [Actions(continuous=each) for each in actions],
        ),
    }


def ways_of_rlcore(
    made: Callable[[Any], Any], num_envs: int, tensors: list[Any], arrays: list[Any]
) -> dict[str, Callable[[int], Any]]:
    run: Any = SimpleNamespace(
        behavior_names=("Agent",), num_envs=num_envs, config=SimpleNamespace(environment_parameters={})
    )
    environments = [made(run) for _ in range(2)]
    for environment in environments:
        environment.reset(EpisodeSeeds(0), np.zeros(num_envs, np.int64))
    given_tensors, given_arrays = ([{"Agent": each} for each in all_] for all_ in (tensors, arrays))
    return {
        TENSORS: lambda number: environments[0].tensors.step(given_tensors[number % 64]),
        NUMPY: lambda number: environments[1].step(given_arrays[number % 64]),
    }


@click.command(help=__doc__)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    default=(*GAMES, PLAYGROUND[0]),
    show_default=True,
    help=f"A game of pgx, or a task of Playground: {', '.join(PLAYGROUND)}.",
)
@click.option("--num-envs", default=1024, show_default=True, type=click.IntRange(1), help="Environments.")
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(1), help="Turns of all ways.")
@click.option("--steps", default=500, show_default=True, type=click.IntRange(1), help="Steps of a turn.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(tasks: tuple[str, ...], num_envs: int, rounds: int, steps: int, json_file: Path | None) -> None:
    table = Table("task", "way", "us a step", "environment steps/s", "of step alone", "of observed", "target")
    report: dict[str, Any] = {}
    figures = []
    for task in tasks:
        ways = ways_of(task, num_envs)

        def measured(way: str, ways: dict[str, Callable[[int], Any]] = ways) -> float:
            for number in range(20):
                ways[way](number)
            started = perf_counter()
            for number in range(steps):
                ways[way](number)
            return (perf_counter() - started) / steps * 1e6

        found = alternate(tuple(ways), rounds, measured)
        for way in ways:
            micro = median(found[way])
            ratio = pairwise_ratio(found[way], found[ALONE])
            table.add_row(
                task, way, f"{micro:,.0f}", f"{num_envs / micro * 1e6:,.0f}",
                f"{ratio:.2f}x",
                f"{pairwise_ratio(found[way], found[OBSERVED]):.2f}x" if OBSERVED in found else "",
                f"{TARGET:g}x" if way == TENSORS else "",
            )  # fmt: skip
            if way == TENSORS:
                what = f"a step of rlcore-jax, {task}, {num_envs} environments"
                figures.append(Figure(what, ratio, "x", "a jitted step of the library alone", TARGET, smaller=True))
        report[task] = found
    Console().print(table)
    missed = any(figure.value > TARGET for figure in figures)
    write_report(json_file, {"benchmark": "jax_speed", "tasks": report, "met": not missed}, figures)
    if missed:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
