# mypy: allow-untyped-calls
"""Stacks of linear layers, with the gradient written by hand and without, against PyTorch's layer by layer."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from rlcore_torch.cpu import FUNCTIONS as FUSED
from rlcore_torch.cpu import fused_dense
from rlcore_torch.networks.networks import ACTIVATIONS, Dense, dense

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "swish": nn.functional.silu,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "leaky_relu": nn.LeakyReLU(),
    "elu": nn.ELU(),
    "selu": nn.SELU(),
    "gelu": nn.GELU(),
    "mish": nn.Mish(),
    "softplus": nn.Softplus(),
    "sigmoid": nn.Sigmoid(),
}
WAYS = pytest.mark.parametrize("way", [dense, fused_dense])


def one_by_one(x: Tensor, layers: list[nn.Linear], activation: str, activate_last: bool) -> Tensor:
    for k, layer in enumerate(layers):
        x = layer(x)
        if activate_last or k < len(layers) - 1:
            x = FUNCTIONS[activation](x)
    return x


@WAYS
@pytest.mark.parametrize("activate_last", [False, True])
@pytest.mark.parametrize("widths", [(5,), (5, 7), (5, 7, 6, 1), (40, 33, 2), (2, 16, 15, 17)])
@pytest.mark.parametrize("activation", list(FUNCTIONS))
def test_values_and_gradients_are_those_of_the_layers(
    activation: str, widths: tuple[int, ...], activate_last: bool, way: Dense
) -> None:
    torch.manual_seed(len(widths))
    layers = [nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
    x, weight = torch.randn(9, widths[0]) * 3, torch.randn(9, widths[-1])
    found: list[list[Tensor]] = []
    for stack in (way, one_by_one):
        given = x.clone().requires_grad_()
        output = stack(given, layers, activation, activate_last)
        parameters = [parameter for layer in layers for parameter in layer.parameters()]
        found.append([output, *torch.autograd.grad((output * weight).sum(), [given, *parameters])])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_frozen_parameters_take_the_gradient_from_no_other_one() -> None:
    torch.manual_seed(0)
    layers, x = [nn.Linear(5, 4), nn.Linear(4, 4), nn.Linear(4, 2)], torch.randn(9, 5)
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    for chosen in itertools.product((False, True), repeat=len(parameters)):
        for parameter, learns in zip(parameters, chosen, strict=True):
            parameter.requires_grad_(learns)
        learned = [parameter for parameter in parameters if parameter.requires_grad]
        if learned:
            sums = (way(x, layers, "tanh", True).sum() for way in (fused_dense, one_by_one))
            torch.testing.assert_close(*(torch.autograd.grad(each, learned) for each in sums))


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_a_gradient_of_the_gradient_is_right_or_refused(activation: str) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(3, 8), nn.Linear(8, 1)]
    x = torch.randn(5, 3, requires_grad=True)

    def penalty(y: Tensor) -> list[Tensor]:
        (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return list(torch.autograd.grad(grad.square().sum(), layers[0].weight))

    [expected] = penalty(one_by_one(x, layers, activation, False))
    [got] = penalty(dense(x, layers, activation))
    torch.testing.assert_close(got, expected)
    if activation not in FUSED:
        torch.testing.assert_close(penalty(fused_dense(x, layers, activation))[0], expected)
        return
    with pytest.raises(RuntimeError, match=r"fast_cpu: false, or .*networks\.dense"):
        penalty(fused_dense(x, layers, activation))


@pytest.mark.parametrize("rows", [0, 1, 5, 19, 20])
@pytest.mark.parametrize("activate_last", [False, True])
@pytest.mark.parametrize("activation", list(FUNCTIONS))
def test_rows_without_a_gradient_may_be_left_out(activation: str, activate_last: bool, rows: int) -> None:
    """As below the minimum of two critics. The gradient that is handed in is not written to."""
    torch.manual_seed(0)
    layers = [nn.Linear(5, 32), nn.Linear(32, 32), nn.Linear(32, 3)]
    x, given = torch.randn(20, 5), torch.zeros(20, 3)
    given[torch.randperm(20)[:rows]] = torch.randn(rows, 3)
    before = given.clone()
    grads = []
    for frozen in (True, False):
        own = x.clone().requires_grad_()
        arguments = own, layers, activation, activate_last
        y = fused_dense(*arguments, frozen=True) if frozen else one_by_one(*arguments)
        grads.append(torch.autograd.grad(y, own, given)[0])
    torch.testing.assert_close(*grads)
    assert given.equal(before)
    assert not grads[0][~given.any(1)].any()
