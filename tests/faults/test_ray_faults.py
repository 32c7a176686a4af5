"""Ray workers whose hosts are lost, and runs that are interrupted: nothing is counted twice, and nothing is left."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from ray_jobs import assert_equal_runs, begin, ended, last_state, prepare, processes_of, rlcore, runs, wait_until
from ray_nodes import nodes

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.faults,
    pytest.mark.xdist_group("ray"),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed"),
]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param(lambda child: os.killpg(child.pid, signal.SIGINT), 130, id="ctrl-c"),
        pytest.param(lambda child: child.terminate(), 143, id="terminated", marks=pytest.mark.deep),
        pytest.param(lambda child: child.kill(), -signal.SIGKILL, id="killed", marks=pytest.mark.deep),
    ],
)
def test_a_command_that_is_interrupted_leaves_no_process(
    tmp_path: Path, end: Callable[[subprocess.Popen[str]], None], code: int
) -> None:
    workers = {"executor": "ray", "count": 2}
    config = {
        "preset": "none",
        "environment": {"type": "gymnasium", "id": "Pendulum-v1", "num_envs": 4, "workers": workers},
        "behaviors": {"A": {"trainer_type": "ppo", "max_steps": 10**7, "summary_freq": 400}},
        "checkpoint_settings": {"run_id": "run"},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    child = begin(tmp_path, "run", "config.yaml")
    assert child.stdout is not None
    for line in child.stdout:
        if "Step:" in line:
            break
    started = processes_of(child)
    assert sum("PartActor" in each.name() for each in started) == 2
    end(child)
    output = ended(child)
    assert child.returncode == code, output
    if code > 0:
        result = json.loads((tmp_path / "results/run/result.json").read_text())
        assert result["outcome"] == "interrupted" and result["behaviors"]["A"]["steps"] > 0
    wait_until(lambda: not any(map(runs, started)), "processes are left")


@pytest.mark.deep
def test_a_killed_run_resumes_exactly_on_a_cluster_of_another_size(tmp_path: Path) -> None:
    before = 2
    after = 3
    whole = tmp_path / "whole"
    killed = tmp_path / "killed"
    for place in (whole, killed):
        prepare(place)
    rlcore(whole, "run", "config.yaml")

    def workers(count: int, address: str) -> tuple[str, str]:
        return "--set", f"environment.workers={{executor: ray, count: {count}, address: '{address}'}}"

    (killed / "hold-run").touch()
    with nodes(before) as address:
        job = begin(killed, "run", "config.yaml", *workers(before, address))
        wait_until(lambda: (killed / "saved-run").exists() or job.poll() is not None, "no checkpoint")
        job.kill()
        job.communicate()
    (killed / "hold-run").unlink()
    assert last_state(killed / "results/run")[0] == 1280
    with nodes(after) as address:
        output = rlcore(killed, "run", "config.yaml", "--resume", *workers(after, address))
    assert "resumed at step 1280" in output
    assert_equal_runs(killed / "results/run", whole / "results/run")


@pytest.mark.deep
def test_actors_on_ray_play_for_a_run_and_a_killed_one_comes_back(tmp_path: Path) -> None:
    workers = {"executor": "actors", "count": 2, "local": 0, "listen": "127.0.0.1:0"}
    config = {
        "preset": "none",
        "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 4, "workers": workers},
        "behaviors": {"A": {"trainer_type": "appo", "max_steps": 40_000, "summary_freq": 4000}},
        "checkpoint_settings": {"run_id": "run"},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    learner = begin(tmp_path, "run", "config.yaml")
    assert learner.stdout is not None
    place = re.search(r"rlcore actor (\S+) --token-file (\S+)", learner.stdout.readline())
    assert place is not None
    players = begin(tmp_path, "ray", "actors", "--count", "2", place[1], "--token-file", place[2])
    for line in learner.stdout:
        if "Step:" in line:
            break
    playing = [each for each in processes_of(players) if place[1] in each.cmdline() and not each.children()]
    assert len(playing) == 2
    playing[0].kill()
    output = ended(learner)
    assert learner.returncode == 0 and " failed: its connection ended" in output, output
    output = ended(players)
    assert players.returncode == 0 and output.count("it is started again") == 1, output
