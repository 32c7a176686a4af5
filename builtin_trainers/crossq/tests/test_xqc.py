"""A gradient step of XQC is that which plain loops and PyTorch's own batch normalization make in float64."""

# mypy: allow-untyped-calls
from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from normalized_networks import drawn_actions, sorted_by_shape, torch_network
from off_policy_updates import ROWS, far_from_start, random_batch
from torch import Tensor, nn

from rlcore_crossq.xqc import XQCTrainer
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.environments import identity_continuous
from rlcore_devkit.trainings import SmallTrainings
from rlcore_torch import BatchNorm, TransitionBatch
from rlcore_torch.off_policy.transition_batch import StepsBetween

ATOMS = 7
V_MIN = -2.0
V_MAX = 3.0
LOG_STD = (-10.0, 2.0)
MakeTrainer = Callable[..., XQCTrainer]


@pytest.fixture
def make_trainer(tmp_path: Path) -> MakeTrainer:
    """See :meth:`rlcore_devkit.trainings.SmallTrainings.trainer`."""
    settings = {
        "batch_size": 16, "buffer_size": 256, "buffer_init_steps": 0, "learning_rate": 3e-3, "steps_per_update": 1.0,
        "num_atoms": ATOMS, "v_min": V_MIN, "v_max": V_MAX, "init_entcoef": 0.3,
    }  # fmt: skip
    network = {"hidden_units": 12, "critic": {"hidden_layers": [16, 8]}, "activation": "relu"}
    return SmallTrainings("xqc", tmp_path, settings, network).trainer  # type: ignore[return-value]


def made(make_trainer: MakeTrainer, rewards: int = 1, **hyperparameters: Any) -> XQCTrainer:
    """A trainer whose parameters and running statistics are those of no first step."""
    trainer = far_from_start(make_trainer, identity_continuous(2), rewards, **hyperparameters)
    generator = torch.Generator().manual_seed(7)
    for norm in trainer.model.modules():
        if isinstance(norm, BatchNorm):
            norm.running_mean.normal_(generator=generator)
            norm.running_var.uniform_(0.5, 2.0, generator=generator)
    return trainer


def batch_of(trainer: XQCTrainer, weighted: bool, several_steps: bool) -> TransitionBatch:
    batch = random_batch(trainer, weighted, 3)
    if not several_steps:
        return batch
    generator = torch.Generator().manual_seed(4)
    width = batch.inputs[0].shape[1]
    seen = torch.randn((2 * ROWS, width), generator=generator)
    discount = torch.rand((2, ROWS, len(trainer.providers)), generator=generator)
    return attrs.evolve(batch, between=StepsBetween((seen,), None, discount))


def actor_of(trainer: XQCTrainer) -> nn.Sequential:
    return torch_network(trainer.model.actor, trainer.model.policy_head.linear)


def drawn(trainer: XQCTrainer, inputs: Any, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions and log-probabilities of the policy with its running statistics."""
    with torch.no_grad():
        columns = actor_of(trainer).eval()(inputs[0].double())
    return drawn_actions(columns, noise.double(), LOG_STD)


def joint_logits(critics: Any, parts: list[tuple[Tensor, Tensor]], rewards: int) -> tuple[Tensor, list[nn.Module]]:
    """[2, parts, B, R, K], one forward pass of each critic in training mode; and the critics of PyTorch's layers."""
    rows = torch.cat([torch.cat([seen.double(), action.double()], 1) for seen, action in parts])
    networks = [torch_network(critic.body, critic.head).train() for critic in critics]
    logits = torch.stack([network(rows) for network in networks])
    return logits.view(2, len(parts), -1, rewards, ATOMS), networks


def projected(probabilities: list[float], reward: float, discount: float, bonus: float) -> list[float]:
    """The probability of each atom is moved, cut at both ends, and shared between the atoms beside it."""
    width = (V_MAX - V_MIN) / (ATOMS - 1)
    mass = [0.0] * ATOMS
    for k, probability in enumerate(probabilities):
        moved = min(max(reward + discount * (V_MIN + k * width + bonus), V_MIN), V_MAX)
        place = (moved - V_MIN) / width
        below = min(math.floor(place), ATOMS - 2)
        mass[below] += probability * (below + 1 - place)
        mass[below + 1] += probability * (place - below)
    return mass


def step_of_paper(trainer: XQCTrainer, batch: TransitionBatch, noise: Any) -> tuple[Tensor, Tensor, list[nn.Module]]:
    """The target [B, R, K], the critics' logits [2, B, R, K], and the critics, row by row."""
    model = trainer.model
    rewards = len(trainer.providers)
    temperature = float(model.temperature)
    ends = [batch.next_inputs]
    if batch.after_ends is not None:
        ends.append(batch.after_ends.inputs)
    draws = [drawn(trainer, inputs, noise.next) for inputs in ends]
    assert batch.raw is not None
    parts = [(batch.inputs[0], batch.raw)]
    parts += [(inputs[0], action) for inputs, (action, _) in zip(ends, draws, strict=True)]
    of_targets, _ = joint_logits(model.targets, parts, rewards)
    probabilities = of_targets.softmax(-1)
    atoms = torch.linspace(V_MIN, V_MAX, ATOMS, dtype=torch.float64)
    expected = (probabilities * atoms).sum((3, 4))  # [2, parts, B]
    bonus_between = torch.zeros(ROWS, rewards, dtype=torch.float64)
    if batch.between is not None:
        _, log_prob = drawn(trainer, batch.between.inputs, noise.between)
        for step in range(2):
            bonus = -temperature * log_prob[step * ROWS : (step + 1) * ROWS] / rewards
            bonus_between += batch.between.discount[step] * bonus.unsqueeze(1)
    target = torch.zeros(ROWS, rewards, ATOMS, dtype=torch.float64)
    for row in range(ROWS):
        for reward in range(rewards):
            part = 0
            if batch.after_ends is not None and batch.after_ends.ignores_done[reward]:
                part = 1
            critic = int(expected[:, part + 1, row].argmin())
            target[row, reward] = torch.tensor(
                projected(
                    probabilities[critic, part + 1, row, reward].tolist(),
                    float(batch.reward[row, reward] + bonus_between[row, reward]),
                    float(batch.discount[row, reward]),
                    -temperature * float(draws[part][1][row]) / rewards,
                )
            )
    logits, networks = joint_logits(model.critics, parts, rewards)
    return target, logits[:, 0], networks


@pytest.mark.parametrize("several_steps", [False, True])
@pytest.mark.parametrize(("rewards", "weighted"), [(1, False), (2, True)])
def test_the_critics_learn_the_projected_target_by_cross_entropy(
    make_trainer: MakeTrainer, rewards: int, weighted: bool, several_steps: bool
) -> None:
    trainer = made(make_trainer, rewards)
    batch = batch_of(trainer, weighted, several_steps)
    noise = trainer.step_noise(batch)
    target, logits, networks = step_of_paper(trainer, batch, noise)
    losses = -(target * logits.log_softmax(-1)).sum(-1)  # [2, B, R]
    weight = torch.ones(ROWS) if batch.weight is None else batch.weight
    expected = (weight.unsqueeze(1) * losses).mean((1, 2)).sum()
    of_critics = [parameter for network in networks for parameter in network.parameters()]
    expected_gradients = torch.autograd.grad(expected, of_critics)

    found = trainer.critic_loss(batch, noise)
    assert found.total.item() == pytest.approx(expected.item(), rel=1e-5)
    gradients = torch.autograd.grad(found.total, [*trainer.model.critics.parameters()])
    for ours, theirs in zip(sorted_by_shape(gradients), sorted_by_shape(expected_gradients), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=2e-3, atol=2e-5)
    np.testing.assert_allclose(found.q_losses, losses.detach().mean((1, 2)), rtol=1e-5)
    atoms = torch.linspace(V_MIN, V_MAX, ATOMS, dtype=torch.float64)
    values = (logits[0].detach().softmax(-1) * atoms).sum(-1)
    np.testing.assert_allclose(found.q_values, values, rtol=1e-4, atol=1e-5)
    if weighted:
        assert found.td_error is not None
        divergence = losses.detach() + torch.xlogy(target, target).sum(-1)
        np.testing.assert_allclose(found.td_error, divergence.sum(2).mean(0), rtol=1e-3, atol=1e-5)


def test_the_policy_sees_the_new_critics_with_running_statistics(make_trainer: MakeTrainer) -> None:
    trainer = made(make_trainer, 2)
    model = trainer.model
    batch = random_batch(trainer, False, 5)
    noise = trainer.step_noise(batch).here
    seen = batch.inputs[0].double()
    action, log_prob = drawn_actions(actor_of(trainer).train()(seen), noise.double(), LOG_STD)
    atoms = torch.linspace(V_MIN, V_MAX, ATOMS, dtype=torch.float64)
    values = []
    for critic in model.critics:
        logits = torch_network(critic.body, critic.head).eval()(torch.cat([seen, action], 1))
        values.append((logits.view(ROWS, 2, ATOMS).softmax(-1) * atoms).sum((1, 2)))
    expected = (model.temperature.double() * log_prob - torch.minimum(*values)).mean()
    before = copy.deepcopy(model.critics.state_dict())
    _, loss = trainer.policy_loss(batch, noise)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in model.critics.state_dict().items())


def linear_layers(network: nn.Module) -> list[nn.Linear]:
    return [layer for layer in network.modules() if isinstance(layer, nn.Linear)]


def test_a_step_projects_all_units_and_moves_the_parameters_of_the_targets(make_trainer: MakeTrainer) -> None:
    trainer = made(make_trainer, tau=0.25, learning_rate=0.05)
    model = trainer.model
    batch = random_batch(trainer, False, 6)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    trainer.gradient_steps = 2
    trainer.gradient_step(batch)
    after = model.state_dict()
    learning = [*linear_layers(model.actor), *linear_layers(model.policy_head), *linear_layers(model.critics)]
    assert len(learning) == 3 * 3
    for layer in learning:
        for unit in layer.weight.tolist():
            assert math.hypot(*unit) == pytest.approx(1.0, rel=1e-6)
    for name, value in after.items():
        assert not value.equal(before[name]), name
        if name.startswith("targets.") and "running_" not in name:
            critic = after[name.replace("targets.", "critics.")]
            torch.testing.assert_close(value, 0.75 * before[name] + 0.25 * critic)


def test_a_new_trainer_has_units_of_norm_one_and_targets_equal_to_the_critics(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer(identity_continuous(2))
    model = trainer.model
    for layer in [*linear_layers(model.actor), *linear_layers(model.policy_head), *linear_layers(model.critics)]:
        torch.testing.assert_close(layer.weight.norm(dim=1), torch.ones(len(layer.weight)))
    for target, critic in zip(model.targets.parameters(), model.critics.parameters(), strict=True):
        torch.testing.assert_close(target, critic)
        assert not target.requires_grad
    norms = [module for module in model.modules() if isinstance(module, BatchNorm)]
    assert {(type(norm), norm.momentum, norm.epsilon) for norm in norms} == {(BatchNorm, 0.01, 1e-3)}
    assert all(layer.bias is None for layer in linear_layers(model.actor))
    assert model.policy_head.distribution.limits == LOG_STD  # type: ignore[union-attr]


def test_the_policy_and_the_temperature_move_every_third_step_and_running_statistics_always(
    make_trainer: MakeTrainer,
) -> None:
    trainer = made(make_trainer)
    batch = random_batch(trainer, False, 8)
    for number in range(6):
        trainer.gradient_steps = number
        before = copy.deepcopy(trainer.model.state_dict())
        step = trainer.gradient_step(batch)
        after = trainer.model.state_dict()
        moved = {name for name in after if not torch.equal(after[name], before[name])}
        of_policy = {name for name in moved if name.startswith(("actor.", "policy_head.", "log_temperature"))}
        assert {name.partition(".")[0] for name in moved - of_policy} == {"critics", "targets"}
        statistics = {name for name in of_policy if "running_" in name}
        assert len(statistics) == 2 * 3
        if number % 3 == 2:
            assert "log_temperature" in of_policy and "Policy/Entropy" in step.stats
            assert "policy_head.linear.weight" in of_policy
        else:
            assert of_policy == statistics
        mean = after["actor.layers.0.running_mean"]
        expected = 0.99 * before["actor.layers.0.running_mean"] + 0.01 * batch.inputs[0].mean(0)
        torch.testing.assert_close(mean, expected)


def test_rewards_are_divided_by_the_deviation_of_their_returns_without_a_clip(make_trainer: MakeTrainer) -> None:
    environment = identity_continuous(2)
    trainer = make_trainer(environment)
    learn(trainer, environment, 30)
    scaling = trainer.reward_scaling
    assert scaling is not None
    large = np.array([1e6], np.float32)
    assert scaling.scaled(large)[0] == pytest.approx(1e6 / scaling.deviation)
