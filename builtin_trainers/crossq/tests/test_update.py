"""A gradient step of CrossQ is that which PyTorch's own batch normalization makes in float64."""

# mypy: allow-untyped-calls
from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from normalized_networks import drawn_actions, sorted_by_shape, torch_network
from torch import Tensor, nn

from rlcore_crossq.trainer import CrossQTrainer
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.environments import identity_continuous
from rlcore_torch import BatchNorm, TransitionBatch

MakeTrainer = Callable[..., CrossQTrainer]
B = 16
LOG_STD = (-20.0, 2.0)


@pytest.fixture
def trainer(make_trainer: MakeTrainer) -> CrossQTrainer:
    """A trainer whose statistics are of some minibatches, and whose next step moves the policy."""
    environment = identity_continuous(4)
    trainer = make_trainer(environment, policy_delay=3, init_entcoef=0.3)
    learn(trainer, environment, 24)
    assert trainer.gradient_steps > 20
    trainer.gradient_steps = 2
    return trainer


def minibatch(trainer: CrossQTrainer) -> TransitionBatch:
    generator = torch.Generator().manual_seed(5)
    size = trainer.model.inputs.vector_size
    seen, following = torch.randn(2, B, size, generator=generator)
    raw = torch.rand(B, trainer.behavior.continuous, generator=generator) * 2 - 1
    reward = torch.randn(B, 1, generator=generator)
    discount = 0.9 * (torch.arange(B) % 4 > 0).float().unsqueeze(1)
    return TransitionBatch((seen,), raw, None, None, (3.0 + following,), None, reward, discount)


def test_a_step_is_that_of_the_paper(trainer: CrossQTrainer) -> None:
    model = trainer.model
    batch = minibatch(trainer)
    noise = trainer.step_noise(batch)
    temperature = model.temperature.double()
    actor = torch_network(model.actor, model.policy_head.linear)
    critics = [torch_network(critic.body, critic.head) for critic in model.critics]
    s, s_next = (inputs[0].double() for inputs in (batch.inputs, batch.next_inputs))
    assert batch.raw is not None

    # The critics: one forward pass of 2 B rows in training mode, the policy's actions in evaluation mode.
    actor.eval()
    with torch.no_grad():
        a_next, log_prob = drawn_actions(actor(s_next), noise.next.double(), LOG_STD)
    joint = torch.cat([torch.cat([s, batch.raw.double()], 1), torch.cat([s_next, a_next], 1)])
    values = [critic.train()(joint).chunk(2) for critic in critics]
    smaller = torch.minimum(values[0][1], values[1][1]).detach()
    target = batch.reward + batch.discount * (smaller - temperature * log_prob.unsqueeze(1))
    expected = sum(0.5 * (here - target).square().mean() for here, _ in values)
    of_critics = [parameter for critic in critics for parameter in critic.parameters()]
    expected_gradients = torch.autograd.grad(expected, of_critics)

    before = copy.deepcopy(model.state_dict())
    loss = trainer.critic_loss(batch, noise)
    torch.testing.assert_close(loss.total.double(), expected, rtol=1e-5, atol=1e-5)
    of_model = [*model.critics.parameters()]
    gradients = torch.autograd.grad(loss.total, of_model)
    for ours, theirs in zip(sorted_by_shape(gradients), sorted_by_shape(expected_gradients), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=2e-3, atol=2e-5)
    for k, critic in enumerate(model.critics):  # moved once, by all 2 B rows
        mean = critic.body.layers[0].running_mean.double()
        was = before[f"critics.{k}.body.layers.0.running_mean"].double()
        torch.testing.assert_close(mean, 0.9 * was + 0.1 * joint.mean(0), rtol=1e-5, atol=1e-5)
    assert unmoved(model.actor, before, "actor.")

    # The policy: its B rows in training mode, the critics in evaluation mode and unmoved.
    critics = [torch_network(critic.body, critic.head).eval() for critic in model.critics]
    action, log_prob = drawn_actions(actor.train()(s), noise.here.double(), LOG_STD)
    least = torch.minimum(*(critic(torch.cat([s, action], 1)) for critic in critics)).squeeze(1)
    expected = (temperature * log_prob - least).mean()
    before = copy.deepcopy(model.state_dict())
    drawn_here, policy_loss = trainer.policy_loss(batch, noise.here)
    torch.testing.assert_close(policy_loss.double(), expected, rtol=1e-5, atol=1e-5)
    assert unmoved(model.critics, before, "critics.") and not unmoved(model.actor, before, "actor.")
    mean = model.actor.layers[0].running_mean.double()
    was = before["actor.layers.0.running_mean"].double()
    torch.testing.assert_close(mean, 0.9 * was + 0.1 * s.mean(0), rtol=1e-5, atol=1e-5)

    # The temperature: the gradient of exp(log alpha) (entropy - target).
    model.log_temperature.grad = None
    trainer.temperature_loss(drawn_here).backward()
    entropy = -log_prob.mean()
    expected_gradient = temperature * (entropy + trainer.behavior.continuous)
    assert model.log_temperature.grad is not None
    torch.testing.assert_close(model.log_temperature.grad.double(), expected_gradient.detach(), rtol=1e-4, atol=1e-5)


def unmoved(module: nn.Module, before: dict[str, Tensor], prefix: str) -> bool:
    return all(torch.equal(value, before[prefix + name]) for name, value in module.state_dict().items())


def test_the_policy_and_the_temperature_move_every_third_step(trainer: CrossQTrainer) -> None:
    batch = minibatch(trainer)
    moved = []
    for number in range(6):
        trainer.gradient_steps = number
        before = copy.deepcopy(trainer.model.state_dict())
        trainer.gradient_step(batch)
        after = trainer.model.state_dict()
        moved.append({name.partition(".")[0] for name in after if not torch.equal(after[name], before[name])})
    assert moved == [{"critics"}, {"critics"}, {"critics", "actor", "policy_head", "log_temperature"}] * 2


def test_nothing_has_a_target_network_and_every_statistic_is_saved(trainer: CrossQTrainer) -> None:
    names = trainer.state_dict()["model"].keys()
    assert {name.partition(".")[0] for name in names} == {"actor", "policy_head", "critics", "log_temperature"}
    counts = {name for name in names if name.endswith(".count")}
    assert len(counts) == sum(isinstance(module, BatchNorm) for module in trainer.model.modules()) == 9


def test_acting_moves_no_statistics(trainer: CrossQTrainer) -> None:
    before = copy.deepcopy(trainer.model.state_dict())
    seen = {o.name: np.zeros((3, *o.shape), np.float32) for o in trainer.policy.behavior.observations}
    trainer.policy.act(seen)
    trainer.policy.act(seen, deterministic=False)
    assert unmoved(trainer.model, before, "")


def test_after_each_update_the_policy_acts_by_what_it_learned(make_trainer: MakeTrainer) -> None:
    environment = identity_continuous(4)
    trainer = make_trainer(environment, policy_delay=1, torch_settings={"fast_cpu": True})
    (observation,) = trainer.behavior.observations
    seen = np.random.default_rng(0).standard_normal((4, *observation.shape), np.float32)
    earlier = None
    for _ in range(3):
        learn(trainer, environment, 8)
        columns, _ = trainer.policy.parameters({observation.name: seen}, None)
        actor = torch_network(trainer.model.actor, trainer.model.policy_head.linear).eval()
        with torch.no_grad():
            expected = actor(torch.from_numpy(seen).double()).numpy()
        assert columns is not None
        np.testing.assert_allclose(columns, expected, rtol=1e-5, atol=1e-5)
        assert earlier is None or np.abs(expected - earlier).max() > 1e-3, "nothing was learned"
        earlier = expected
