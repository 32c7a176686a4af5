"""Studies of short trainings in numpy, started as a user starts them, and what their runs have learned."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from rlcore import Tag, find_checkpoints, read_checkpoint

STUBS = Path(__file__).parents[2] / "core/tests/run/stub_plugin.py"


@attrs.frozen
class Study:
    """Commands in a directory with ``run.yaml``: 4000 steps, checkpoints at each 100, about 1 s of waiting."""

    directory: Path

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "rlcore", "run", "run.yaml", *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.words(*words), cwd=self.directory, capture_output=True, text=True, timeout=120)

    def run_without_file(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [word for word in self.words(*words) if word != "run.yaml"]
        return subprocess.run(command, cwd=self.directory, capture_output=True, text=True, timeout=120)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command as a terminal does: in a group of its own, in which Ctrl-C has its usual effect."""
        return subprocess.Popen(
            self.words(*words), cwd=self.directory, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip

    def place(self, run: str) -> Path:
        return self.directory / "results" / run

    def wait_for_checkpoint(self, run: str, after: int = 0) -> None:
        """Wait until a run that is going on has a checkpoint of a step above ``after``."""
        wait_until(lambda: self.last_step(run) > after)

    def last_step(self, run: str) -> int:
        return max((each.step for each in find_checkpoints(self.place(run) / "checkpoints")), default=0)

    def outcome(self, run: str) -> str:
        return str(json.loads((self.place(run) / "result.json").read_text())["outcome"])

    def state(self, run: str) -> Any:
        """Everything that a run has learned and written, without what depends on the clock."""
        lines = [json.loads(line) for line in (self.place(run) / "metrics.jsonl").read_text().splitlines()]
        for line in lines:
            del line["time"], line["stats"][Tag.STEPS_PER_SECOND]
        return lines, plain(read_checkpoint(self.place(run)).trainers)

    def children(self, run: str) -> list[int]:
        """The processes of a run."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = (place / "cmdline").read_bytes().split(b"\0")
                here = Path(os.readlink(place / "cwd")) == self.directory
            except OSError:
                continue
            if here and b"rlcore_study.child" in words and run.encode() in words:
                found.append(int(place.name))
        return found


def wait_until(true: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def plain(value: Any) -> Any:
    """Arrays as bytes, so that states are compared bit for bit."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def study_in(directory: Path) -> Iterator[Study]:
    """A study in ``directory``, none of whose processes is left at the end."""
    config = {
        "environment": {"type": "corridor", "num_envs": 2, "options": {"seconds": 0.0005}},
        "behaviors": {
            "Agent": {"trainer_type": "numpy", "max_steps": 4000, "summary_freq": 500, "checkpoint_interval": 100}
        },
        "checkpoint_settings": {"run_id": "s"},
        "plugins": {"autoload": False, "local": [str(STUBS)]},
    }
    (directory / "run.yaml").write_text(json.dumps(config))
    found = Study(directory)
    yield found
    for run in directory.glob("results/*"):
        for process in found.children(run.name):
            os.kill(process, signal.SIGKILL)
