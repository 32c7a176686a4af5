# mypy: allow-untyped-calls
"""Trainers of recorded data: their states, what they learn, and whole runs. test_conformance.py has the rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import (
    Actions,
    AgentBatch,
    Environment,
    EpisodeSeeds,
    ProcessGenerators,
    Recording,
    Run,
)
from rlcore_devkit.conformance.loop import first_batch
from rlcore_devkit.conformance.recordings import record
from rlcore_devkit.environments import TinyCorridor

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
    total = np.zeros(episodes)
    going = np.ones(episodes, np.bool_)
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


def test_a_run_without_an_environment_seeds_the_generators_of_its_process(
    tmp_path: Path, write: Callable[..., Path], wandering: Recording
) -> None:
    demonstrations = write("recordings/Agent", wandering).parent
    saved = []
    for process in (1, 2):
        ProcessGenerators.seed(EpisodeSeeds(process))  # what a process has when it starts is another state each time
        settings = {
            "trainer_type": "bc",
            "hyperparameters": {"demo_path": str(demonstrations), "batch_size": 64},
            "max_steps": 5,
        }
        with Run(
            {
                "behaviors": {"Agent": settings},
                "env_settings": {"seed": 3},
                "checkpoint_settings": {"run_id": f"run-{process}", "results_dir": str(tmp_path)},
            }
        ) as run:
            run.train()
        saved.append(ProcessGenerators.state_dict())
    np.testing.assert_equal(saved[0], saved[1])
