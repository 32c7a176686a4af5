"""Longer trainings in ranks: memory, curricula, many kills, a rank that hangs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rank_training import PPO, SAC, torchrun, train_both, written

from rlcore import load_checkpoint

pytestmark = [pytest.mark.distributed, pytest.mark.deep, pytest.mark.xdist_group("ranks")]

UNEVEN = PPO.replace("num_envs: 4", "num_envs: 3").replace("buffer_size: 256", "buffer_size: 250")
MEMORY = UNEVEN.replace("normalize: true}", "normalize: true, memory: {memory_size: 16, sequence_length: 8}}")
SAC_MEMORY = SAC.replace("normalize: true}", "normalize: true, memory: {memory_size: 16, sequence_length: 8}}")
CURRICULUM = (
    PPO.replace("max_steps: 2560", "max_steps: 6144").replace("num_envs: 4", "num_envs: 3")
    + """
environment_parameters:
  g:
    curriculum:
      - name: Light
        value: {sampler_type: uniform, sampler_parameters: {min_value: 5.0, max_value: 8.0}}
        completion_criteria: {behavior: Pendulum, measure: reward, threshold: -5000, min_lesson_length: 4}
      - name: Middle
        value: {sampler_type: uniform, sampler_parameters: {min_value: 8.0, max_value: 9.0}}
        completion_criteria: {behavior: Pendulum, measure: reward, threshold: -5000, min_lesson_length: 5}
      - name: Full
        value: 10.0
"""
)


THREE = UNEVEN.replace("num_envs: 3", "num_envs: 4") + "evaluation: {interval: 1000, episodes: 3}\n"
ALONE = UNEVEN.replace("normalize: true", "normalize: false")  # each of three ranks has one environment
WORKERS = PPO.replace("num_envs: 4", "num_envs: 5, workers: 2").replace("max_steps: 2560", "max_steps: 2700")


@pytest.fixture(scope="module")
def deep_trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    configs = {
        "uneven": UNEVEN,
        "memory": MEMORY,
        "sac-memory": SAC_MEMORY,
        "curriculum": CURRICULUM,
        "workers": WORKERS,
    }
    return train_both(tmp_path_factory.mktemp("deep"), configs)


@pytest.fixture(scope="module")
def three_trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_both(tmp_path_factory.mktemp("three"), {"three": THREE, "alone": ALONE}, ranks=3)


@pytest.mark.parametrize("name", ["uneven", "memory", "sac-memory", "curriculum", "workers"])
def test_ranks_learn_what_one_process_learns(deep_trained: Path, name: str) -> None:
    require_equal(deep_trained, name, 2)


@pytest.mark.parametrize("name", ["three", "alone"])
def test_three_ranks_learn_what_one_process_learns(three_trained: Path, name: str) -> None:
    require_equal(three_trained, name, 3)


def test_evaluations_of_ranks_are_those_of_one_process(three_trained: Path) -> None:
    places = [three_trained / kind / "results" / "three" / "result.json" for kind in ("one", "two")]
    one, two = (json.loads(place.read_text())["evaluation"] for place in places)
    assert one["score"] == pytest.approx(two["score"], abs=1.0)
    assert one["step"] == two["step"]


def test_more_workers_than_environments_of_a_rank_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ppo.yaml").write_text(PPO.replace("num_envs: 4", "num_envs: 4, workers: 3"))
    ended = torchrun(["-m", "rlcore", "run", "ppo.yaml"], tmp_path)
    assert ended.returncode != 0
    assert "this process starts 3 workers for 2 of the 4 environments" in ended.stderr


def require_equal(trained: Path, name: str, size: int) -> None:
    one = written(trained / "one", name, "one")["weights Pendulum"]
    ranks = [written(trained / "two", name, rank)["weights Pendulum"] for rank in range(size)]
    assert len(one) >= 10
    for rank in ranks[1:]:
        assert ranks[0].tobytes() == rank.tobytes()
    np.testing.assert_allclose(ranks[0], one, rtol=0, atol=1e-6)


def test_lessons_change_at_the_step_of_one_process(deep_trained: Path) -> None:
    places = [deep_trained / kind / "results" / "curriculum" / "checkpoints" for kind in ("one", "two")]
    steps = sorted(int(path.name) for path in places[0].iterdir() if path.name.isdecimal())
    assert steps == sorted(int(path.name) for path in places[1].iterdir() if path.name.isdecimal())
    for step in steps:
        one, two = (load_checkpoint(place / str(step))["run"]["curricula"] for place in places)
        np.testing.assert_equal(one["feed"], two["feed"])


def test_a_rank_that_hangs_ends_the_run_with_a_message_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "ppo.yaml").write_text(PPO.replace("max_steps: 2560", "max_steps: 10000000"))
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "rlcore", "run",
        "ppo.yaml", "--run-id", "hung", "--set", "torch_settings.rank_timeout=5",
    ]  # fmt: skip
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    job = subprocess.Popen(
        command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        wait_for(tmp_path / "results" / "hung" / "metrics.jsonl")
        stopped = rank_of(job.pid, 1)
        os.kill(stopped, signal.SIGSTOP)
        began = time.monotonic()
        _, errors = job.communicate(timeout=300)
        seconds = time.monotonic() - began
    finally:
        job.kill()
    assert job.returncode != 0
    assert "error: rank 0: rank 1 did not answer for 5 seconds" in errors
    assert seconds < 120  # torchrun waits 30 seconds for the stopped process


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 240
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} was not written"
        time.sleep(0.1)


def rank_of(job: int, rank: int) -> int:
    """The process of ``rank`` among the children of torchrun."""
    for child in Path(f"/proc/{job}/task/{job}/children").read_text().split():
        variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        if f"RANK={rank}".encode() in variables:
            return int(child)
    raise AssertionError(f"torchrun has no rank {rank}")
