"""The cost of checkpoints: how long the training waits for each save, and the share of the time with a save a minute.

PPO with networks of 1M parameters, and full replay buffers that are saved: of SAC with 17 observations and 6 actions,
which takes a gradient step for every step of its 64 environments, with the spaces of Hopper (11 and 3), also with
priorities, and of DQN with the spaces of Pong (84 x 84 x 4 bytes). A stall is the time in which the training waits for
a save: ending episodes, copying, writing, flushing, reading back, deleting the oldest. The directory is on the disk of
the results, not in memory. Between two saves is the time of the whole training, with the work of the writing thread.

Then the seconds from SIGTERM to the end of `rlcore run` with a full replay buffer of 1 GiB: without an earlier
checkpoint, where all of it is written, and with some, which have most of it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import click
import numpy as np
import yaml
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, MeasurementFailed, environment_with_threads, in_own_process, write_report

from rlcore import Actions, BehaviorSpec, EnvironmentSpec, ObservationSpec, Run, hookimpl, load_plugins
from rlcore.run.checkpoints import Checkpoints
from rlcore_devkit.environments import ArrayEnvironment

INTERVAL = 60.0  # seconds between two saves that the share is computed for
TARGET = 0.05  # share of the time
COPIES = 64
FRAMES = 4
# Observations and actions by the name of the spaces; images are stacks of frames.
SPACES: dict[str, dict[str, Any]] = {
    "robot": {"shape": (17,), "continuous": 6},
    "Hopper": {"shape": (11,), "continuous": 3},
    "Pong": {"shape": (84, 84, FRAMES), "discrete": (6,)},
    "wide": {"shape": (255,), "continuous": 6},
}
ROWS_OF_1_GIB = 1_023_000  # of the spaces "wide", 1049 bytes each
SELDOM = 64 * COPIES  # environment steps for each gradient step, where only what a save takes is asked
PPO = {
    "trainer_type": "ppo",
    "hyperparameters": {"batch_size": 1024, "buffer_size": 8192, "num_epoch": 1},
    "network_settings": {"hidden_units": 690, "num_layers": 2},
}


def off_policy(trainer: str, rows: int, per_update: int = COPIES, **hyperparameters: Any) -> dict[str, Any]:
    """A trainer with networks of 2 x 256 units that learns when its buffer of ``rows`` is full, and saves it."""
    stored = {"buffer_size": rows, "buffer_init_steps": rows, "save_replay_buffer": True}
    return {
        "trainer_type": trainer,
        "hyperparameters": {"batch_size": 256, "steps_per_update": per_update, **stored, **hyperparameters},
        "network_settings": {"hidden_units": 256, "num_layers": 2},
    }


FEW = COPIES * 256  # agent steps between two saves
MANY = COPIES * 1600  # about as many as a training of a million steps has by default; all of the smaller buffers
# Spaces, behavior and steps between two saves by the name of the training.
TRAININGS: dict[str, tuple[str, dict[str, Any], int]] = {
    "PPO, 1M parameters": ("robot", PPO, FEW),
    "SAC, 100,000 transitions": ("robot", off_policy("sac", 100_000), FEW),
    "SAC, 1,000,000 transitions": ("robot", off_policy("sac", 1_000_000), FEW),
    "SAC, 1,000,000 of Hopper": ("Hopper", off_policy("sac", 1_000_000, SELDOM), MANY),
    "SAC, 1,000,000 of Hopper, prioritized": (
        "Hopper",
        off_policy("sac", 1_000_000, SELDOM, replay_sampler={"type": "prioritized"}),
        MANY,
    ),
    "DQN, 100,000 of Pong": ("Pong", off_policy("dqn", 100_000, SELDOM), MANY),
}


class Noise(ArrayEnvironment):
    """Observations are noise in the spaces that the option ``spaces`` names, and an episode takes 200 steps."""

    def __init__(self, settings: Any, run: Any) -> None:
        spaces = SPACES[settings.options["spaces"]]
        shape = spaces["shape"]
        images = len(shape) == 3
        kind = {"kind": "image", "frames": FRAMES} if images else {}
        observations = (ObservationSpec("observation", shape, np.uint8 if images else np.float32, **kind),)
        actions = spaces.get("continuous", 0)
        limit = np.ones(actions, np.float32)
        discrete = spaces.get("discrete", ())
        (name,) = run.behavior_names
        copies = np.arange(run.num_envs)
        super().__init__(BehaviorSpec(name, observations, actions, discrete, low=-limit, high=limit, env_index=copies))
        self._generator = np.random.default_rng(0)
        self._stack = np.zeros((run.num_envs, *shape), np.uint8) if images else None

    def begin(self, env: int, generator: np.random.Generator) -> None:
        """Every episode is alike."""

    def advance(self, actions: Actions) -> tuple[NDArray[Any], NDArray[Any]]:
        if self._stack is not None:
            frame = self._generator.integers(256, size=(*self._stack.shape[:3], 1), dtype=np.uint8)
            self._stack = np.concatenate([self._stack[..., 1:], frame], -1)
        return np.ones(self.num_envs, np.float32), self._steps >= 200

    def observe(self) -> dict[str, NDArray[Any]]:
        if self._stack is not None:
            return {"observation": self._stack.copy()}
        (observation,) = self.behaviors.values()
        shape = (self.num_envs, *observation.observations[0].shape)
        return {"observation": self._generator.standard_normal(shape, np.float32)}


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    """This file is a local plugin."""
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
    plugins.register(sys.modules[__name__], "noise")
    spaces, block, interval = TRAININGS[training]
    full = block["hyperparameters"]["buffer_size"] * 11 // 10
    full = -(-full // interval) * interval
    behavior = {"max_steps": full + (saves + 1) * interval, "checkpoint_interval": interval, "summary_freq": 10**9}
    config = {
        "environment": {"type": "noise", "num_envs": COPIES, "options": {"spaces": spaces}},
        "behaviors": {"Agent": block | behavior},
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


def measure_stop(earlier: bool, directory: Path) -> dict[str, float]:
    """Seconds from SIGTERM to the end of a run with a full replay buffer of 1 GiB, and bytes of its last checkpoint.

    ``earlier``: whether the run has checkpoints with the full buffer by then. Written are the bytes that they lack.
    """
    block = off_policy("sac", ROWS_OF_1_GIB)
    block["hyperparameters"]["buffer_init_steps"] = 10**9  # the buffer is filled, and nothing learned
    interval = ROWS_OF_1_GIB // 8 if earlier else 10**9
    config = {
        "environment": {"type": "noise", "num_envs": COPIES, "options": {"spaces": "wide"}},
        "behaviors": {
            "Agent": block | {"max_steps": 10**9, "checkpoint_interval": interval, "summary_freq": ROWS_OF_1_GIB // 8}
        },
        "checkpoint_settings": {"run_id": "stopped", "results_dir": str(directory)},
        "plugins": {"local": [str(Path(__file__).resolve())]},
        "stats": {"console": False},
    }
    file = directory / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    run = directory / "stopped"
    with (directory / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "rlcore", "run", str(file)],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**environment_with_threads(1), "PYTHONPATH": str(Path(__file__).resolve().parent)},
        )
        while process.poll() is None and not is_full(run / "metrics.jsonl"):
            sleep(0.2)
        begun = perf_counter()
        process.send_signal(signal.SIGTERM)
        process.wait()
        seconds = perf_counter() - begun
    if process.returncode != 128 + signal.SIGTERM:
        raise MeasurementFailed(f"the run ended with status {process.returncode}\n{(directory / 'stderr').read_text()}")
    last = max((run / "checkpoints").glob("[0-9]*"), key=lambda path: int(path.name))
    sizes = [file.stat() for file in last.iterdir()]
    written = sum(each.st_size for each in sizes if each.st_nlink == 1)
    return {"seconds": seconds, "bytes": sum(each.st_size for each in sizes), "written": written}


def is_full(metrics: Path) -> bool:
    """Whether a run has taken a quarter more steps than its buffer has rows: the last checkpoints are whole then."""
    lines = metrics.read_text().splitlines() if metrics.exists() else []
    return bool(lines) and json.loads(lines[-1])["step"] >= ROWS_OF_1_GIB * 5 // 4


@click.command(help=__doc__)
@click.option("--saves", default=100, show_default=True, type=click.IntRange(2), help="Saves of each training.")
@click.option("--only", default="", help="Measure the trainings whose name contains this text.")
@click.option("--stop/--no-stop", default=True, show_default=True, help="Measure SIGTERM with 1 GiB too.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(saves: int, only: str, stop: bool, json_file: Path | None) -> None:
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
    console = Console(width=150)
    console.print(table)
    stops = {}
    for what, earlier in (("no earlier checkpoint", False), ("earlier checkpoints", True)) if stop else ():
        with TemporaryDirectory(dir=Path.cwd()) as directory:
            one_stop = stops[what] = measure_stop(earlier, Path(directory))
        console.print(
            f"SIGTERM with a replay buffer of 1 GiB and {what}: {one_stop['seconds']:.1f} s to the end of the run, "
            f"{one_stop['written'] / 1e6:.0f} of {one_stop['bytes'] / 1e6:.0f} MB written"
        )
    write_report(json_file, {"benchmark": "save_cost", "measured": found, "stops": stops, "target": TARGET, "met": met})
    if not met:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
