"""Two threads may compute gradient steps of exactly DQN; a class that overrides a method takes its own steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rlcore_dqn.trainer
from rlcore_devkit.environments import IdentityEnvironment
from rlcore_dqn.threads import THREADS
from rlcore_dqn.trainer import DQNTrainer
from rlcore_torch import backend, template
from rlcore_torch.acceleration import update_threads

MakeTrainer = Callable[..., DQNTrainer]
OVERRIDDEN = (DQNTrainer.gradient_step, DQNTrainer.learn, DQNTrainer.losses, DQNTrainer.descend)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(update_threads.LIMIT, raising=False)
    monkeypatch.setattr(update_threads, "cores", lambda: 2)
    monkeypatch.setattr(template, "choose_backend", backend.choose_backend)  # also under pytest --plain-torch


def made(make_trainer: MakeTrainer) -> DQNTrainer:
    environment = IdentityEnvironment(2, continuous=0, discrete=(3,))
    return make_trainer(environment, torch_settings={"fast_cpu": True, "num_threads": None})


def test_threads_are_chosen_for_dqn_itself(make_trainer: MakeTrainer) -> None:
    assert "gradient_step" in vars(made(make_trainer))


@pytest.mark.parametrize("method", OVERRIDDEN, ids=lambda method: str(method.__name__))
def test_threads_are_chosen_for_no_class_that_overrides_a_method(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, method: Callable[..., Any]
) -> None:
    def override(self: Any, *arguments: Any, **options: Any) -> Any:
        return method(self, *arguments, **options)

    kind = type("Overriding", (DQNTrainer,), {method.__name__: override})
    monkeypatch.setattr(rlcore_dqn.trainer, "DQNTrainer", kind)
    assert method in THREADS.methods
    trainer = made(make_trainer)
    assert type(trainer) is kind and "gradient_step" not in vars(trainer)
