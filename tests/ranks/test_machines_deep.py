"""Ranks on two machines, imitated by two ``torchrun`` on addresses of this one; they share no files."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from rank_training import PPO, torchrun

from rlcore import load_checkpoint

pytestmark = [pytest.mark.distributed, pytest.mark.deep, pytest.mark.xdist_group("ranks")]

LONG = ["--set", "behaviors.Pendulum.max_steps=25600"]
# Without the variable, PyTorch 2.13 does not let a new machine join after one was lost.
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


class Machines:
    """Two directories with the same configuration, and what runs in them."""

    def __init__(self, where: Path) -> None:
        self.places = [where / "first", where / "second"]
        for place in self.places:
            place.mkdir()
            (place / "ppo.yaml").write_text(f"checkpoint_settings: {{run_id: ppo}}\n{PPO}")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.started: list[subprocess.Popen[str]] = []

    @property
    def checkpoints(self) -> Path:
        return self.places[0] / "results" / "ppo" / "checkpoints"

    def start(self, machine: int, *arguments: str) -> subprocess.Popen[str]:
        """Start ``torchrun`` on a machine. The first holds the store in which both find each other."""
        command = [
            sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1",
            "--max-restarts", "3", "--local-addr", f"127.0.0.{machine + 1}", "--rdzv-id", "job",
            "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{self.port}",
            "--rdzv-conf", f"is_host={int(machine == 0)},keep_alive_interval=2,keep_alive_max_attempt=2",
            "-m", "rlcore", "run", "ppo.yaml", *arguments,
        ]  # fmt: skip
        log = (self.places[machine] / f"{len(self.started)}.log").open("w")
        environ = {**os.environ, "OMP_NUM_THREADS": "1", **OWN_STORE}
        job = subprocess.Popen(command, cwd=self.places[machine], env=environ, stdout=log, stderr=log, text=True)
        self.started.append(job)
        return job

    def logs(self) -> str:
        return "\n".join(log.read_text() for place in self.places for log in sorted(place.glob("*.log")))


@contextmanager
def machines(where: Path) -> Iterator[Machines]:
    made = Machines(where)
    try:
        yield made
    finally:
        for job in made.started:
            lose(job)


def lose(job: subprocess.Popen[str]) -> None:
    """End ``torchrun`` and its ranks as a machine that fails does."""
    if job.poll() is not None:
        return
    for process in [*psutil.Process(job.pid).children(recursive=True), psutil.Process(job.pid)]:
        process.kill()
    job.wait(60)


def trained_here(where: Path, last: int, *arguments: str) -> Any:
    """The last checkpoint of ranks on one machine."""
    (where / "ppo.yaml").write_text(f"checkpoint_settings: {{run_id: ppo}}\n{PPO}")
    ended = torchrun(["-m", "rlcore", "run", "ppo.yaml", *arguments], where)
    assert ended.returncode == 0, ended.stderr
    return load_checkpoint(where / "results" / "ppo" / "checkpoints" / str(last))


def test_a_machine_that_is_lost_and_replaced_costs_the_time_since_the_last_checkpoint(tmp_path: Path) -> None:
    whole = trained_here(tmp_path, 25600, *LONG)
    with machines(tmp_path) as two:
        first = two.start(0, *LONG)
        second = two.start(1, *LONG)
        deadline = time.monotonic() + 240
        while not any(int(path.name) >= 2560 for path in two.checkpoints.glob("[0-9]*") if path.name.isdecimal()):
            assert time.monotonic() < deadline, two.logs()
            time.sleep(0.05)
        lose(second)
        third = two.start(1, *LONG)
        assert first.wait(300) == 0, two.logs()
        assert third.wait(300) == 0, two.logs()
        assert "rank 1 ended" in two.logs()
        assert "resumed at step" in two.logs()
        assert not (two.places[1] / "results").exists()  # rank 0 alone writes
        np.testing.assert_equal(load_checkpoint(two.checkpoints / "25600")["Pendulum"], whole["Pendulum"])
