# mypy: allow-untyped-calls
"""Stacks of linear layers with their own gradients, against PyTorch's layer by layer."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlcore.torch.activations import ACTIVATIONS
from rlcore.torch.mlp import descend, linear_stack

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


@pytest.mark.parametrize("by_hand", [True, False])
@pytest.mark.parametrize("activate_last", [False, True])
@pytest.mark.parametrize("activation", list(FUNCTIONS))
def test_frozen_layers_give_their_input_its_gradient_and_take_none(
    activation: str, activate_last: bool, by_hand: bool
) -> None:
    """By hand on a CPU in float32; in float64, or where second derivatives are asked for, by PyTorch."""
    for dtype in [torch.float32] if by_hand else [torch.float32, torch.float64]:
        twice = not by_hand and dtype == torch.float32
        torch.manual_seed(0)
        layers = [nn.Linear(5, 7, dtype=dtype), nn.Linear(7, 6, dtype=dtype), nn.Linear(6, 3, dtype=dtype)]
        x, weight = torch.randn(9, 5, dtype=dtype), torch.randn(9, 3, dtype=dtype)
        outcomes = []
        for frozen in (True, False):
            given = x.clone().requires_grad_()
            output = linear_stack(given, layers, activation, activate_last, twice, frozen)
            (output * weight).sum().backward()
            outcomes.append((output, given.grad))
            if frozen:
                assert all(parameter.grad is None for layer in layers for parameter in layer.parameters())
        assert layers[0].weight.grad is not None, "unfrozen layers learn"
        for ours, theirs in zip(*outcomes, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
        with torch.no_grad():
            assert outcomes[0][0].equal(linear_stack(x, layers, activation, activate_last, twice, frozen=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_frozen_layers_on_an_input_without_gradient_make_no_graph(dtype: torch.dtype) -> None:
    layers = [nn.Linear(3, 4, dtype=dtype), nn.Linear(4, 2, dtype=dtype)]
    assert not linear_stack(torch.randn(5, 3, dtype=dtype), layers, "tanh", frozen=True).requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # float64 takes the way of other devices
@pytest.mark.parametrize("widths", [(5, 7, 6, 3), (40, 33, 1), (2, 64, 64, 20), (4, 3)])
@pytest.mark.parametrize("activation", list(FUNCTIONS))
def test_descending_leaves_the_gradient_of_the_loss_in_the_layers(
    activation: str, widths: tuple[int, ...], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(a, b, dtype=dtype) for a, b in itertools.pairwise(widths)]
    x, target = torch.randn(9, widths[0], dtype=dtype), torch.randn(9, widths[-1], dtype=dtype)
    expected_output = one_by_one(x, layers, activation, False)
    (0.5 * (expected_output - target).square().sum()).backward()
    expected = [parameter.grad for layer in layers for parameter in layer.parameters()]
    for layer in layers:
        for parameter in layer.parameters():
            parameter.grad = torch.full_like(parameter, 7.0)  # written over, not added to
    output = descend(x, layers, activation, lambda values: values - target)
    torch.testing.assert_close(output, expected_output.detach())
    assert not output.requires_grad
    for ours, theirs in zip([p.grad for layer in layers for p in layer.parameters()], expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
