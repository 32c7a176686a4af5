"""SAC's gradient steps with a number of threads that is chosen by measuring: results equal those of one thread."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.conformance.trainer import learn
from rlcore_devkit.environments import identity_hybrid
from rlcore_sac.trainer import SACTrainer
from rlcore_torch import GradientStep, TransitionBatch, cpu

MakeTrainer = Callable[..., SACTrainer]
Step = Callable[[TransitionBatch], GradientStep]


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cpu.LIMIT, raising=False)
    monkeypatch.setattr(cpu, "cores", lambda: 2)


def test_a_gradient_step_that_is_only_compared_leaves_no_trace(make_trainer: MakeTrainer) -> None:
    environment = identity_hybrid(4)
    trainer = make_trainer(environment)
    learn(trainer, environment, 60)
    batch = trainer.reader.read(trainer.buffer.sample(32, trainer.generator))
    before = copied(trainer.state_dict())
    outcome = trainer.outcome(batch, 1)
    assert_equal(copied(trainer.state_dict()), before)
    trainer.gradient_step(batch)
    weights = [parameter.detach().numpy() for parameter in trainer.model.parameters()]
    assert_equal(outcome[: len(weights)], weights)
    assert any((one != other).any() for one, other in zip(weights, before["model"].values(), strict=True))


@pytest.mark.usefixtures("two_cores")
def test_a_training_equals_one_with_a_single_thread(make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measured times are those of a machine on which two threads win every trial."""
    clock = 0.0

    def seconds() -> float:
        nonlocal clock
        clock += 1.0 / torch.get_num_threads()
        return clock

    monkeypatch.setattr(cpu, "perf_counter", seconds)
    found, used = [], set[int]()
    for chosen in (1, None):
        environment = identity_hybrid(4)
        trainer = make_trainer(environment, torch_settings={"num_threads": chosen})
        step = trainer.gradient_step

        def counted(batch: TransitionBatch, step: Step = step) -> GradientStep:
            used.add(torch.get_num_threads())
            return step(batch)

        monkeypatch.setattr(trainer, "gradient_step", counted)
        stats = learn(trainer, environment, 80)
        found.append({"state": copied(trainer.state_dict()), "stats": stats})
        assert used == ({1} if chosen else {1, 2})
    assert_equal(found[0], found[1])


@pytest.mark.usefixtures("two_cores")
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
    environment = identity_hybrid(4)
    trainer = make_trainer(environment)
    assert isinstance(trainer, CountingSAC)
    learn(trainer, environment, 60)
    assert 0 < trainer.count == trainer.gradient_steps
