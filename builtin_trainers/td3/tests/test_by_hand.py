"""TD3's gradients written by hand equal those of autograd, and step aside for what they are not written for."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from methods_that_run import methods_that_run
from overriding_classes import assert_learns_the_same_without, changed
from torch import Tensor

import rlcore_td3.trainer
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.environments import IdentityEnvironment, identity_continuous
from rlcore_td3.by_hand import GRADIENTS, GradientsByHand
from rlcore_td3.trainer import DeterministicActorCritic, TD3Trainer
from rlcore_torch import TransitionBatch

MakeTrainer = Callable[..., TD3Trainer]


def gradients_by_hand(trainer: TD3Trainer) -> Any:
    made = GRADIENTS.make(trainer)
    return None if made is None else made[TD3Trainer.critic_gradients].__self__  # type: ignore[attr-defined]


KINDS: Mapping[str, Mapping[str, Any]] = {
    "td3": {},
    "large noise": {"target_noise": 5.0},  # clipped, and actions at their bounds
    "three critics": {"num_critics": 3},
    "ddpg": {"trainer": "ddpg"},
    "three steps": {"n_steps": 3},
}


def ready(make_trainer: MakeTrainer, **arguments: Any) -> tuple[TD3Trainer, TransitionBatch]:
    """A trainer whose targets differ from its networks, after some gradient steps, and a minibatch."""
    environment = identity_continuous(2)
    trainer = make_trainer(environment, **arguments)
    learn(trainer, environment, 60)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return trainer, trainer.reader.read(trainer.buffer.sample(16, trainer.generator))


def results(trainer: TD3Trainer, by: Any, batch: TransitionBatch, noise: Tensor | None) -> list[Tensor]:
    """The critics' gradients and losses, then, after a step of the critics, those of the policy."""
    before = [each.detach().clone() for each in trainer.model.parameters()]
    for parameter in trainer.model.parameters():
        parameter.grad = None
    loss = by.critic_gradients(batch, noise)
    found = [loss.total.detach(), *loss.q_losses, loss.q_values.clone()]
    with torch.no_grad():
        for parameter in trainer.model.critics.parameters():
            assert parameter.grad is not None
            found.append(parameter.grad.clone())
            parameter.sub_(parameter.grad)
    found.append(by.policy_gradients(batch).detach())
    found += [each.grad.clone() for each in trainer.model.actor.parameters() if each.grad is not None]
    found += [each.grad.clone() for each in trainer.model.policy_head.parameters() if each.grad is not None]
    with torch.no_grad():
        for parameter, was in zip(trainer.model.parameters(), before, strict=True):
            parameter.copy_(was)
    return found


class ByAutograd:
    def __init__(self, trainer: TD3Trainer) -> None:
        self._trainer = trainer

    def critic_gradients(self, *given: Any) -> Any:
        return TD3Trainer.critic_gradients(self._trainer, *given)

    def policy_gradients(self, *given: Any) -> Any:
        return TD3Trainer.policy_gradients(self._trainer, *given)


def check_equal(trainer: TD3Trainer, batch: TransitionBatch) -> None:
    by_hand = gradients_by_hand(trainer)
    noise = trainer.draw_target_noise(batch)
    assert by_hand is not None
    plain = results(trainer, ByAutograd(trainer), batch, noise)
    for _ in range(2):  # nothing of the first call is left in the second
        ours = results(trainer, by_hand, batch, noise)
        assert len(ours) == len(plain) > 6
        for one, other in zip(ours, plain, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_and_losses_are_those_of_autograd(make_trainer: MakeTrainer, kind: str) -> None:
    check_equal(*ready(make_trainer, **KINDS[kind]))


@pytest.mark.parametrize("activation", ["tanh", "swish"])
@pytest.mark.parametrize("hidden", [[], [24], [24, 16, 8]])
def test_they_are_for_each_activation_and_number_of_layers(
    make_trainer: MakeTrainer, activation: str, hidden: list[int]
) -> None:
    check_equal(*ready(make_trainer, network={"hidden_layers": hidden, "activation": activation}))


def test_the_trainer_learns_with_them_unless_fast_cpu_is_off(make_trainer: MakeTrainer) -> None:
    for fast in (True, False):
        trainer = make_trainer(identity_continuous(2), torch_settings={"fast_cpu": fast})
        assert isinstance(getattr(trainer.critic_gradients, "__self__", None), GradientsByHand) == fast
        assert isinstance(getattr(trainer.policy_gradients, "__self__", None), GradientsByHand) == fast


def test_a_minibatch_with_importance_weights_is_left_to_autograd(make_trainer: MakeTrainer) -> None:
    trainer, batch = ready(make_trainer)
    batch.weight = torch.linspace(0.1, 1.0, 16)
    by_hand = gradients_by_hand(trainer)
    noise = trainer.draw_target_noise(batch)
    assert by_hand is not None
    loss = by_hand.critic_gradients(batch, noise)
    plain = TD3Trainer.critic_gradients(trainer, batch, noise)
    assert loss.td_error is not None and plain.td_error is not None
    torch.testing.assert_close(loss.td_error, plain.td_error, rtol=0.0, atol=0.0)
    check_equal(trainer, batch)


@pytest.mark.parametrize(
    "network",
    [
        {"activation": "elu"},
        {"layer_norm": True},
        {"memory": {"memory_size": 8, "sequence_length": 4}},
    ],
)
def test_other_networks_are_left_to_autograd(make_trainer: MakeTrainer, network: Mapping[str, Any]) -> None:
    assert gradients_by_hand(make_trainer(IdentityEnvironment(2, continuous=2), network=network)) is None


def test_they_name_every_method_of_the_plain_gradients(make_trainer: MakeTrainer) -> None:
    trainer, batch = ready(make_trainer)
    noise = trainer.draw_target_noise(batch)

    def plain() -> None:
        TD3Trainer.critic_gradients(trainer, batch, noise)
        TD3Trainer.policy_gradients(trainer, batch)

    for of, named in ((TD3Trainer, GRADIENTS.methods), (DeterministicActorCritic, GRADIENTS.model_methods)):
        run = methods_that_run(of, TD3Trainer.__module__, plain)
        assert run and run <= {method.__name__ for method in named}


@pytest.mark.parametrize("method", GRADIENTS.methods, ids=lambda method: str(method.__name__))
def test_a_class_that_overrides_a_method_learns_from_its_own(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, method: Callable[..., Any]
) -> None:
    """With ``fast_cpu`` it learns what it learns without accelerations, bit for bit."""
    kind = type("Overriding", (TD3Trainer,), {method.__name__: changed(method, 0.5)})
    monkeypatch.setattr(rlcore_td3.trainer, "TD3Trainer", kind)

    def trained() -> TD3Trainer:
        environment = identity_continuous(2)
        trainer = make_trainer(environment, torch_settings={"fast_cpu": True})
        assert type(trainer) is kind
        assert not {"critic_gradients", "policy_gradients", "gradient_step"} & vars(trainer).keys()
        learn(trainer, environment, 40)
        return trainer

    assert_learns_the_same_without(monkeypatch, trained)
