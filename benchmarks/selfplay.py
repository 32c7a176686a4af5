"""The cost of self-play: snapshots and swaps, memory, and agent steps per second.

All trainings are PPO with self-play in a natively vectorized game for two: each sees 16 numbers and chooses one of six
options, and a game has eight steps. So nearly all time is that of training.

*Overhead* is the share of the processor time of a training that snapshots and swaps take: 1M parameters, a window of
10, the default ``save_steps`` and ``swap_steps``, and all opponents from the window. An act after a swap, which copies
weights of new opponents, counts by what it takes more than the acts before.

*Memory* is how much the process grows over 500 swaps, with a new snapshot at each, after 50 swaps that fill the window.

*Speed* is agent steps per second, of agents that learn and of ghosts, with two layers of 64 units. The loop of
ML-Agents 1.1.0, in which each agent is a Python object, was measured at 2,820 steps per second of PPO on CartPole,
without self-play. It cannot be installed beside current packages, so its figure is of another day and another
environment.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, in_own_process, write_report

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    EnvironmentSpec,
    EpisodeSeeds,
    ObservationSpec,
    Run,
    hookimpl,
    refuse_unknown_parameters,
)

OBSERVATIONS = 16
OPTIONS = 6
LENGTH = 8
COPIES = (64, 256, 1024)
# share of the time; MB
MOST_OVERHEAD = 0.03
MOST_GROWTH = 50.0
ML_AGENTS = 2820  # steps per second of PPO on CartPole, without self-play
# hidden units of two layers
MILLION = 980
SMALL = 64
NEVER = 10**9


class Toy:
    """Two agents per environment; whoever chose the higher option more often wins."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        seen = ObservationSpec("seen", (OBSERVATIONS,), np.float32)
        self.behaviors = {
            "Player": BehaviorSpec(
                "Player", (seen,), discrete=(OPTIONS,), env_index=np.repeat(np.arange(num_envs), 2),
                team=np.tile([0, 1], num_envs),
            )
        }  # fmt: skip
        self.episodes = np.zeros(num_envs, np.int64)
        self.random = np.random.default_rng(0)
        self.moves = np.zeros(num_envs, np.int64)
        self.score = np.zeros(num_envs)

    def reset(self, seeds: EpisodeSeeds, episodes: Any) -> dict[str, AgentBatch]:
        self.episodes = np.array(episodes, np.int64)
        self.random = np.random.default_rng(seeds(0, int(episodes[0])))
        self.moves[:] = np.arange(self.num_envs) % LENGTH  # games end in different steps
        self.score[:] = 0.0
        none = np.zeros(2 * self.num_envs, np.bool_)
        return self._batch(np.zeros(self.num_envs), none)

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        discrete = actions["Player"].discrete
        assert discrete is not None
        chosen = discrete.reshape(self.num_envs, 2)
        self.score += np.sign(chosen[:, 0] - chosen[:, 1])
        self.moves += 1
        over = self.moves == LENGTH
        result = np.where(over, np.sign(self.score), 0.0)
        self.episodes[over] += 1
        self.moves[over], self.score[over] = 0, 0.0
        return self._batch(result, np.repeat(over, 2))

    def _batch(self, result: Any, over: Any) -> dict[str, AgentBatch]:
        seen = self.random.random((2 * self.num_envs, OBSERVATIONS), np.float32)
        reward = np.stack([result, -result], axis=1).ravel().astype(np.float32)
        final = {"seen": seen[over]} if over.any() else None
        return {"Player": AgentBatch({"seen": seen}, reward, over, np.zeros_like(over), final_observations=final)}

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        refuse_unknown_parameters(parameters, (), "toy")

    def close(self) -> None:
        """Do nothing: nothing is open."""


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [EnvironmentSpec(name="toy", target="selfplay:toy", summary="a game of eight choices for two")]


def toy(settings: Any, run: Any) -> Toy:
    return Toy(run.num_envs)


@contextmanager
def training(copies: int, units: int, steps: int, **self_play: Any) -> Iterator[Run]:
    """A run with so many copies of the game, hidden units and steps of the agents that learn."""
    block = {
        "trainer_type": "ppo",
        "max_steps": steps,
        "hyperparameters": {"batch_size": copies * 8, "buffer_size": copies * 32, "num_epoch": 3},
        "network_settings": {"hidden_units": units, "num_layers": 2},
        "self_play": {"window": 10, **self_play},
        "summary_freq": NEVER,
        "checkpoint_interval": NEVER,
    }
    config = {
        "environment": {"type": "toy", "num_envs": copies},
        "behaviors": {"Player": block},
        "torch_settings": {"num_threads": 1},
        "stats": {"console": False},
        "plugins": {"local": ["selfplay"]},
    }
    with (
        tempfile.TemporaryDirectory() as directory,
        Run({**config, "checkpoint_settings": {"results_dir": directory}}) as run,
    ):
        yield run


def overhead(steps: int) -> dict[str, float]:
    """Seconds of processor time of a training with 1M parameters, and of its snapshots and swaps."""
    from rlcore_ghost.selfplay.ghosts import Ghosts

    spent = {"saves": 0.0, "swaps": 0.0, "acts": 0.0, "number of saves": 0, "number of swaps": 0}
    usual: list[float] = []
    swapped = [False]

    def timed(name: str, part: str) -> None:
        inner = getattr(Ghosts, name)

        def measured(self: Any, *arguments: Any) -> Any:
            started = process_time()
            result = inner(self, *arguments)
            spent[part] += process_time() - started
            spent[f"number of {part}"] += 1
            swapped[0] = True
            return result

        setattr(Ghosts, name, measured)

    timed("save", "saves")
    timed("swap", "swaps")
    act = Ghosts._act

    def act_timed(self: Any, *arguments: Any) -> None:
        started = process_time()
        act(self, *arguments)
        taken = process_time() - started
        if swapped[0] and usual:
            spent["acts"] += max(0.0, taken - sorted(usual[-21:])[len(usual[-21:]) // 2])
        elif not swapped[0]:
            usual.append(taken)
        swapped[0] = False

    Ghosts._act = act_timed  # type: ignore[method-assign]
    with training(64, MILLION, steps, play_against_latest_model_ratio=0.0) as run:
        run.start()
        started = process_time()
        run.train()
        total = process_time() - started
        policy: Any = run.behaviors["Player"].policy
        parameters = sum(each.numel() for each in policy.snapshot().model.parameters())
    return {"parameters": parameters, "seconds": total, **spent}


def growth(swaps: int, fill: int = 50) -> dict[str, float]:
    """Megabytes of the process after ``fill`` swaps, and after ``swaps`` more."""
    per_swap = 256  # steps of the agents that learn, and of ghosts: an update, a snapshot and a swap
    sizes: list[float] = []
    settings = {"save_steps": per_swap, "swap_steps": per_swap, "team_change": 10 * per_swap}
    with training(8, 256, per_swap * (fill + swaps), play_against_latest_model_ratio=0.0, **settings) as run:
        run.start()
        ghosts: Any = run.behaviors["Player"].trainer.ghosts  # type: ignore[attr-defined]
        swap = ghosts.swap

        def measured() -> None:
            swap()
            sizes.append(resident())

        ghosts.swap = measured
        run.train()
    after = sizes[fill:]
    return {"swaps": len(after), "before": after[0], "growth": max(after[-10:]) - after[0]}


def resident() -> float:
    """Megabytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def speed(copies: int, steps: int) -> dict[str, float]:
    """Agent steps, of learning agents and ghosts, per second of wall time and of processor time."""
    with training(copies, SMALL, steps) as run:
        run.start()
        started = perf_counter()
        used = process_time()
        run.train()
        wall = perf_counter() - started
        used = process_time() - used
        trainer: Any = run.behaviors["Player"].trainer
        acted = trainer.steps + trainer.ghosts.ghost_steps
    return {"wall": acted / wall, "processor": acted / used}


@click.command(help=__doc__)
@click.option("--steps", default=200_000, show_default=True, type=click.IntRange(1), help="Steps of each training.")
@click.option("--swaps", default=500, show_default=True, type=click.IntRange(1), help="Swaps that memory is watched.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(steps: int, swaps: int, json_file: Path | None) -> None:
    console = Console()
    taken = in_own_process("selfplay:overhead", steps=max(steps // 4, 25_000))
    share = (taken["saves"] + taken["swaps"] + taken["acts"]) / taken["seconds"]
    console.print(
        f"{taken['parameters']:,} parameters, window 10: {taken['number of saves']} snapshots and "
        f"{taken['number of swaps']} swaps took {share:.2%} of {taken['seconds']:.1f} s of processor time; at most "
        f"{MOST_OVERHEAD:.0%}"
    )
    memory = in_own_process("selfplay:growth", swaps=swaps)
    console.print(
        f"memory grew by {memory['growth']:.1f} MB over {memory['swaps']:.0f} swaps, from {memory['before']:.0f} MB; "
        f"at most {MOST_GROWTH:.0f} MB"
    )
    table = Table(
        title="agent steps per second, learning and ghosts",
        caption="ML-Agents 1.1.0: 2,820 per second, of PPO on CartPole without self-play",
    )
    for column in ("copies", "by the clock", "of processor time", "ML-Agents' figure"):
        table.add_column(column, justify="right")
    speeds = {}
    for copies in COPIES:
        speeds[copies] = one = in_own_process("selfplay:speed", copies=copies, steps=steps)
        table.add_row(
            f"{copies:,}", f"{one['wall']:,.0f}", f"{one['processor']:,.0f}", f"x {one['wall'] / ML_AGENTS:.0f}"
        )
    console.print(table)
    write_report(
        json_file, {"benchmark": "selfplay", "overhead": taken, "share": share, "memory": memory, "speeds": speeds}
    )
    if share > MOST_OVERHEAD or memory["growth"] > MOST_GROWTH:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
