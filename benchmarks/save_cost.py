"""The cost of checkpoints: seconds of each save, and the share of the time with a save in each minute.

Two trainings: PPO with networks of 1M parameters, and SAC with a full replay buffer of 100k transitions that is saved
(17 observations, 6 actions). A stall is the time in which the training waits for a save: ending episodes, writing,
flushing, reading back, deleting the oldest. The directory is on the disk of the results, not in memory.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, in_own_process, write_report

from rlcore import Actions, BehaviorSpec, EnvironmentSpec, ObservationSpec, Run, hookimpl
from rlcore.plugins.calls import load_plugins
from rlcore.runs.training import Training
from rlcore.testing.environments import ArrayEnvironment

INTERVAL = 60.0  # seconds between two saves that the share is computed for
TARGET = 0.05  # share of the time
OBSERVATIONS, ACTIONS, COPIES = 17, 6, 64
TRAININGS: dict[str, dict[str, Any]] = {
    "PPO, 1M parameters": {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 1024, "buffer_size": 8192, "num_epoch": 1},
        "network_settings": {"hidden_units": 690, "num_layers": 2},
    },
    "SAC, 100k transitions": {
        "trainer_type": "sac",
        "hyperparameters": {
            "buffer_size": 100_000, "buffer_init_steps": 10**7, "batch_size": 256, "save_replay_buffer": True,
        },
        "network_settings": {"hidden_units": 256, "num_layers": 2},
    },
}  # fmt: skip


class Noise(ArrayEnvironment):
    """Observations are noise, and an episode takes 200 steps."""

    def __init__(self, settings: Any, run: Any) -> None:
        observations = (ObservationSpec("observation", (OBSERVATIONS,), np.float32),)
        limit = np.ones(ACTIONS, np.float32)
        (name,) = run.behavior_names
        copies = np.arange(run.num_envs)
        super().__init__(BehaviorSpec(name, observations, ACTIONS, low=-limit, high=limit, env_index=copies))
        self._generator = np.random.default_rng(0)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        """Every episode is alike."""

    def advance(self, actions: Actions) -> tuple[NDArray[Any], NDArray[Any]]:
        return np.ones(self.num_envs, np.float32), self._steps >= 200

    def observe(self) -> dict[str, NDArray[Any]]:
        return {"observation": self._generator.standard_normal((self.num_envs, OBSERVATIONS), np.float32)}


class NoisePlugin:
    @hookimpl
    def rlcore_environments(self) -> list[EnvironmentSpec]:
        return [EnvironmentSpec(name="noise", target="save_cost:Noise")]


def seconds_of_saves(training: str, saves: int, directory: str) -> dict[str, Any]:
    """The seconds of each save after the first 100k steps, and the bytes of a checkpoint."""
    plugins = load_plugins()
    plugins.register(NoisePlugin(), "noise")
    full, interval = 100_032, 64 * 32
    behavior = {"max_steps": full + saves * interval, "checkpoint_interval": interval, "summary_freq": 10**6}
    config = {
        "environment": {"type": "noise", "num_envs": COPIES},
        "behaviors": {"Agent": TRAININGS[training] | behavior},
        "checkpoint_settings": {"run_id": "saves", "results_dir": directory},
        "stats": {"console": False},
    }
    run = Run(config, plugins)
    seconds: list[float] = []
    save = Training._save_checkpoint

    def measured(self: Training, *arguments: Any, **keywords: Any) -> None:
        before = perf_counter()
        save(self, *arguments, **keywords)
        if run.steps >= full:
            seconds.append(perf_counter() - before)

    Training._save_checkpoint = measured  # type: ignore[method-assign]
    run.train()
    newest = Path(directory) / "saves" / "checkpoints" / str(run.steps)
    return {"seconds": seconds, "bytes": sum(path.stat().st_size for path in newest.iterdir())}


@click.command(help=__doc__)
@click.option("--saves", default=100, show_default=True, type=click.IntRange(2), help="Saves of each training.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(saves: int, json_file: Path | None) -> None:
    table = Table("training", "checkpoint", "median", "p99 stall", f"share, a save each {INTERVAL:.0f} s")
    measured, met = {}, True
    for name in TRAININGS:
        with TemporaryDirectory(dir=Path.cwd()) as directory:
            measured[name] = in_own_process(
                "save_cost:seconds_of_saves", training=name, saves=saves, directory=directory
            )
        seconds = np.array(measured[name]["seconds"])
        share = float(seconds.mean() / (INTERVAL + seconds.mean()))
        met &= share <= TARGET
        color = "green" if share <= TARGET else "red"
        table.add_row(
            name, f"{measured[name]['bytes'] / 1e6:.1f} MB", f"{np.median(seconds) * 1e3:.0f} ms",
            f"{np.quantile(seconds, 0.99) * 1e3:.0f} ms", f"[{color}]{share:.2%}[/{color}] (target {TARGET:.0%})",
        )  # fmt: skip
    Console().print(table)
    write_report(json_file, {"benchmark": "save_cost", "measured": measured, "target": TARGET, "met": met})
    if not met:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
