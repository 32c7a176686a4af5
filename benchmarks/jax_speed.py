"""Microseconds of a step of games of pgx with 1,024 environments, in ``rlcore-jax`` and in pgx alone.

* ``step alone``: one jitted call of pgx's own vectorized ``auto_reset(step, init)``, which is waited for. Its
  observations are booleans, of the player who acts next.
* ``observed``: the same with the observation of each player in float32, as a network needs it.
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
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, Figure, alternate, pairwise_ratio, write_report

ALONE, OBSERVED, TENSORS, NUMPY = "step alone", "observed", "tensors", "numpy"
WAYS = (ALONE, OBSERVED, TENSORS, NUMPY)
GAMES = ("minatar-breakout", "connect_four")
TARGET = 2.0


def ways_of(game: str, num_envs: int) -> dict[str, Callable[[int], Any]]:
    """Return a function for each way that makes the step with this number, and waits for it."""
    from types import SimpleNamespace

    import jax
    import jax.numpy as jnp
    import pgx
    import torch
    from pgx.experimental import auto_reset

    from rlcore import Actions, EnvironmentSettings, EpisodeSeeds
    from rlcore_jax.games import make_environment
    from rlcore_jax.settings import PgxSettings
    from rlcore_torch import TensorActions

    rules = pgx.make(game)
    players = rules.num_players
    actions = np.random.default_rng(0).integers(0, rules.num_actions, (64, num_envs), np.int32)
    init, restarting = jax.jit(jax.vmap(rules.init)), auto_reset(rules.step, rules.init)

    def observed(state: Any, action: Any, key: Any) -> Any:
        state = restarting(state, action, key)
        seen = [state.observation] if players == 1 else [rules.observe(state, player) for player in range(players)]
        return state, jnp.stack(seen).astype(jnp.float32)

    keys = [jax.block_until_ready(each) for each in jax.random.split(jax.random.key(0), (64, num_envs))]

    def jitted(function: Callable[..., Any]) -> Callable[[int], None]:
        step, states = jax.jit(jax.vmap(function)), [init(keys[0])]

        def make_step(number: int) -> None:
            states[0] = jax.block_until_ready(step(states[0], actions[number % 64], keys[number % 64]))[0]

        return make_step

    run: Any = SimpleNamespace(
        behavior_names=("Agent",), num_envs=num_envs, config=SimpleNamespace(environment_parameters={})
    )
    environments = [make_environment(EnvironmentSettings(id=game, options=PgxSettings()), run) for _ in range(2)]
    for environment in environments:
        environment.reset(EpisodeSeeds(0), np.zeros(num_envs, np.int64))
    of_slots = [np.repeat(each, players).astype(np.int64)[:, None] for each in actions]
    given = [{"Agent": TensorActions(discrete=torch.from_numpy(each))} for each in of_slots]
    arrays = [{"Agent": Actions(discrete=each)} for each in of_slots]
    return {
        ALONE: jitted(lambda *arguments: (restarting(*arguments), None)),
        OBSERVED: jitted(observed),
        TENSORS: lambda number: environments[0].tensors.step(given[number % 64]),
        NUMPY: lambda number: environments[1].step(arrays[number % 64]),
    }


@click.command(help=__doc__)
@click.option("--game", "games", multiple=True, default=GAMES, show_default=True, help="A game of pgx.")
@click.option("--num-envs", default=1024, show_default=True, type=click.IntRange(1), help="Environments.")
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(1), help="Turns of all ways.")
@click.option("--steps", default=500, show_default=True, type=click.IntRange(1), help="Steps of a turn.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(games: tuple[str, ...], num_envs: int, rounds: int, steps: int, json_file: Path | None) -> None:
    table = Table("game", "way", "us a step", "environment steps/s", "of step alone", "of observed", "target")
    report: dict[str, Any] = {}
    figures = []
    for game in games:
        ways = ways_of(game, num_envs)

        def measured(way: str, ways: dict[str, Callable[[int], Any]] = ways) -> float:
            for number in range(20):
                ways[way](number)
            started = perf_counter()
            for number in range(steps):
                ways[way](number)
            return (perf_counter() - started) / steps * 1e6

        found = alternate(WAYS, rounds, measured)
        for way in WAYS:
            micro, ratio = median(found[way]), pairwise_ratio(found[way], found[ALONE])
            table.add_row(
                game, way, f"{micro:,.0f}", f"{num_envs / micro * 1e6:,.0f}",
                f"{ratio:.2f}x",
                f"{pairwise_ratio(found[way], found[OBSERVED]):.2f}x", f"{TARGET:g}x" if way == TENSORS else "",
            )  # fmt: skip
            if way == TENSORS:
                what = f"a step of rlcore-jax, {game}, {num_envs} environments"
                figures.append(Figure(what, ratio, "x", "a jitted step of pgx alone", TARGET, smaller=True))
        report[game] = found
    Console().print(table)
    missed = any(figure.value > TARGET for figure in figures)
    write_report(json_file, {"benchmark": "jax_speed", "games": report, "met": not missed}, figures)
    if missed:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
