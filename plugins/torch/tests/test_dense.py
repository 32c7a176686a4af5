# mypy: allow-untyped-calls
"""Stacks of linear layers against PyTorch's layer by layer."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from rlcore_torch.networks.layers import dense

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


def one_by_one(x: Tensor, layers: list[nn.Linear], activation: str, activate_last: bool) -> Tensor:
    for k, layer in enumerate(layers):
        x = layer(x)
        if activate_last or k < len(layers) - 1:
            x = FUNCTIONS[activation](x)
    return x


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("activate_last", [False, True])
@pytest.mark.parametrize("widths", [(5,), (5, 7), (5, 7, 6, 1)])
@pytest.mark.parametrize("activation", list(FUNCTIONS))
def test_values_and_gradients_are_those_of_the_layers(
    activation: str, widths: tuple[int, ...], activate_last: bool, frozen: bool
) -> None:
    """Frozen layers get no gradient, and hand on that of their inputs."""
    torch.manual_seed(len(widths))
    layers = [nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    x = torch.randn(9, widths[0]) * 3
    weight = torch.randn(9, widths[-1])
    given = x.clone().requires_grad_()
    plain = x.clone().requires_grad_()
    output = dense(given, layers, activation, activate_last, frozen)
    expected = one_by_one(plain, layers, activation, activate_last)
    torch.testing.assert_close(output, expected)
    ours = torch.autograd.grad((output * weight).sum(), [given, *parameters], allow_unused=True)
    theirs = torch.autograd.grad((expected * weight).sum(), [plain, *parameters], allow_unused=True)
    torch.testing.assert_close(ours[0], theirs[0])
    if frozen:
        assert all(gradient is None for gradient in ours[1:])
    else:
        torch.testing.assert_close(ours[1:], theirs[1:])
