"""A stack of linear layers whose gradient is written by hand, against autograd."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_torch import ActorCritic, NetworkSettings
from rlcore_torch.acceleration import linear_stack, network_stacks
from rlcore_torch.acceleration.linear_stack import MOST_PREPARED, LinearStack, StackOutputs
from rlcore_torch.acceleration.network_stacks import critic_layers
from rlcore_torch.networks.layers import dense

ROWS = 16
INPUTS = 3


SPEC = BehaviorSpec(
    "Agent",
    (ObservationSpec("seen", (INPUTS,), np.float32),),
    2,
    (3,),
    -np.ones(2, np.float32),
    np.ones(2, np.float32),
    env_index=np.arange(4),
)


def stack_of(layers: Sequence[nn.Linear], activation: str) -> tuple[LinearStack, Tensor]:
    inputs = torch.ones(ROWS, INPUTS + 1)
    return LinearStack(layers, activation, inputs, torch.empty(ROWS * LinearStack.numbers(layers, activation))), inputs


@torch.no_grad()
def require_equal(stack: LinearStack, inputs: Tensor, layers: Sequence[nn.Linear], activation: str, rows: int) -> None:
    """Outputs, and the gradients of a sum over two pieces of ``rows`` rows, are those of plain PyTorch."""
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(2, rows, INPUTS, generator=generator)
    weight = torch.randn(2, layers[-1].out_features, rows, generator=generator)
    with torch.enable_grad():
        expected = [dense(piece, layers, activation).t() for piece in x]
        parameters = [parameter for layer in layers for parameter in (layer.weight, layer.bias)]
        total = sum((output * factor).sum() for output, factor in zip(expected, weight, strict=True))
        gradients = torch.autograd.grad(total, parameters)
    stack.begin()
    for piece, factor, output in zip(x, weight, expected, strict=True):
        inputs[:rows, :-1] = piece
        torch.testing.assert_close(stack.forward(rows), output.detach())
        stack.backward(factor)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        torch.testing.assert_close(stack.gradients[parameter], gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["tanh", "relu", "swish"])
@pytest.mark.parametrize("widths", [(2,), (5, 1), (7, 2, 9)])
def test_outputs_and_gradients_are_those_of_autograd(activation: str, widths: tuple[int, ...]) -> None:
    """Numbers of rows beyond those whose calls are kept work too, and so does the first of them after that."""
    sizes = zip((INPUTS, *widths), widths, strict=False)
    layers = [nn.Linear(inputs, outputs) for inputs, outputs in sizes]
    stack, inputs = stack_of(layers, activation)
    for rows in (*range(ROWS, ROWS - MOST_PREPARED - 2, -1), 1, ROWS):
        require_equal(stack, inputs, layers, activation, rows)


def test_weights_that_changed_or_moved_in_memory_are_used() -> None:
    layers = [nn.Linear(INPUTS, 6), nn.Linear(6, 6), nn.Linear(6, 2)]
    stack, inputs = stack_of(layers, "tanh")
    require_equal(stack, inputs, layers, "tanh", ROWS)
    with torch.no_grad():
        for layer in layers:
            layer.weight.mul_(1.5)
            layer.bias.add_(0.25)
    require_equal(stack, inputs, layers, "tanh", ROWS)
    for layer in layers:
        layer.weight.data, layer.bias.data = 0.5 * layer.weight.data, layer.bias.data - 0.5
    require_equal(stack, inputs, layers, "tanh", ROWS)


@pytest.mark.parametrize("normalize", [False, True])
def test_values_of_many_rows_are_those_of_the_network(monkeypatch: pytest.MonkeyPatch, normalize: bool) -> None:
    """Fewer rows than a piece, whole pieces, and one row more; and with weights that an update changed in place."""
    monkeypatch.setattr(linear_stack, "LARGEST_LAYER", 100 * 8)
    model = ActorCritic(SPEC, NetworkSettings(hidden_units=8, normalize=normalize), value_heads=2, shared=False)
    generator = torch.Generator().manual_seed(3)
    if normalize:
        model.inputs.update_normalizer((4.0 + 3.0 * torch.randn(50, INPUTS, generator=generator),))
    layers = critic_layers(model)
    assert layers is not None
    values = StackOutputs(*layers)
    for rows in (1, 100, 129, 200, 201, 100):
        seen = torch.randn(rows, INPUTS, generator=generator) * 3
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1)
            inputs = model.inputs((seen,))
            np.testing.assert_allclose(values(inputs[0].numpy()), model.value(inputs), rtol=1e-4, atol=1e-5)


class OwnValue(ActorCritic):
    def value(self, inputs: tuple[Tensor, ...]) -> Tensor:
        return 2.0 * super().value(inputs)


def test_a_network_that_overrides_its_values_computes_them_itself() -> None:
    assert critic_layers(OwnValue(SPEC, NetworkSettings(hidden_units=4), value_heads=1, shared=False)) is None


@pytest.mark.parametrize(
    ("inputs", "units", "rows"), [(262_144, 4, 15), (65_536, 2, 63), (376, 64, 2048), (3, 256, 512)]
)
def test_rows_at_once_are_as_few_as_wide_inputs_ask_for(inputs: int, units: int, rows: int) -> None:
    """Small layers after many inputs took a row of inputs for each of tens of thousands of rows: 34 GB."""
    with torch.device("meta"):
        layers = [nn.Linear(inputs, units), nn.Linear(units, 1)]
    assert linear_stack.rows_at_once(layers) == rows
    assert rows * (inputs + 1) <= linear_stack.LARGEST_INPUTS and rows * units <= linear_stack.LARGEST_LAYER


def test_the_stacks_of_a_loss_have_no_more_rows_than_a_minibatch() -> None:
    model = ActorCritic(SPEC, NetworkSettings(hidden_units=8, num_layers=1), 1, shared=False)
    for most, rows in ((None, 2**14), (96, 96)):
        made = network_stacks.actor_critic_layers(model, most)
        assert made is not None and made[2].shape == (rows, INPUTS + 1)
