"""The cost of checkpoints: how long the training waits for each save, and the share of the time with a save a minute.

PPO with networks of 1M parameters, and SAC with a full replay buffer that is saved (17 observations, 6 actions), which
takes a gradient step for every step of its 64 environments. A stall is the time in which the training waits for a save:
ending episodes, copying, writing, flushing, reading back, deleting the oldest. The directory is on the disk of the
results, not in memory. Between two saves is the time of the whole training, the work of the writing thread included.
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

from rlcore import Actions, BehaviorSpec, EnvironmentSpec, ObservationSpec, Run, hookimpl, load_plugins
from rlcore.run.checkpoints import Checkpoints
from rlcore_devkit.environments import ArrayEnvironment

INTERVAL = 60.0  # seconds between two saves that the share is computed for
TARGET = 0.05  # share of the time
OBSERVATIONS = 17
ACTIONS = 6
COPIES = 64
TRAININGS: dict[str, dict[str, Any]] = {
    "PPO, 1M parameters": {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 1024, "buffer_size": 8192, "num_epoch": 1},
        "network_settings": {"hidden_units": 690, "num_layers": 2},
    },
    **{f"SAC, {rows:,} transitions": {
        "trainer_type": "sac",
        "hyperparameters": {
            "buffer_size": rows, "buffer_init_steps": rows, "batch_size": 256, "steps_per_update": COPIES,
            "save_replay_buffer": True,
        },
        "network_settings": {"hidden_units": 256, "num_layers": 2},
    } for rows in (100_000, 1_000_000)},
}  # fmt: skip
STEPS_BETWEEN = 256  # steps of the environments between two saves


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


class Measured:
    """Seconds that a training waits for each save, seconds from save to save, and bytes that each save wrote."""

    def __init__(self, run: Run, after: int, directory: Path) -> None:
        self.stalls: list[float] = []
        self.between: list[float] = []
        self.written: list[int] = []
        self._run, self._after, self._directory = run, after, directory
        self._ended = 0.0
        self._inside = False

    def save(self, save: Any) -> Any:
        def measured(checkpoints: Checkpoints, *arguments: Any, **keywords: Any) -> None:
            begun = perf_counter()
            self._inside = True
            save(checkpoints, *arguments, **keywords)
            self._inside = False
            if self._run.steps > self._after:
                self._note_written()
                self.stalls.append(perf_counter() - begun)
                self.between.append(begun - self._ended)
            self._ended = begun

        return measured

    def wait(self, wait: Any) -> Any:
        def measured(checkpoints: Checkpoints) -> None:
            begun = perf_counter()
            wait(checkpoints)
            if self.stalls and not self._inside:
                self.stalls[-1] += perf_counter() - begun

        return measured

    def _note_written(self) -> None:
        """Bytes of the files that the newest whole checkpoint does not share with an older one."""
        found = [path for path in self._directory.iterdir() if path.name.isdecimal()]
        newest = max(found, key=lambda path: int(path.name))
        self.written.append(sum(file.stat().st_size for file in newest.iterdir() if file.stat().st_nlink == 1))


def measure(training: str, asynchronous: bool, saves: int, directory: str) -> dict[str, Any]:
    """The :class:`Measured` lists of the saves with a full replay buffer, and the bytes of a checkpoint."""
    plugins = load_plugins()
    plugins.register(NoisePlugin(), "noise")
    interval = COPIES * STEPS_BETWEEN
    full = TRAININGS[training]["hyperparameters"]["buffer_size"] * 11 // 10
    full = -(-full // interval) * interval
    behavior = {"max_steps": full + (saves + 1) * interval, "checkpoint_interval": interval, "summary_freq": 10**9}
    config = {
        "environment": {"type": "noise", "num_envs": COPIES},
        "behaviors": {"Agent": TRAININGS[training] | behavior},
        "checkpoint_settings": {"run_id": "saves", "results_dir": directory},
        "stats": {"console": False},
    }
    if asynchronous:
        config["checkpoint_settings"]["asynchronous"] = True
    run = Run(config, plugins)
    checkpoints = Path(directory) / "saves" / "checkpoints"
    measured = Measured(run, full, checkpoints)
    Checkpoints.save = measured.save(Checkpoints.save)  # type: ignore[method-assign]
    Checkpoints.wait_until_written = measured.wait(Checkpoints.wait_until_written)  # type: ignore[method-assign]
    run.train()
    size = sum(path.stat().st_size for path in (checkpoints / str(run.steps)).iterdir())
    return {"stalls": measured.stalls, "between": measured.between, "written": measured.written, "bytes": size}


@click.command(help=__doc__)
@click.option("--saves", default=100, show_default=True, type=click.IntRange(2), help="Saves of each training.")
@click.option("--only", default="", help="Measure the trainings whose name contains this text.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(saves: int, only: str, json_file: Path | None) -> None:
    table = Table(
        "training", "save", "checkpoint", "written", "mean stall", "p99", "max", f"share, a save each {INTERVAL:.0f} s",
        "between saves",
    )  # fmt: skip
    found = {}
    met = True
    for name in (each for each in TRAININGS if only in each):
        for kind in ("waiting", "asynchronous"):
            with TemporaryDirectory(dir=Path.cwd()) as directory:
                one = found[f"{name}, {kind}"] = in_own_process(
                    "save_cost:measure",
                    training=name,
                    asynchronous=kind == "asynchronous",
                    saves=saves,
                    directory=directory,
                )
            stalls = np.array(one["stalls"])
            share = float(stalls.mean() / (INTERVAL + stalls.mean()))
            met &= share <= TARGET
            color = "green" if share <= TARGET else "red"
            table.add_row(
                name, kind, f"{one['bytes'] / 1e6:.1f} MB", f"{np.mean(one['written']) / 1e6:.1f} MB",
                *(f"{each * 1e3:.0f} ms" for each in (stalls.mean(), np.quantile(stalls, 0.99), stalls.max())),
                f"[{color}]{share:.2%}[/{color}] (target {TARGET:.0%})", f"{np.median(one['between']):.2f} s",
            )  # fmt: skip
    Console(width=150).print(table)
    write_report(json_file, {"benchmark": "save_cost", "measured": found, "target": TARGET, "met": met})
    if not met:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
