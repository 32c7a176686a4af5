# mypy: allow-untyped-calls
"""Trainers of recorded data: their states, what they learn, and whole runs. test_conformance.py has the rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlcore import (
    Actions,
    AgentBatch,
    ConfigError,
    Environment,
    Recording,
    Run,
    load_checkpoint,
)
from rlcore_devkit.conformance.recordings import record
from rlcore_devkit.conformance.states import assert_equal
from rlcore_devkit.conformance.trainer import first_batch
from rlcore_devkit.environments import TinyCorridor, identity_continuous, identity_hybrid, identity_multi_branch
from rlcore_devkit.fixtures import RunRlcore

MakeTrainer = Callable[..., Any]
NAMES = pytest.mark.parametrize("name", ["bc", "iql"])
ENVIRONMENTS: dict[str, Callable[[], Environment]] = {
    "continuous": lambda: identity_continuous(3, "Agent"),
    "branches": lambda: identity_multi_branch(3, "Agent"),
    "hybrid": lambda: identity_hybrid(3, "Agent"),
    "masked": lambda: TinyCorridor(3, "Agent", masked=True),
}


# ---------------------------------------------------------------- settings and states


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


@pytest.fixture
def configured(tmp_path: Path, recorded: Callable[..., str], wandering: Recording) -> Callable[..., dict[str, Any]]:
    """``configured("iql", environment=..., max_steps=20)``: a configuration of the corridor's recording."""
    path = recorded(wandering)

    def make(name: str, *, start: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
        behavior = {key: changes.pop(key) for key in ("max_steps", "checkpoint_interval") if key in changes}
        return {
            "plugins": {"local": ["rlcore_devkit.hooks"]},
            "env_settings": {"seed": 3},
            "behaviors": {
                "Agent": {
                    "trainer_type": name,
                    "hyperparameters": {"demo_path": path, "batch_size": 32},
                    "network_settings": {"hidden_units": 8, "num_layers": 1, "normalize": True},
                    "max_steps": 20,
                    "summary_freq": 10,
                    "checkpoint_interval": 10,
                    **behavior,
                }
            },
            "checkpoint_settings": {"run_id": name, "results_dir": str(tmp_path / "results"), **(start or {})},
            "stats": {"console": False},
            **changes,
        }

    return make


CORRIDOR = {"type": "testing", "id": "corridor"}


@NAMES
def test_a_run_learns_from_a_recording_without_any_environment(
    configured: Any, run_rlcore: RunRlcore, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(configured(name)))
    done = run_rlcore("run", file)
    assert (done.exit_code, done.stderr) == (0, "")
    directory = tmp_path / "results" / name
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [10, 20]
    assert all("Losses/Policy Loss" in line["stats"] for line in lines)
    assert json.loads((directory / "result.json").read_text())["outcome"] == "done"
    refused = run_rlcore("evaluate", directory, "--episodes", "3")
    assert refused.exit_code == 2 and "environment: missing" in refused.stderr


@NAMES
def test_an_environment_for_evaluation_measures_what_is_learned(
    configured: Any, run_rlcore: RunRlcore, tmp_path: Path, name: str
) -> None:
    config = configured(name, environment=CORRIDOR, evaluation={"interval": 10, "episodes": 4})
    with Run(config) as run:
        run.train()
        assert len(run.evaluate(episodes=5).behaviors["Agent"].returns) == 5
        assert run.scores.step is not None
    done = run_rlcore("evaluate", tmp_path / "results" / name, "--episodes", "3", "--json", "--allow-local")
    assert done.exit_code == 0 and json.loads(done.stdout)


@NAMES
def test_a_resumed_run_ends_like_one_that_was_never_stopped(configured: Any, tmp_path: Path, name: str) -> None:
    Run(configured(name, start={"run_id": "whole"}, max_steps=40)).train()
    Run(configured(name, start={"run_id": "parts"}, max_steps=20)).train()
    Run(configured(name, start={"run_id": "parts", "resume": True}, max_steps=40)).train()
    whole, parts = (
        load_checkpoint(tmp_path / "results" / run_id / "checkpoints" / "40") for run_id in ("whole", "parts")
    )
    for each in (whole, parts):
        del each["run"]["wall_seconds"]
    assert_equal(whole, parts)


def test_a_behavior_that_was_not_recorded_is_told_which_were(configured: Any) -> None:
    config = configured("bc")
    config["behaviors"]["Agnet"] = config["behaviors"].pop("Agent")
    with pytest.raises(ConfigError, match=r"it contains no recording of behavior 'Agnet'; its recordings are: .*Ag"):
        Run(config).train()


def test_an_environment_of_other_agents_is_refused(configured: Any) -> None:
    environment = {"type": "testing", "id": "corridor", "options": {"length": 9}}
    config = configured("bc", environment=environment, evaluation={"interval": 10})
    with pytest.raises(ConfigError, match=r"observation 'position' is \[9\] real numbers instead of \[6\]"):
        Run(config).train()
