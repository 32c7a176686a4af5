# mypy: allow-untyped-calls
"""The loss of a minibatch against Python floats, and its gradient by hand against that of autograd."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from methods_that_run import methods_that_run

import rlcore_ppo.trainer
from rlcore import Plugins, RunStateError, load_plugins
from rlcore_devkit.conformance.learning_rewards import LearningRewards
from rlcore_devkit.environments import IdentityEnvironment
from rlcore_ppo.by_hand import GRADIENTS
from rlcore_ppo.trainer import PPOTrainer
from rlcore_torch import Gaussian, Loss, Minibatch, OnPolicyTrainer
from rlcore_torch.acceleration import linear_stack

MakeTrainer = Callable[..., PPOTrainer]

ROWS = 45
SPACES: dict[str, dict[str, Any]] = {
    "continuous": {"continuous": 3},
    "discrete": {"discrete": (4,)},
    "branches": {"discrete": (3, 2, 4)},
    "hybrid": {"continuous": 2, "discrete": (3, 2)},
}


def with_learning_rewards() -> Plugins:
    plugins = load_plugins()
    plugins.register(LearningRewards(), "learning-reward")
    return plugins


def random_minibatch(trainer: PPOTrainer, rows: int, masked: bool) -> Minibatch:
    generator = torch.Generator().manual_seed(2)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    behavior = trainer.behavior
    choices = mask = None
    if behavior.discrete:
        choices = torch.stack([torch.randint(n, (rows,), generator=generator) for n in behavior.discrete], dim=1)
        if masked:
            mask = torch.rand(rows, behavior.mask_size, generator=generator) < 0.6
            mask.scatter_(1, choices + torch.tensor(trainer.policy.layout.offsets), True)
    return Minibatch(
        inputs=(normal(rows, trainer.model.inputs.vector_size),),
        raw=normal(rows, behavior.continuous) if behavior.continuous else None,
        choices=choices,
        mask=mask,
        old_log_prob=normal(rows) - 3.0,
        old_value=normal(rows, len(trainer.providers)),
        advantage=normal(rows) * 2 + 1,
        returns=normal(rows, len(trainer.providers)) * 2,
    )


def naive_loss(trainer: PPOTrainer, batch: Minibatch) -> dict[str, float]:
    """Loops over transitions; the network is asked for one row at a time."""
    h = trainer.hyperparameters
    rows = len(batch.advantage)
    advantages = batch.advantage.tolist()
    clip_range = float(trainer.clip_range)
    policy = value = entropy = 0.0
    for row in range(rows):
        with torch.no_grad():
            mean_t, logits_t, values = trainer.model.policy_and_value((batch.inputs[0][row : row + 1],))
        log_prob = row_entropy = 0.0
        if mean_t is not None and batch.raw is not None:
            gaussian = trainer.model.policy_head.distribution
            assert isinstance(gaussian, Gaussian)
            for mu, log_sigma, x in zip(
                mean_t[0].tolist(), gaussian.log_std.tolist(), batch.raw[row].tolist(), strict=True
            ):
                log_prob += -0.5 * ((x - mu) / math.exp(log_sigma)) ** 2 - log_sigma - 0.5 * math.log(2 * math.pi)
                row_entropy += log_sigma + 0.5 * math.log(2 * math.pi * math.e)
        if logits_t is not None and batch.choices is not None:
            offset = 0
            for size, choice in zip(trainer.behavior.discrete, batch.choices[row].tolist(), strict=True):
                weights = [
                    math.exp(float(logits_t[0, offset + k])) if batch.mask is None or batch.mask[row, offset + k] else 0
                    for k in range(size)
                ]
                probabilities = [weight / sum(weights) for weight in weights]
                log_prob += math.log(probabilities[choice])
                row_entropy -= sum(p * math.log(p) for p in probabilities if p > 0)
                offset += size
        ratio = math.exp(log_prob - float(batch.old_log_prob[row]))
        clipped = min(max(ratio, 1 - clip_range), 1 + clip_range)
        policy -= min(ratio * advantages[row], clipped * advantages[row]) / rows
        entropy += row_entropy / rows
        heads = len(trainer.providers)
        for head in range(heads):
            predicted = float(values[0, head])
            target = float(batch.returns[row, head])
            error = (predicted - target) ** 2
            if h.value_clip is not None:
                old = float(batch.old_value[row, head])
                near = old + min(max(predicted - old, -h.value_clip), h.value_clip)
                error = max(error, (near - target) ** 2)
            value += error / rows / heads
    # The heads' losses are added up: a second reward must not make the first value learn more slowly.
    total = policy + h.value_coefficient * heads * value - float(trainer.entropy_weight) * entropy
    return {"total": total, "policy": policy, "value": value, "entropy": entropy}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"value_clip": 0.2, "beta": 0.1, "value_coefficient": 0.7},
        {"epsilon": 0.05, "shared_critic": True},
    ],
    ids=["plain", "clipped values", "shared body"],
)
def test_the_loss_is_that_of_a_loop_over_transitions(
    make_trainer: MakeTrainer, space: str, options: dict[str, Any]
) -> None:
    trainer = make_trainer(IdentityEnvironment(3, **SPACES[space]), **options)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    trainer.model.double()
    batch = random_minibatch(trainer, 9, masked=space != "discrete")
    batch = batch.map(lambda x: x.double() if x.is_floating_point() else x)
    found = trainer.loss(batch)
    expected = naive_loss(trainer, batch)
    for part, number in expected.items():
        assert getattr(found, part).item() == pytest.approx(number, rel=1e-6), part

    weights = list(trainer.model.parameters())
    directions = [torch.randn(each.shape, generator=torch.Generator().manual_seed(3)).double() for each in weights]
    grads = torch.autograd.grad(found.total, weights)
    slope = sum((grad * direction).sum().item() for grad, direction in zip(grads, directions, strict=True))
    moved = []
    for step in (1e-5, -2e-5):
        with torch.no_grad():
            torch._foreach_add_(weights, directions, alpha=step)
        moved.append(naive_loss(trainer, batch)["total"])
    assert slope == pytest.approx((moved[0] - moved[1]) / 2e-5, rel=1e-4)


def test_each_reward_provider_has_a_value_head_of_its_own(make_trainer: MakeTrainer) -> None:
    signals = {"extrinsic": {"gamma": 0.9}, "learning": {"gamma": 0.5, "strength": 3.0}}
    trainer = make_trainer(
        IdentityEnvironment(3, discrete=(4,)),
        block={"reward_signals": signals},
        plugins=with_learning_rewards(),
        value_clip=0.1,
    )
    batch = random_minibatch(trainer, 9, masked=False)
    assert batch.returns.shape == (9, 2)
    found = trainer.loss(batch)
    expected = naive_loss(trainer, batch)
    assert found.total.item() == pytest.approx(expected["total"], rel=1e-4)


def test_a_state_with_other_rewards_or_agents_is_refused_and_changes_nothing(make_trainer: MakeTrainer) -> None:
    environment = IdentityEnvironment(3, discrete=(4,))
    block: dict[str, Any] = {"reward_signals": {"learning": {}}}
    saved = make_trainer(environment, block=block, plugins=with_learning_rewards()).state_dict()
    trainer = make_trainer(environment)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.fill_(0.5)
    with pytest.raises(RunStateError, match=r"reward_signals learning, this configuration extrinsic"):
        trainer.load_state_dict(saved)
    with pytest.raises(RunStateError, match=r"the checkpoint is of 2 agents, this run has 3; set environment.num_envs"):
        trainer.load_state_dict(make_trainer(IdentityEnvironment(2, discrete=(4,))).state_dict())
    assert all(bool((parameter == 0.5).all()) for parameter in trainer.model.parameters())


# ---------------------------------------------------------------- a gradient step


# Options of the trainer and of its network, and the rows of the network's 32 units that are computed at once.
BY_HAND: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "as one": ({}, {}, ROWS),
    "two pieces": ({"beta": 0.1, "value_clip": 0.3}, {"activation": "relu"}, ROWS - 1),
    "three pieces": ({"beta": 0.1, "value_clip": 0.3}, {"activation": "swish", "num_layers": 3}, 20),
    "each row alone": ({"epsilon": 0.05}, {"activation": "swish", "num_layers": 2}, 1),
    "no hidden layer": ({"beta": 0.0}, {"num_layers": 0}, ROWS),
}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("case", BY_HAND)
def test_the_gradient_by_hand_is_that_of_the_loss(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, space: str, case: str
) -> None:
    """Several steps, with minibatches of other sizes; the advantages have both signs, and masks bar options."""
    options, network, rows = BY_HAND[case]
    monkeypatch.setattr(linear_stack, "LARGEST_LAYER", 32 * rows)
    signals = {"extrinsic": {"gamma": 0.9}, "learning": {"gamma": 0.5}}
    trainer = make_trainer(
        IdentityEnvironment(3, **SPACES[space]),
        block={"reward_signals": signals},
        network=network,
        plugins=with_learning_rewards(),
        torch_settings={"fast_cpu": True},
        **options,
    )
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    for size in (ROWS, 7, 1):
        batch = random_minibatch(trainer, size, masked=space != "discrete")
        expected = trainer.loss(batch)
        gradients = torch.autograd.grad(expected.total, list(trainer.model.parameters()))
        with monkeypatch.context() as without_autograd:
            without_autograd.delattr(torch.Tensor, "backward")
            found = trainer.minimize(trainer.loss, batch)
        for name in ("total", "policy", "value", "entropy", "log_ratio"):
            ours = getattr(found, name)
            theirs = getattr(expected, name).detach()
            torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-5, msg=name)
        norm = torch.linalg.vector_norm(torch.cat([each.flatten() for each in gradients]))
        torch.testing.assert_close(found.norm, norm, rtol=1e-4, atol=1e-5)
        clip = min(1.0, trainer.hyperparameters.max_grad_norm / float(norm))
        for parameter, gradient in zip(trainer.model.parameters(), gradients, strict=True):
            torch.testing.assert_close(parameter.grad, gradient * clip, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("space", SPACES)
def test_a_ratio_beyond_float32_of_an_advantage_that_is_not_negative_has_no_gradient(
    make_trainer: MakeTrainer, space: str
) -> None:
    """By autograd, and by hand; compared with the loss in float64, where no ratio is infinite."""
    trainer = make_trainer(IdentityEnvironment(3, **SPACES[space]), torch_settings={"fast_cpu": True})
    batch = random_minibatch(trainer, ROWS, masked=False)
    batch.old_log_prob[:12] = -200.0  # the logarithm of the ratio is near 195
    batch.advantage[:12] = torch.tensor([0.0, 0.5, 3.0]).repeat(4)
    weights = list(trainer.model.parameters())
    expected = trainer.loss(batch)
    gradients = torch.autograd.grad(expected.total, weights)
    found = trainer.minimize(trainer.loss, batch)  # by hand
    assert "backward" in vars(trainer)
    torch.testing.assert_close(found.total, expected.total.detach(), rtol=2e-5, atol=2e-5)

    precise = make_trainer(IdentityEnvironment(3, **SPACES[space]))
    precise.model.double()
    in_float64 = batch.map(lambda x: x.double() if x.is_floating_point() else x)
    exact = torch.autograd.grad(precise.loss(in_float64).total, list(precise.model.parameters()))
    norm = torch.linalg.vector_norm(torch.cat([each.flatten() for each in exact]))
    clip = min(1.0, trainer.hyperparameters.max_grad_norm / float(norm))
    for parameter, gradient, of_float64 in zip(weights, gradients, exact, strict=True):
        torch.testing.assert_close(gradient, of_float64.float(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(parameter.grad, of_float64.float() * clip, rtol=1e-4, atol=1e-5)


def test_the_gradient_by_hand_names_every_method_of_the_plain_loss(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer(IdentityEnvironment(3, **SPACES["hybrid"]))
    batch = random_minibatch(trainer, ROWS, masked=True)
    modules = (PPOTrainer.__module__, OnPolicyTrainer.__module__)
    run = [methods_that_run(PPOTrainer, module, lambda: trainer.loss(batch)) for module in modules]
    assert set.union(*run) == {"loss", "evaluate", "likelihood"} < {method.__name__ for method in GRADIENTS.methods}


@pytest.mark.parametrize("method", GRADIENTS.methods, ids=lambda method: str(method.__name__))
def test_a_class_that_overrides_a_method_learns_from_its_own(
    monkeypatch: pytest.MonkeyPatch, make_trainer: MakeTrainer, method: Callable[..., Any]
) -> None:
    """By autograd, bit for bit."""

    def override(self: Any, *given: Any, **named: Any) -> Any:
        found = method(self, *given, **named)
        return (found[0] * 0.5, *found[1:]) if isinstance(found, tuple) else found

    kind = type("Overriding", (PPOTrainer,), {method.__name__: override})
    monkeypatch.setattr(rlcore_ppo.trainer, "PPOTrainer", kind)
    trainer = make_trainer(IdentityEnvironment(3, discrete=(4,)), torch_settings={"fast_cpu": True})
    assert type(trainer) is kind and "backward" not in vars(trainer)
    check_autograd(trainer, trainer.loss)


def test_another_loss_than_that_of_ppo_is_left_to_autograd(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer(IdentityEnvironment(3, discrete=(4,)), torch_settings={"fast_cpu": True})
    assert "backward" in vars(trainer)

    def other(batch: Minibatch) -> Loss:
        found = trainer.loss(batch)
        return Loss(2.0 * found.total, found.policy, found.value, found.entropy, found.log_ratio)

    check_autograd(trainer, other)


def check_autograd(trainer: PPOTrainer, loss: Callable[[Minibatch], Loss]) -> None:
    """``backward`` leaves exactly the gradients of autograd."""
    batch = random_minibatch(trainer, ROWS, masked=False)
    parameters = list(trainer.model.parameters())
    gradients = torch.autograd.grad(loss(batch).total, parameters)
    trainer.optimizer.zero_grad()
    trainer.backward(loss, batch)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        assert parameter.grad is not None and torch.equal(parameter.grad, gradient)
