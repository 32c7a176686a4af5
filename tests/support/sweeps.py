"""Sweeps of trainings in numpy, started as a user starts them, killed on the way, and what their directories have."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from rlcore import find_checkpoints, read_checkpoint

PLUGIN = Path(__file__).parents[2] / "plugins/study/tests/sweep/target_plugin.py"
RATE = "behaviors.Agent.hyperparameters.rate"
NOISE = "behaviors.Agent.hyperparameters.noise"
SPACE: Mapping[str, Any] = {RATE: {"low": 0.05, "high": 2.0, "log": True}, NOISE: {"low": 0.0, "high": 0.1}}


def configuration(sweep: Mapping[str, Any], seconds: float = 0.0, kind: str = "forgetful") -> dict[str, Any]:
    """Trials of 600 steps with 6 evaluations, and checkpoints at each 50 steps."""
    behavior = {"trainer_type": "mover", "max_steps": 600, "summary_freq": 200, "checkpoint_interval": 50}
    return {
        "environment": {"type": kind, "num_envs": 2, "options": {"seconds": seconds}},
        "behaviors": {"Agent": behavior},
        "evaluation": {"interval": 100, "episodes": 2},
        "plugins": {"autoload": False, "enable": ["sweep", "study"], "local": [str(PLUGIN)]},
        "sweep": {"parameters": dict(SPACE), **sweep},
    }


@attrs.frozen
class Place:
    """A directory with ``config.yaml``, in which commands run."""

    directory: Path

    def write(self, configuration: Mapping[str, Any]) -> None:
        (self.directory / "config.yaml").write_text(json.dumps(configuration))

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "rlcore", "sweep", "config.yaml", "--run-id", "s", *words],
            cwd=self.directory, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def sweep(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        output, errors = process.communicate(timeout=300)
        assert process.returncode == code, output + errors
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    @property
    def results(self) -> Path:
        return self.directory / "results/s"

    def trial(self, number: int) -> dict[str, Any]:
        """The record of a trial."""
        found: dict[str, Any] = json.loads((self.results / f"trial-{number:04d}/trial.json").read_text())
        return found

    def state(self) -> dict[str, Any]:
        """The record of every trial, what its runs have learned, and the best file; bit for bit."""
        found: dict[str, Any] = {"best": (self.results / "best.yaml").read_text()}
        for place in sorted(self.results.glob("trial-*")):
            found[place.name] = json.loads((place / "trial.json").read_text())
            for run in sorted(
                each for each in place.iterdir() if each.is_dir() and not each.name.endswith(".replaced")
            ):
                if found[place.name]["state"] == "complete":
                    found[f"{place.name}/{run.name}"] = repr(read_checkpoint(run).trainers)
        return found

    def children(self) -> list[int]:
        """The processes of the runs of trials."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = (place / "cmdline").read_bytes().split(b"\0")
                here = Path(os.readlink(place / "cwd")) == self.directory
            except OSError:
                continue
            if here and b"rlcore_study.child" in words:
                found.append(int(place.name))
        return found

    def ended(self) -> int:
        """How many trials have ended."""
        count = 0
        for record in self.results.glob("trial-*/trial.json"):
            count += "state" in json.loads(record.read_text())
        return count

    def saves(self) -> list[Path]:
        """Checkpoints that are being written."""
        return [*self.results.glob("trial-*/*/checkpoints/.rlcore-tmp-*")]

    def last_step(self, number: int, run: str = "seed-1") -> int:
        return max((each.step for each in find_checkpoints(self.run(number, run) / "checkpoints")), default=0)

    def run(self, number: int, run: str = "seed-1") -> Path:
        return self.results / f"trial-{number:04d}" / run

    def close(self) -> None:
        for process in self.children():
            os.kill(process, signal.SIGKILL)


def wait_until(true: Callable[[], Any], seconds: float = 120.0, every: float = 0.01) -> Any:
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(every)
    return found
