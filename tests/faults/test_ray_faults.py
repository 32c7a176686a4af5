"""Ray workers whose hosts are lost, and runs that are interrupted: nothing is counted twice, and nothing is left."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from ray_jobs import assert_equal_runs, begin, ended, last_state, prepare, processes_of, rlcore, runs, wait_until
from ray_nodes import Nodes, nodes

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.faults,
    pytest.mark.xdist_group("ray"),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed"),
]
HERE = Path(__file__).parent


@pytest.mark.deep
@pytest.mark.parametrize("kills", [10])
def test_hosts_that_are_lost_cost_only_their_open_episodes(tmp_path: Path, kills: int) -> None:
    """The child checks every row of every step, so an episode that was counted twice would end it."""
    command = [sys.executable, str(HERE / "ray_cluster_child.py"), str(tmp_path), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    # Two of the nodes are killed in turn, and each has the worker of two environments.
    assert len(found["aborts"]) == kills
    assert all(len(each) == 2 and each[1] == each[0] + 1 for each in found["aborts"])
    assert found["stats"]["Environment/Worker Restarts"] == kills
    assert found["stats"]["Environment/Aborted Episodes"] == 2 * kills


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param(lambda child: os.killpg(child.pid, signal.SIGINT), 130, id="ctrl-c"),
        pytest.param(lambda child: child.terminate(), 143, id="terminated", marks=pytest.mark.deep),
        pytest.param(
            lambda child: os.killpg(child.pid, signal.SIGTERM), 143, id="all terminated", marks=pytest.mark.deep
        ),
        pytest.param(lambda child: child.kill(), -signal.SIGKILL, id="killed", marks=pytest.mark.deep),
    ],
)
def test_a_command_that_is_interrupted_leaves_no_process(
    tmp_path: Path, end: Callable[[subprocess.Popen[str]], None], code: int
) -> None:
    workers = {"executor": "ray", "count": 2}
    config = {
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
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1)])
def test_a_killed_run_resumes_exactly_on_a_cluster_of_another_size(tmp_path: Path, before: int, after: int) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for place in (whole, killed):
        prepare(place)
    rlcore(whole, "run", "config.yaml")

    def workers(count: int, cluster: Nodes) -> tuple[str, str]:
        return "--set", f"environment.workers={{executor: ray, count: {count}, address: '{cluster.address}'}}"

    (killed / "hold-run").touch()
    with nodes(before) as cluster:
        job = begin(killed, "run", "config.yaml", *workers(before, cluster))
        wait_until(lambda: (killed / "saved-run").exists() or job.poll() is not None, "no checkpoint")
        job.kill()
        job.communicate()
    (killed / "hold-run").unlink()
    assert last_state(killed / "results/run")[0] == 1280
    with nodes(after) as cluster:
        output = rlcore(killed, "run", "config.yaml", "--resume", *workers(after, cluster))
    assert "resumed at step 1280" in output
    assert_equal_runs(killed / "results/run", whole / "results/run")
