# mypy: allow-untyped-calls
"""Stacks of linear layers with their own gradients, against PyTorch's layer by layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlcore.torch.activations import ACTIVATIONS
from rlcore.torch.mlp import linear_stack

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "swish": nn.functional.silu,
    "tanh": torch.tanh,
    "relu": torch.relu,
}


def one_by_one(x: Tensor, layers: list[nn.Linear], activation: str, activate_last: bool) -> Tensor:
    for k, layer in enumerate(layers):
        x = layer(x)
        if activate_last or k < len(layers) - 1:
            x = FUNCTIONS[activation](x)
    return x


def test_every_activation_is_tested() -> None:
    assert FUNCTIONS.keys() == ACTIVATIONS.keys()


@pytest.mark.parametrize("activate_last", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 2, 4])
@pytest.mark.parametrize("activation", list(FUNCTIONS))
def test_values_and_gradients_are_those_of_the_layers(activation: str, depth: int, activate_last: bool) -> None:
    torch.manual_seed(depth)
    layers = [nn.Linear(5 if k == 0 else 7, 7) for k in range(depth)]
    x = torch.randn(9, 5) * 3
    weight = torch.randn(9, 7 if depth else 5)
    found: list[list[Tensor]] = []
    for stack in (linear_stack, one_by_one):
        given = x.clone().requires_grad_()
        output = stack(given, layers, activation, activate_last)
        parameters = [parameter for layer in layers for parameter in layer.parameters()]
        found.append([output, *torch.autograd.grad((output * weight).sum(), [given, *parameters])])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_an_input_that_needs_no_gradient_is_left_alone() -> None:
    layers, x = [nn.Linear(3, 4), nn.Linear(4, 2)], torch.randn(5, 3)
    before = x.clone()
    linear_stack(x, layers, "tanh", activate_last=True).sum().backward()
    assert x.equal(before) and x.grad is None
    assert all(parameter.grad is not None for layer in layers for parameter in layer.parameters())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_without_autograd_the_values_are_the_same(dtype: torch.dtype) -> None:
    layers, x = [nn.Linear(3, 4, dtype=dtype), nn.Linear(4, 2, dtype=dtype)], torch.randn(5, 3, dtype=dtype)
    with torch.no_grad():
        torch.testing.assert_close(linear_stack(x, layers, "tanh"), one_by_one(x, layers, "tanh", False))


@pytest.mark.parametrize("activation", list(FUNCTIONS))
def test_activations_agree_far_from_zero(activation: str) -> None:
    x = np.linspace(-100, 100, 2001, dtype=np.float32)
    expected = FUNCTIONS[activation](torch.from_numpy(x)).numpy()
    function = ACTIVATIONS[activation]
    np.testing.assert_allclose(function.numpy(x.copy()), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(function.forward(torch.from_numpy(x.copy())).numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(function.torch(torch.from_numpy(x)).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_a_gradient_of_the_gradient_is_right_or_refused(activation: str) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(3, 8), nn.Linear(8, 1)]
    x = torch.randn(5, 3, requires_grad=True)

    def penalty(y: Tensor) -> list[Tensor]:
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return list(torch.autograd.grad(slope.square().sum(), layers[0].weight))

    [expected] = penalty(one_by_one(x, layers, activation, False))
    [got] = penalty(linear_stack(x, layers, activation, twice_differentiable=True))
    torch.testing.assert_close(got, expected)
    with pytest.raises(RuntimeError, match="twice_differentiable"):
        penalty(linear_stack(x, layers, activation))
