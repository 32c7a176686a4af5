"""Games of tests/support/godot_project in Godot itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import yaml

from rlcore import Actions, Environment, EnvironmentFailed, EpisodeSeeds
from rlcore_devkit.conformance.states import copied
from rlcore_devkit.playing import play

Make = Callable[..., Environment]
Game = dict[str, str]


def test_an_agent_in_the_engine_reaches_its_target(godot: Game, make: Make) -> None:
    """Each agent walks straight to its target: every episode terminates there, where the reward is at least 1."""
    reach = make("--world=reach", "--agents=3", **godot, num_envs=2)
    batch = reach.reset(EpisodeSeeds(1), np.zeros(2, np.int64))["reach"]
    assert reach.behaviors["reach"].env_index.tolist() == [0, 0, 0, 1, 1, 1]
    distances = ended = 0
    for _ in range(60):
        towards = batch.observations["obs"]
        before = np.hypot(*towards.T)
        batch = reach.step({"reach": Actions(np.clip(towards * 10, -1, 1))})["reach"]
        assert not batch.truncated.any()
        after = np.hypot(*batch.observations["obs"].T)
        running = ~batch.terminated
        np.testing.assert_allclose(batch.reward[running], (before - after)[running], atol=1e-4)
        distances += int(running.sum())
        if batch.ended.size:
            ended += len(batch.ended)
            assert batch.final_observations is not None and batch.final_info is not None
            assert (np.hypot(*batch.final_observations["obs"].T) < 0.1).all()
            assert (batch.reward[batch.ended] >= 1).all()
            assert (batch.final_info["is_success"] == 1).all()
    assert ended > 3 and distances > 3


def test_an_agent_that_stands_still_is_cut_off_at_the_limit(godot: Game, make: Make) -> None:
    reach = make("--world=reach", "--agents=1", **godot)
    first = reach.reset(EpisodeSeeds(1), np.zeros(1, np.int64))["reach"].observations["obs"].copy()
    for decision in range(1, 41):
        batch = reach.step({"reach": Actions(np.zeros((1, 2), np.float32))})["reach"]
        assert batch.truncated.tolist() == [decision == 40] and not batch.terminated.any()
    assert batch.final_observations is not None
    np.testing.assert_allclose(batch.final_observations["obs"], first, atol=1e-6)
    assert abs(batch.observations["obs"] - first).max() > 1e-3


def test_a_repeatable_game_plays_equal_episodes_after_equal_seeds(godot: Game, make: Make) -> None:
    pole = make("--world=pole", "--agents=2", **godot, repeatable=True)
    first, second, other = (
        [copied(batches)["pole"].observations["obs"] for batches in play(pole, 30, run_seed=seed)] for seed in (1, 1, 2)
    )
    assert all((ours == theirs).all() for ours, theirs in zip(first, second, strict=True))
    assert not (first[0] == other[0]).all()


@pytest.mark.parametrize(
    ("fault", "message"),
    [("freeze", "sent no answer within 1.5 s"), ("exit", "was killed by SIGKILL|ended with exit code")],
)
def test_an_engine_that_fails_is_one_message_with_its_last_lines(
    godot: Game, make: Make, fault: str, message: str
) -> None:
    limits = {"max_lifetime_restarts": 0}
    pole = make("--world=pole", f"--fault={fault}", "--at=3", **godot, timeout=1.5, limits=limits)
    with pytest.raises(EnvironmentFailed, match=message) as caught:
        list(play(pole, 10))
    assert f"the fault {fault} begins" in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="the end of a process is noticed at once on Linux")
def test_an_engine_ends_with_a_run_that_is_killed(godot: Game, tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "environment": {"type": "godot", "args": ["--world=pole"], **godot},
        "behaviors": {"pole": {"trainer_type": "ppo"}},
    }
    (tmp_path / "pole.yaml").write_text(yaml.safe_dump(config))
    run = subprocess.Popen([sys.executable, "-m", "rlcore", "run", "pole.yaml"], cwd=tmp_path)
    engine = _engine_of(run.pid)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert psutil.wait_procs([engine], 10)[1] == []


def _engine_of(pid: int) -> psutil.Process:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for each in psutil.Process(pid).children(recursive=True):
            if "--fixed-fps" in each.cmdline():
                return each
        time.sleep(0.1)
    raise AssertionError("no engine was started")
