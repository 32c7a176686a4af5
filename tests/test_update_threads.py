"""Gradient steps with a number of threads that is chosen by measuring: results equal those of one thread."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from rlcore import Environment
from rlcore_devkit import SmallTrainings
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.environments import identity_continuous, identity_discrete, identity_hybrid
from rlcore_sac.by_hand import THREADS
from rlcore_sac.trainer import SACTrainer
from rlcore_torch import GradientStep, TransitionBatch, backend, template
from rlcore_torch.acceleration import update_threads

MakeTrainer = Callable[..., Any]
Step = Callable[..., GradientStep]
ENVIRONMENTS: Mapping[str, Callable[[int], Environment]] = {
    "sac": identity_hybrid, "td3": identity_continuous, "dqn": identity_discrete
}  # fmt: skip
HYPERPARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "sac": {},
    "td3": {"buffer_init_steps": 0, "actor_delay": 3},
    "dqn": {"replay_sampler": {"type": "prioritized"}, "target_update_interval": 5, "dueling": True},
}
SMALL = {"batch_size": 32, "buffer_size": 4096, "learning_rate": 3e-3}


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(update_threads.LIMIT, raising=False)
    monkeypatch.setattr(update_threads, "cores", lambda: 2)
    monkeypatch.setattr(template, "choose_backend", backend.choose_backend)  # also under pytest --plain-torch


@pytest.fixture
def make_trainer(tmp_path: Path) -> MakeTrainer:
    def make(name: str, threads: int | None) -> Any:
        trainings = SmallTrainings(name, tmp_path, {**SMALL, **HYPERPARAMETERS[name]}, {"hidden_units": 32})
        return trainings.trainer(ENVIRONMENTS[name](4), torch_settings={"num_threads": threads})

    return make


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_gradient_step_that_is_only_compared_leaves_no_trace(make_trainer: MakeTrainer, name: str) -> None:
    trainer = make_trainer(name, None)
    learn(trainer, ENVIRONMENTS[name](4), 20)
    sampler = trainer.sampler.sample(trainer.buffer, 32, trainer.generator, 0.0)
    batch = trainer.reader.read(sampler.rows, sampler.weight)
    before = copied(trainer.state_dict())
    outcome = update_threads.outcome(trainer, trainer.gradient_step, batch, 1)
    assert_equal(copied(trainer.state_dict()), before)
    step = trainer.gradient_step(batch)
    weights = [parameter.detach().numpy() for parameter in trainer.model.parameters()]
    assert_equal(outcome[: len(weights)], weights)
    assert any((one != other).any() for one, other in zip(weights, before["model"].values(), strict=False))
    assert (step.td_error is not None) == (name == "dqn")
    errors = [found for found in outcome if step.td_error is not None and found.shape == (32,)]
    assert not errors or any((found == step.td_error.detach().numpy()).all() for found in errors)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_training_equals_one_with_a_single_thread(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The measured times are those of a machine on which two threads win every trial."""
    clock = 0.0

    def seconds() -> float:
        nonlocal clock
        clock += 1.0 / torch.get_num_threads()
        return clock

    monkeypatch.setattr(update_threads, "perf_counter", seconds)
    found = []
    used = list[int]()
    for chosen in (1, None):
        used.clear()
        trainer = make_trainer(name, chosen)
        step = trainer.learn

        def counted(*given: Any, step: Step = step) -> GradientStep:
            used.append(torch.get_num_threads())
            return step(*given)

        monkeypatch.setattr(trainer, "learn", counted)
        stats = learn(trainer, ENVIRONMENTS[name](4), 50)
        found.append({"state": copied(trainer.state_dict()), "stats": stats})
        assert set(used) == ({1} if chosen else {1, 2})
    assert used[-1] == 2  # it was chosen
    assert_equal(found[0], found[1])


def test_gradient_steps_of_a_derived_trainer_are_not_compared(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comparison undoes what SAC's steps change, and not what a class derived from it adds to them."""

    class CountingSAC(SACTrainer):
        count = 0

        def gradient_step(self, batch: TransitionBatch) -> GradientStep:
            self.count += 1
            return super().gradient_step(batch)

    monkeypatch.setattr("rlcore_sac.trainer.SACTrainer", CountingSAC)
    trainer = make_trainer("sac", None)
    assert isinstance(trainer, CountingSAC) and SACTrainer.gradient_step in THREADS.methods
    learn(trainer, identity_hybrid(4), 30)
    assert 0 < trainer.count == trainer.gradient_steps
