"""Fast paths step aside for networks that are not what they were written for; copies of policies are independent."""

# mypy: allow-untyped-calls
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_torch import ActorCritic, ActorPolicy, Backend, NetworkSettings
from rlcore_torch.cpu import fused_dense, numpy_actor

ONE = np.ones(1, np.float32)
SPEC = BehaviorSpec("Agent", (ObservationSpec("seen", (3,), np.float32),), 1, (2,), -ONE, ONE, env_index=np.arange(4))
FAST = Backend(torch.device("cpu"), numpy_actor=numpy_actor, dense=fused_dense)
SEEN = {"seen": np.random.default_rng(0).standard_normal((4, 3), np.float32)}


def fast_model() -> ActorCritic:
    torch.manual_seed(1)
    model = ActorCritic(SPEC, NetworkSettings(hidden_units=8, activation="tanh"), value_heads=1, shared=False)
    FAST.prepare(model)
    return model


def assert_acts_as_its_modules(policy: ActorPolicy) -> None:
    """The policy's output is that of its layers, called one by one."""
    model = policy.model
    with torch.no_grad():
        x = torch.from_numpy(SEEN["seen"])
        for layer in model.actor.layers:
            x = torch.tanh(layer(x))
        expected = model.policy_head.linear(x)
        columns, logits = policy.parameters(SEEN, None)
        assert columns is not None and logits is not None
        np.testing.assert_allclose(np.concatenate([columns, logits], 1), expected.numpy(), atol=1e-5)
        together = model.policy_head.linear(model.actor((torch.from_numpy(SEEN["seen"]),)))
        torch.testing.assert_close(together, expected)


class Doubling(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2.0 * super().forward(x)


def of_another_class(model: ActorCritic) -> None:
    model.actor.layers[1] = Doubling(8, 8)


def with_a_hook(model: ActorCritic) -> None:
    model.policy_head.linear.register_forward_hook(lambda module, inputs, output: output + 1.0)


@pytest.mark.parametrize("change", [of_another_class, with_a_hook])
def test_layers_that_are_not_plain_are_called(change: Any) -> None:
    model = fast_model()
    change(model)
    policy = ActorPolicy(SPEC, model, FAST)
    assert_acts_as_its_modules(policy)
    with torch.no_grad():  # as an update does
        for parameter in model.parameters():
            parameter.mul_(1.5)
    policy.refresh_distribution()
    assert_acts_as_its_modules(policy)
    loss = model.policy((torch.from_numpy(SEEN["seen"]),))[0].sum()  # type: ignore[union-attr]
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.actor.parameters())
