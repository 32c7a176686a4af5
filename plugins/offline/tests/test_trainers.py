# mypy: allow-untyped-calls
"""Trainers of recorded data: their states, what they learn, and whole runs. test_conformance.py has the rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import (
    Actions,
    AgentBatch,
    Environment,
    Recording,
    Run,
    load_checkpoint,
)
from rlcore_devkit.conformance.recordings import record
from rlcore_devkit.conformance.states import assert_equal
from rlcore_devkit.conformance.trainer import first_batch
from rlcore_devkit.environments import TinyCorridor
from rlcore_devkit.fixtures import RunRlcore

MakeTrainer = Callable[..., Any]

# ---------------------------------------------------------------- what they learn


def mostly_left(environment: Environment) -> Callable[[AgentBatch], Actions]:
    """Two steps of three lead away from the reward."""
    generator = np.random.default_rng(5)
    slots = environment.num_envs
    return lambda _: Actions(discrete=(generator.random((slots, 1)) < 1 / 3).astype(np.int64))


@pytest.fixture(scope="module")
def wandering() -> Recording:
    environment = TinyCorridor(8, "Agent", max_steps=50)
    return record(environment, 400, mostly_left(environment))


def returns_of(policy: Any, episodes: int = 30) -> list[float]:
    """The returns of a policy in the corridor, each beside the best possible one."""
    environment = TinyCorridor(episodes, "Agent")
    batch = first_batch(environment)
    best = 1.0 - 0.01 * (environment.length - 2 - environment.position)
    total, going = np.zeros(episodes), np.ones(episodes, np.bool_)
    while going.any():
        batch = environment.step({"Agent": policy.act(batch.observations)})["Agent"]
        total += np.where(going, batch.reward, 0.0)
        going[batch.ended] = False
    return (total - best).tolist()


@pytest.mark.learning
def test_iql_finds_the_best_way_in_recordings_of_aimless_walks_and_bc_walks_like_them(
    make_trainer: MakeTrainer, wandering: Recording
) -> None:
    settings = {"learning_rate": 3e-3, "expectile": 0.9, "inverse_temperature": 30.0, "tau": 0.05}
    reached = {}
    for name, hyperparameters in (("iql", settings), ("bc", {"learning_rate": 3e-3})):
        block = {"reward_signals": {"extrinsic": {"gamma": 0.9}}}
        trainer = make_trainer(name, wandering, block=block, batch_size=128, **hyperparameters)
        for _ in range(600):
            trainer.update()
        reached[name] = returns_of(trainer.policy)
    assert min(reached["iql"]) > -1e-6, "not the shortest way"
    assert np.mean(reached["bc"]) < -0.5, "two steps of three lead away"


# ---------------------------------------------------------------- whole runs


@pytest.mark.parametrize("name", ["bc", "iql"])
def test_a_run_learns_from_a_recording_is_measured_and_goes_on_as_if_never_stopped(
    write: Any, wandering: Recording, run_rlcore: RunRlcore, tmp_path: Path, name: str
) -> None:
    def train(run_id: str, max_steps: int, **changes: Any) -> Path:
        block = {
            "trainer_type": name,
            "hyperparameters": {"demo_path": str(tmp_path / "recordings"), "batch_size": 32},
            "network_settings": {"hidden_units": 8, "num_layers": 1, "normalize": True},
            "max_steps": max_steps, "summary_freq": 10, "checkpoint_interval": 10,
        }  # fmt: skip
        config = {
            "plugins": {"local": ["rlcore_devkit.hooks"]},
            "env_settings": {"seed": 3},
            "environment": {"type": "testing", "id": "corridor"},
            "evaluation": {"interval": 10, "episodes": 4},
            "behaviors": {"Agent": block},
            "checkpoint_settings": {"run_id": run_id, "results_dir": str(tmp_path), **changes},
            "stats": {"console": False},
        }
        with Run(config) as run:
            run.train()
            assert len(run.evaluate(episodes=5).behaviors["Agent"].returns) == 5
            assert run.scores.step is not None
        return tmp_path / run_id

    write("recordings/Agent", wandering)
    whole = train("whole", 40)
    train("parts", 20)
    parts = train("parts", 40, resume=True)
    states = [load_checkpoint(directory / "checkpoints/40") for directory in (whole, parts)]
    for state in states:
        del state["run"]["wall_seconds"]
    assert_equal(*states)
    lines = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [10, 20, 30, 40]
    assert all("Losses/Policy Loss" in line["stats"] for line in lines)
    assert json.loads((whole / "result.json").read_text())["outcome"] == "done"
    done = run_rlcore("evaluate", whole, "--episodes", "3", "--json", "--allow-local")
    assert done.exit_code == 0 and json.loads(done.stdout)
