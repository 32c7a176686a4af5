# mypy: allow-untyped-calls
"""Trainers of recorded data: their states, what they learn, and whole runs. test_conformance.py has the rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from rlcore import (
    Actions,
    AgentBatch,
    ConfigError,
    ConfigErrors,
    Environment,
    Recording,
    Run,
    RunStateError,
    config_from_mapping,
    hookimpl,
    load_checkpoint,
    load_plugins,
    save_checkpoint,
)
from rlcore_devkit.conformance.recordings import record
from rlcore_devkit.conformance.states import assert_equal, check_storable, copied
from rlcore_devkit.conformance.trainer import first_batch
from rlcore_devkit.environments import TinyCorridor, identity_continuous, identity_hybrid, identity_multi_branch
from rlcore_devkit.fixtures import RunRlcore
from rlcore_torch import OptimizerSpec

MakeTrainer = Callable[..., Any]
NAMES = pytest.mark.parametrize("name", ["bc", "iql"])
ENVIRONMENTS: dict[str, Callable[[], Environment]] = {
    "continuous": lambda: identity_continuous(3, "Agent"),
    "branches": lambda: identity_multi_branch(3, "Agent"),
    "hybrid": lambda: identity_hybrid(3, "Agent"),
    "masked": lambda: TinyCorridor(3, "Agent", masked=True),
}
LEARNING = {"learning_rate": 3e-3, "learning_rate_schedule": "linear"}


# ---------------------------------------------------------------- settings and states


@pytest.mark.smoke
@NAMES
def test_a_trainer_without_a_recording_is_refused(name: str) -> None:
    block: dict[str, Any] = {"trainer_type": name, "hyperparameters": {}}
    with pytest.raises(ConfigErrors, match="demo_path"):
        config_from_mapping({"behaviors": {"Agent": block}}, load_plugins())


@NAMES
@pytest.mark.parametrize("kind", ENVIRONMENTS)
def test_a_trainer_goes_on_from_its_state_as_if_never_stopped(
    make_trainer: MakeTrainer, tmp_path: Path, name: str, kind: str
) -> None:
    recording = record(ENVIRONMENTS[kind](), 40)
    block = {"max_steps": 20, "network_settings": {"hidden_units": 8, "num_layers": 1, "normalize": True}}
    trainer, resumed = (make_trainer(name, recording, block=block, seed=seed, **LEARNING) for seed in (1, 2))
    for _ in range(5):
        trainer.update()
    state = copied(trainer.state_dict())
    check_storable(state)
    resumed.load_state_dict(load_checkpoint(save_checkpoint(tmp_path, 1, {"trainer": state}))["trainer"])
    assert_equal(state, resumed.state_dict(), "load_state_dict does not restore what state_dict gave")
    for _ in range(5):
        assert_equal(trainer.update(), resumed.update())
    assert_equal(trainer.state_dict(), resumed.state_dict())


def momentum(parameters: list[Any], learning_rate: float, settings: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=learning_rate, momentum=0.9)


class Optimizers:
    @hookimpl
    def rlcore_optimizers(self) -> list[OptimizerSpec]:
        settings = "rlcore_torch:OptimizerSettings"
        return [OptimizerSpec(name="momentum", target=f"{__name__}:momentum", settings=settings)]


@NAMES
def test_a_trainer_goes_on_with_the_optimizer_of_a_plugin(make_trainer: MakeTrainer, name: str) -> None:
    recording, plugins = record(ENVIRONMENTS["hybrid"](), 40), load_plugins()
    plugins.register(Optimizers(), "optimizers")
    more = {**LEARNING, "optimizer": {"type": "momentum"}}
    trainer, resumed = (make_trainer(name, recording, plugins=plugins, seed=seed, **more) for seed in (1, 2))
    for _ in range(5):
        trainer.update()
    resumed.load_state_dict(copied(trainer.state_dict()))
    for _ in range(5):
        assert_equal(trainer.update(), resumed.update())
    assert_equal(trainer.state_dict(), resumed.state_dict())
    for optimizer in trainer.state_dict()["optimizers"].values():
        assert optimizer["type"] == "momentum" and optimizer["parameters"]["0"].keys() == {"momentum_buffer"}


@NAMES
@pytest.mark.parametrize("group", ["model", "optimizers", "generators", "steps"])
def test_without_any_part_of_its_state_a_trainer_would_go_on_otherwise(
    make_trainer: MakeTrainer, name: str, group: str
) -> None:
    """Proves that the test above can fail."""
    recording = record(ENVIRONMENTS["hybrid"](), 40)
    block = {"max_steps": 20}
    trainer, resumed = (make_trainer(name, recording, block=block, seed=seed, **LEARNING) for seed in (1, 2))
    fresh = copied(resumed.state_dict())
    for _ in range(5):
        trainer.update()
    resumed.load_state_dict(copied(trainer.state_dict()) | {group: fresh[group]})
    trainer.update()
    resumed.update()
    with pytest.raises(AssertionError):
        assert_equal(trainer.state_dict()["model"], resumed.state_dict()["model"])


@pytest.mark.parametrize("optimizer", ["policy", "value", "critic_0", "critic_1"])
def test_each_optimizer_of_iql_matters_to_its_state(make_trainer: MakeTrainer, optimizer: str) -> None:
    recording = record(ENVIRONMENTS["hybrid"](), 40)
    trainer, resumed = (make_trainer("iql", recording, **LEARNING) for _ in range(2))
    fresh = copied(resumed.state_dict())
    for _ in range(5):
        trainer.update()
    state = copied(trainer.state_dict())
    state["optimizers"][optimizer] = fresh["optimizers"][optimizer]
    resumed.load_state_dict(state)
    trainer.update()
    resumed.update()
    with pytest.raises(AssertionError):
        assert_equal(trainer.state_dict()["model"], resumed.state_dict()["model"])


@NAMES
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(make_trainer: MakeTrainer, name: str) -> None:
    recording, longer = record(TinyCorridor(2, "Agent"), 60), record(TinyCorridor(2, "Agent"), 80)
    trainer = make_trainer(name, recording)
    before = copied(trainer.state_dict())
    for other, told in (
        (make_trainer(name, record(TinyCorridor(2, "Agent", length=8), 60)), "does not fit"),
        (
            make_trainer(name, longer),
            f"learned from {longer.transitions} recorded transitions, .* resume with the same",
        ),
        (make_trainer({"bc": "iql", "iql": "bc"}[name], recording), "does not fit|has optimizers"),
    ):
        with pytest.raises(RunStateError, match=told):
            trainer.load_state_dict(other.state_dict())
        assert_equal(before, trainer.state_dict(), "a refused state changed the trainer")


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


@NAMES
@pytest.mark.parametrize("kind", ["continuous", pytest.param("hybrid", marks=pytest.mark.learning)])
def test_what_good_agents_did_is_learned(make_trainer: MakeTrainer, name: str, kind: str) -> None:
    environment = ENVIRONMENTS[kind]()

    def expert(batch: AgentBatch) -> Actions:
        seen = batch.observations
        return Actions(seen["reals"].copy(), seen["choices"].argmax(1)[:, None] if "choices" in seen else None)

    trainer = make_trainer(name, record(environment, 200, expert), learning_rate=3e-3)
    for _ in range(600):
        trainer.update()
    batch, rewards = first_batch(environment, seed=99), []
    for _ in range(50):
        batch = environment.step({"Agent": trainer.policy.act(batch.observations)})["Agent"]
        rewards.append(batch.reward.mean())
    assert np.mean(rewards) > 0.98


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


@NAMES
def test_a_recording_that_is_not_there_is_told_before_anything_is_made(
    configured: Any, run_rlcore: RunRlcore, tmp_path: Path, name: str
) -> None:
    config = configured(name)
    config["behaviors"]["Agent"]["hyperparameters"]["demo_path"] += "x"
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    refused = run_rlcore("run", file)
    assert refused.exit_code == 2 and "no such path or name" in refused.stderr
    assert not (tmp_path / "results" / name).exists()


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
