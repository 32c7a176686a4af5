"""``rlcore torchrun`` ends with the exit code of its ranks and one line, and its ranks do not outlive it for long."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlcore import python_command

pytestmark = [pytest.mark.distributed, pytest.mark.faults, pytest.mark.xdist_group("ranks")]

CONFIG = """
environment: {id: CartPole-v1, num_envs: 4}
behaviors:
  CartPole: {trainer_type: ppo, max_steps: 10000000, summary_freq: 2000, checkpoint_interval: 4000}
checkpoint_settings: {run_id: run}
"""
PATIENCE = 600.0  # for a machine on which trainings run


def begin(where: Path, *arguments: str) -> subprocess.Popen[bytes]:
    (where / "run.yaml").write_text(CONFIG)
    command = python_command("-m", "rlcore", "torchrun", "--nproc-per-node", "2", "run.yaml", *arguments)
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (where / "log").open("wb") as log:
        return subprocess.Popen(command, cwd=where, env=environ, stdout=log, stderr=log, start_new_session=True)


def wait_until_saved(where: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not list(where.glob("results/run/checkpoints/[0-9]*/*")):
        assert time.monotonic() < deadline, (where / "log").read_text()
        time.sleep(0.05)


def result(where: Path) -> Any:
    return json.loads((where / "results/run/result.json").read_text())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_saves_and_has_its_exit_code(tmp_path: Path, name: str, code: int) -> None:
    job = begin(tmp_path)
    try:
        wait_until_saved(tmp_path)
        job.send_signal(getattr(signal, name))
        assert job.wait(PATIENCE) == code
    finally:
        job.kill()
    said = (tmp_path / "log").read_text()
    assert said.splitlines()[-1].startswith("interrupted: "), said
    assert "Traceback" not in said and "error:" not in said
    assert result(tmp_path)["outcome"] == "interrupted"
    again = begin(tmp_path, "--resume", "--set", f"behaviors.CartPole.max_steps={steps_of(tmp_path) + 2000}")
    assert again.wait(PATIENCE) == 0, (tmp_path / "log").read_text()
    assert result(tmp_path)["outcome"] == "done"


def steps_of(where: Path) -> int:
    return int(result(where)["behaviors"]["CartPole"]["steps"])


def test_an_error_of_the_ranks_has_their_exit_code_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "results/run").mkdir(parents=True)
    (tmp_path / "results/run/notes").write_text("of a user")
    job = begin(tmp_path)
    assert job.wait(PATIENCE) == 5
    said = (tmp_path / "log").read_text()
    assert said.count("error: rank 0: results/run: ") == 1
    assert said.splitlines()[-1].startswith("error: rank 0 on ")
    assert "ended (exit code 5)" in said.splitlines()[-1]
    assert "Traceback" not in said and "FAILED" not in said


def test_ranks_save_and_end_after_the_command_was_killed(tmp_path: Path) -> None:
    job = begin(tmp_path)
    wait_until_saved(tmp_path)
    job.kill()
    job.wait()
    deadline = time.monotonic() + PATIENCE
    while not (tmp_path / "results/run/result.json").exists():
        assert time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.05)
    stop = result(tmp_path)["stop"]
    assert stop["exit_code"] == 143
    assert stop["reason"].startswith(f"torchrun, process {job.pid} on ")
