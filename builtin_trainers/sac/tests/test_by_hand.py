"""SAC's gradients written by hand equal those of autograd, and step aside for what they are not written for."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from methods_that_run import methods_that_run
from overriding_classes import assert_learns_the_same_without, changed
from torch import Tensor

import rlcore_sac.trainer
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.environments import IdentityEnvironment
from rlcore_sac.by_hand import GRADIENTS, THREADS
from rlcore_sac.trainer import SACTrainer, SoftActorCritic
from rlcore_torch import TransitionBatch
from rlcore_torch.acceleration.registry import has_methods

MakeTrainer = Callable[..., SACTrainer]


def gradients_by_hand(trainer: SACTrainer) -> Callable[..., Any] | None:
    made = GRADIENTS.make(trainer)
    return None if made is None else made[SACTrainer.gradients]


def ready(make_trainer: MakeTrainer, **arguments: Any) -> tuple[SACTrainer, TransitionBatch]:
    """A trainer after some gradient steps, and a minibatch in which the two critics take turns as the smaller one."""
    environment = IdentityEnvironment(2, continuous=3, discrete=())
    trainer = make_trainer(environment, **arguments)
    learn(trainer, environment, 60)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    batch = trainer.reader.read(trainer.buffer.sample(32, trainer.generator))
    with torch.no_grad():
        one, two = trainer.model.q_values(trainer.model.critics, batch.inputs, batch.raw)
        trainer.model.critics[0].head.bias -= (one - two).mean()
    return trainer, batch


def results(trainer: SACTrainer, gradients: Callable[..., Any], batch: TransitionBatch, noise: Any) -> list[Tensor]:
    for parameter in trainer.model.parameters():
        parameter.grad = None
    found = gradients(batch, noise)
    kept = [each.grad.clone() for each in trainer.model.parameters() if each.grad is not None]
    losses = [found.policy_loss, found.critic_loss.total, *found.critic_loss.q_losses, found.critic_loss.q_values]
    return [*kept, *losses, found.drawn.action.detach(), found.drawn.log_prob.detach()]


@pytest.mark.parametrize("activation", ["relu", "tanh", "swish"])
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_gradients_and_losses_are_those_of_autograd(make_trainer: MakeTrainer, activation: str, layers: int) -> None:
    trainer, batch = ready(make_trainer, network={"activation": activation, "num_layers": layers, "hidden_units": 24})
    by_hand = gradients_by_hand(trainer)
    assert by_hand is not None
    noise = trainer.step_noise(batch)
    q = trainer.model.q_values(trainer.model.critics, batch.inputs, batch.raw)
    assert 0 < int((q[0] <= q[1]).sum()) < 32
    plain = results(trainer, lambda *given: SACTrainer.gradients(trainer, *given), batch, noise)
    for _ in range(2):  # nothing of the first call is left in the second
        ours = results(trainer, by_hand, batch, noise)
        assert len(ours) == len(plain) > 10
        for one, other in zip(ours, plain, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {"network": {"activation": "elu"}},
        {"network": {"layer_norm": True}},
        {"network": {"memory": {"memory_size": 8, "sequence_length": 4}}},
        {"network": {"action_distribution": "squashed_gsde"}},
        {"n_steps": 2},
        {"num_critics": 3},
        {"policy_value": "mean"},
        {"policy_delay": 2},
    ],
)
def test_other_networks_and_targets_are_left_to_autograd(
    make_trainer: MakeTrainer, arguments: Mapping[str, Any]
) -> None:
    trainer = make_trainer(IdentityEnvironment(2, continuous=3, discrete=()), **arguments)
    assert gradients_by_hand(trainer) is None


def test_discrete_branches_are_left_to_autograd(make_trainer: MakeTrainer) -> None:
    assert gradients_by_hand(make_trainer(IdentityEnvironment(2, continuous=1, discrete=(2,)))) is None


def test_importance_weights_are_left_to_autograd(make_trainer: MakeTrainer) -> None:
    trainer, batch = ready(make_trainer)
    by_hand = gradients_by_hand(trainer)
    noise = trainer.step_noise(batch)
    assert by_hand is not None
    batch.weight = torch.linspace(0.1, 1.0, 32)
    plain = results(trainer, lambda *given: SACTrainer.gradients(trainer, *given), batch, noise)
    for one, other in zip(results(trainer, by_hand, batch, noise), plain, strict=True):
        assert torch.equal(one, other)


def test_they_name_every_method_of_the_plain_gradients(make_trainer: MakeTrainer) -> None:
    trainer, batch = ready(make_trainer)
    noise = trainer.step_noise(batch)
    for of, named in ((SACTrainer, GRADIENTS.methods), (SoftActorCritic, GRADIENTS.model_methods)):
        names = {method.__name__ for method in named}
        run = methods_that_run(of, SACTrainer.__module__, lambda: SACTrainer.gradients(trainer, batch, noise))
        assert run and run <= names


@pytest.mark.parametrize("method", GRADIENTS.methods, ids=lambda method: str(method.__name__))
def test_a_class_that_overrides_a_method_learns_from_its_own(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, method: Callable[..., Any]
) -> None:
    """With ``fast_cpu`` it learns what it learns without accelerations, bit for bit."""
    kind = type("Overriding", (SACTrainer,), {method.__name__: changed(method, 0.5)})
    monkeypatch.setattr(rlcore_sac.trainer, "SACTrainer", kind)

    def trained() -> SACTrainer:
        environment = IdentityEnvironment(2, continuous=3, discrete=())
        trainer = make_trainer(environment, torch_settings={"fast_cpu": True})
        assert type(trainer) is kind and not {"gradients", "gradient_step"} & vars(trainer).keys()
        learn(trainer, environment, 40)
        return trainer

    assert_learns_the_same_without(monkeypatch, trained)


@pytest.mark.parametrize("method", THREADS.methods, ids=lambda method: str(method.__name__))
def test_threads_are_chosen_for_no_class_that_overrides_a_method(method: Callable[..., Any]) -> None:
    assert has_methods(SACTrainer, THREADS.methods)
    assert not has_methods(type("Overriding", (SACTrainer,), {method.__name__: changed(method, 1.0)}), THREADS.methods)
