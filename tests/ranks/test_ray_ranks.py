"""Ranks that Ray starts learn what ranks of torchrun learn, also after one was killed, and are local to the host."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from ray_jobs import (
    assert_equal_runs,
    begin,
    ended,
    last_state,
    listening,
    prepare,
    processes_of,
    rlcore,
    wait_until,
    wait_until_gone,
)

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.xdist_group("ranks"),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed"),
]
RANKS = ("ray", "ranks", "--count", "2")


def test_a_rank_that_is_killed_is_started_again_and_learns_what_ranks_of_torchrun_learn(
    trained: Path, tmp_path: Path
) -> None:
    prepare(tmp_path)
    (tmp_path / "kill-run").write_text("once\n")
    hold = tmp_path / "hold-run"
    hold.touch()
    job = begin(tmp_path, *RANKS, "--max-restarts", "1", "config.yaml")
    wait_until(lambda: (tmp_path / "saved-run").exists() or job.poll() is not None, "no checkpoint")
    started = processes_of(job)
    addresses = listening(started)
    hold.unlink()
    output = ended(job)
    assert job.returncode == 0, output
    assert addresses == {"127.0.0.1"}
    assert "2 ranks: 0 to 1 on " in output
    assert "rank 0 ended (signal 9); all ranks start again (restarts left: 0)" in output
    again = output[output.index("resumed at step 1280") :]
    assert "resume       exact\n" in again and "done: 2560 steps" in again
    step, state = last_state(tmp_path / "results" / "run")
    expected, whole = last_state(trained / "two" / "results" / "ppo")
    assert step == expected
    np.testing.assert_equal(state["Pendulum"], whole["Pendulum"])
    wait_until_gone(started)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 138), (signal.SIGKILL, -9)],
)
def test_ranks_end_with_the_command_and_resume_exactly_and_a_signal_that_can_be_caught_saves_a_checkpoint(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    whole = tmp_path / "whole"
    stopped = tmp_path / "stopped"
    for place in (whole, stopped):
        prepare(place)
    rlcore(whole, *RANKS, "config.yaml")
    (stopped / "hold-run").touch()
    job = begin(stopped, *RANKS, "config.yaml")
    wait_until((stopped / "saved-run").exists, "no checkpoint")
    started = processes_of(job)
    os.killpg(job.pid, number) if number == signal.SIGINT else job.send_signal(number)
    if number == signal.SIGKILL:
        job.wait()
        wait_until_gone(started)  # while the ranks are held: no one tells them to go on
    (stopped / "hold-run").unlink()
    output = ended(job)
    assert job.returncode == code, output
    assert ("interrupted: " in output) == (number != signal.SIGKILL)
    wait_until_gone(started)
    rlcore(stopped, *RANKS, "config.yaml", "--resume")
    assert_equal_runs(stopped / "results" / "run", whole / "results" / "run")


@pytest.mark.deep
def test_mistakes_end_the_command_with_the_message_and_the_code_of_rlcore(tmp_path: Path) -> None:
    prepare(tmp_path)
    output = rlcore(tmp_path, *RANKS, "--max-restarts", "3", "config.yaml", "--set", "behaviors.P=1", code=2)
    assert output.count("the file has no behavior 'P'") == 1
    assert "start again" not in output
    output = rlcore(tmp_path, *RANKS, "--gpus", "1", "--wait", "2", "config.yaml", code=3)
    place = "the cluster has no room for 2 ranks of 1 CPU, 1 GPU, one of them on this host"
    assert f"{place}: 2 of 2 CPU, 0 of 0 GPU is free, also after 2 s (--wait)" in output
