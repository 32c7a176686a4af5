"""Agent steps per second of ``rlcore-unity``, against ML-Agents' own ``UnityEnvironment``, in the same test player.

The player is ``tests/support/unity_player.py`` with the world ``fast``, whose messages are made once: its own work does
not depend on who plays. Every measurement is a process of its own; the ways take turns. ``--oracle`` is the Python of a
virtual environment with ML-Agents' code; without it, only rlcore is measured. ``mlagents-envs-aai`` has this code for
protobuf 7, whose messages are made in C. ``mlagents-envs`` needs protobuf 3, which makes them in Python here, and
would be a slow peer::

    python -m venv ORACLE
    ORACLE/bin/pip install --no-deps --ignore-requires-python mlagents-envs-aai==1.0.0
    ORACLE/bin/pip install numpy pillow grpcio packaging cloudpickle "protobuf>=7"
    python benchmarks/unity_speed.py --oracle ORACLE/bin/python

``1 agent`` and ``16 agents`` are in one player; ``2 players`` have 16 agents each. The time of one agent's exchange is
the step of ``1 agent``, the player's work included. Players of Unity call with a client in C. Here the client is
grpcio's, which takes about 270 us of the processor for a call, or ``plain``, one on a plain socket, which takes 40.

``wait`` is time in which a player does nothing, as one that waits for its next frame, ``work`` time in which it keeps a
processor busy. Numbers behind them are milliseconds of each step.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

SUPPORT = Path(__file__).resolve().parents[1] / "tests/support"
ORACLE_WAY = "mlagents-envs, 16 agents, grpcio"
SECONDS = 4.0  # that a measurement with a wait or work takes at most


class Way(NamedTuple):
    """One measurement: how many agents and players, and how they work.

    Attributes:
        agents: Agents of a player.
        players: Players.
        against: The way with which it is compared.
        client: The client of a player.
        delay: Seconds of a step in which a player waits.
        work: Seconds of a step in which a player keeps a processor busy.
    """

    agents: int
    players: int
    against: str
    client: str = "plain"
    delay: float = 0.0
    work: float = 0.0


def _ways() -> dict[str, Way]:
    found = {}
    for client in ("plain", "grpcio"):
        base = f"16 agents, {client}"
        found[base] = Way(16, 1, base, client)
        found[f"1 agent, {client}"] = Way(1, 1, base, client)
        found[f"2 players, {client}"] = Way(16, 2, base, client)
    for milliseconds in (1, 5):
        for kind, option in (("wait", "delay"), ("work", "work")):
            base = f"{kind} {milliseconds}"
            one = Way(16, 1, base)._replace(**{option: milliseconds / 1000})
            found |= {base: one, f"{base}, 2 players": one._replace(players=2)}
    return found


WAYS = _ways()
WARMUP = 200  # steps
ORACLE = """
import json, sys, time
import numpy as np
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.environment import UnityEnvironment
environment = UnityEnvironment(sys.argv[1], base_port=int(sys.argv[3]), seed=1)
environment.reset()
name = list(environment.behavior_specs)[0]
agents = len(environment.get_steps(name)[0])
actions = ActionTuple(continuous=np.zeros((agents, 2), np.float32))
def play(steps):
    for _ in range(steps):
        environment.get_steps(name)
        environment.set_actions(name, actions)
        environment.step()
play(200)
wall, cpu = time.perf_counter(), time.process_time()
play(int(sys.argv[2]))
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
environment.close()
print(json.dumps([agents, wall, cpu]))
"""


def measure(way: str, steps: int) -> tuple[int, float, float]:
    """Agents of a step, and the seconds of ``steps``: of the wall clock, and of this process's processor time."""
    sys.path.insert(0, str(SUPPORT))
    import numpy as np
    from unity_games import make_game

    from rlcore import Actions, EpisodeSeeds

    agents, players, _, client, delay, work = WAYS[way]
    with tempfile.TemporaryDirectory() as directory:
        game = make_game(Path(directory), players, world="fast", agents=agents, client=client, delay=delay, work=work)
        actions = {"Fast": Actions(np.zeros((game.behaviors["Fast"].slots, 2), np.float32))}
        game.reset(EpisodeSeeds(0), np.zeros(players, np.int64))
        for _ in range(WARMUP):
            game.step(actions)
        wall = perf_counter()
        cpu = process_time()
        for _ in range(steps):
            game.step(actions)
        wall = perf_counter() - wall
        cpu = process_time() - cpu
        game.close()
    return agents * players, wall, cpu


def measured(way: str, steps: int, oracle: str | None, port: int) -> tuple[int, float, float]:
    """Measure one way in a process of its own; return what :func:`measure` printed there."""
    if way != ORACLE_WAY:
        command = [sys.executable, __file__, "--way", way, "--steps", str(steps)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    else:
        assert oracle is not None
        sys.path.insert(0, str(SUPPORT))
        from unity_player import make_player

        with tempfile.TemporaryDirectory() as directory:
            player = make_player(Path(directory), world="fast", agents=16)
            command = [oracle, "-c", ORACLE, str(player), str(steps), str(port)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
    agents, wall, cpu = next(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    return agents, wall, cpu


@click.command()
@click.option("--steps", default=2000, help="Steps of one measurement.")
@click.option("--rounds", default=3, help="Measurements of each way.")
@click.option("--oracle", help="The Python of a virtual environment with mlagents-envs.")
@click.option("--only", default="", help="Only ways with this text in their names.")
@click.option("--way", type=click.Choice(list(WAYS)), help="Measure one way once, and print numbers.")
def main(steps: int, rounds: int, oracle: str | None, only: str, way: str | None) -> None:
    """Measure agent steps per second in the test player of Unity."""
    if way is not None:
        print(json.dumps(measure(way, steps)))
        return
    ways = [*(way for way in WAYS if only in way), *([ORACLE_WAY] if oracle else [])]
    found: dict[str, list[tuple[float, float, float]]] = {each: [] for each in ways}
    for turn in range(rounds):
        for number, each in enumerate(ways):
            count = steps
            if each in WAYS and (frame := WAYS[each].delay + WAYS[each].work):
                count = min(steps, int(SECONDS / frame))
            agents, wall, cpu = measured(each, count, oracle, 5600 + 10 * (turn * len(ways) + number))
            found[each].append((agents * count / wall, wall / count * 1e6, cpu / count * 1e6))
    table = Table("way", "agent steps/s", "us of a step", "us of the processor", "times", "as fast as")
    for each in ways:
        speed, step, processor = (median(column) for column in zip(*found[each], strict=True))
        against = WAYS[each].against if each in WAYS else "16 agents, grpcio"
        ratios = [mine[0] / base[0] for mine, base in zip(found[each], found.get(against, found[each]), strict=True)]
        table.add_row(each, f"{speed:,.0f}", f"{step:,.0f}", f"{processor:,.0f}", f"{median(ratios):.2f}", against)
    Console().print(table)


if __name__ == "__main__":
    main()
