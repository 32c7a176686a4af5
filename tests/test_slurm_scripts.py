"""The batch scripts of the page "Slurm and Kubernetes", run as they are by a stand-in for Slurm that requeues them."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import fake_slurm
import pytest
import yaml
from pages import BLOCKS

from rlcore import find_checkpoints, load_checkpoint
from rlcore_devkit import assert_equal

pytestmark = [pytest.mark.faults, pytest.mark.long]

SCRIPTS = {
    block.title: block.text for block in BLOCKS if block.language == "bash" and block.page.endswith("clusters.md")
}
STEPS = 4096  # with 3 requeues
MANY = 20  # requeues, of a run that is as much longer, with --deep


def write(place: Path, script: str, steps: int = STEPS) -> None:
    """Write what the scripts of the page name: ``walker.yaml`` and ``sweep.yaml``."""
    (place / script).write_text(SCRIPTS[script])
    behavior = {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 64, "buffer_size": 256, "num_epoch": 2},
        "network_settings": {"hidden_units": 16, "num_layers": 1},
        "max_steps": steps,
        "summary_freq": 256,
        "checkpoint_interval": 1024,
    }
    config: dict[str, Any] = {
        "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 4},
        "env_settings": {"seed": 7},
        "behaviors": {"CartPole": behavior},
        "checkpoint_settings": {"run_id": "walker"},
        "stats": {"tensorboard": False},
    }
    (place / "walker.yaml").write_text(yaml.safe_dump(config))
    search = {
        "parameters": {"behaviors.CartPole.hyperparameters.learning_rate": {"choices": [0.001, 0.003]}},
        "trials": 2,
        "jobs": 2,
    }
    config["checkpoint_settings"] = {"run_id": "search"}
    config["sweep"] = {**search, "sampler": "grid", "metric": "reward"}
    (place / "sweep.yaml").write_text(yaml.safe_dump(config))


def submit(place: Path, script: str, steps: int, **scales: Any) -> dict[str, Any]:
    """Submit a script once; return the records of its jobs when they have ended."""
    place.mkdir()
    write(place, script, steps)
    environ = fake_slurm.install(place / "slurm", **scales)
    done = subprocess.run(["sbatch", script], cwd=place, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Submitted batch job ")
    return fake_slurm.wait(place / "slurm", 1500 if steps == STEPS else 10_000)


def learned(run: Path) -> Any:
    newest = find_checkpoints(run / "checkpoints")[-1]
    return load_checkpoint(newest.path)["CartPole"]


# Script, what the clock of an attempt waits for, the runs.
CASES = {
    "train.sh": ("results/walker/metrics.jsonl", ["walker"]),
    "seeds.sh": ("results/walker-seed-{task}/metrics.jsonl", [f"walker-seed-{seed}" for seed in range(1, 6)]),
    "sweep.sh": ("results/search/trial-*/seed-7/metrics.jsonl", [f"search/trial-{n:04}/seed-7" for n in (0, 1)]),
    "ranks.sh": ("results/walker/metrics.jsonl", ["walker"]),
}


@pytest.mark.timeout(20_000)
@pytest.mark.parametrize("script", CASES)
def test_a_script_of_the_page_is_submitted_once_requeued_and_equal_in_the_end(
    tmp_path: Path, script: str, deep: bool
) -> None:
    clock, runs = CASES[script]
    requeues = MANY if deep else 3
    steps = STEPS * requeues // 3
    # A tenth of a second of training in an attempt, so that a fast machine does not finish before the last requeue.
    scales = {"limit": 40.0, "notice": 39.9, "kill_wait": 40.0, "clock": clock, "attempts": requeues + 1}
    jobs = submit(tmp_path / "stopped", script, steps, **scales)
    assert {job["state"] for job in jobs.values()} == {"COMPLETED"}
    attempts = [job["attempts"] for job in jobs.values()]
    assert all(each[-1]["code"] == 0 for each in attempts)
    # All that were requeued had saved: no other code puts a job back into the queue.
    stops = [attempt["step"] for each in attempts for attempt in each[:-1]]
    assert stops and set(stops) == {128 + signal.SIGUSR1}
    if deep:
        assert [len(each) - 1 for each in attempts] == [requeues] * len(jobs)
    whole = submit(tmp_path / "whole", script, steps)
    assert all(len(job["attempts"]) == 1 and job["code"] == 0 for job in whole.values())
    for run in runs:
        assert_equal(learned(tmp_path / "stopped" / "results" / run), learned(tmp_path / "whole" / "results" / run))


def test_a_wrong_configuration_is_not_requeued(tmp_path: Path) -> None:
    place = tmp_path / "wrong"
    place.mkdir()
    write(place, "train.sh")
    (place / "walker.yaml").write_text("behaviors: {CartPole: {max_stpes: 5}}\n")
    environ = fake_slurm.install(place / "slurm")
    subprocess.run(["sbatch", "train.sh"], cwd=place, env=environ, check=True, capture_output=True)
    (job,) = fake_slurm.wait(place / "slurm", 300).values()
    assert job["state"] == "FAILED" and job["code"] == 2 and len(job["attempts"]) == 1
    (log,) = place.glob("walker-*.log")
    assert "did you mean 'max_steps'" in log.read_text()
