"""Stacks of linear layers: the part of a network where almost all of the arithmetic is.

On a CPU a whole stack is one node of the autograd graph, with the gradient written out below. For the small networks
of reinforcement learning, PyTorch's bookkeeping for each layer costs about as much as the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from rlcore.torch.activations import ACTIVATIONS, Activation
from rlcore.torch.products import affine, product, transposed_product


def linear_stack(
    x: Tensor,
    layers: Sequence[nn.Linear],
    activation: str,
    activate_last: bool = False,
    twice_differentiable: bool = False,
    frozen: bool = False,
) -> Tensor:
    """``layers`` one after the other on x [B, in], with the activation between them (and after the last if asked).

    A gradient of the gradient (a gradient penalty, say) needs ``twice_differentiable``; without it, it is refused.
    ``frozen`` gives x a gradient and the layers none, at two thirds of the cost.
    """
    if not layers:
        return x
    function = ACTIVATIONS[activation]
    if written_by_hand(x) and not twice_differentiable:
        parameters = parameters_of(layers)
        if frozen:
            parameters = [parameter.detach() for parameter in parameters]
        return _CpuStack.apply(function, activate_last, x, *parameters)  # type: ignore[no-any-return, no-untyped-call]
    for index, layer in enumerate(layers):
        x = linear(x, layer.weight.detach(), layer.bias.detach()) if frozen else layer(x)
        if activate_last or index < len(layers) - 1:
            x = function.torch(x)
    return x


def refuse_second_derivative(advice: str) -> None:
    """For gradients written by hand: raises where autograd would differentiate them, which gives wrong numbers."""
    if torch.is_grad_enabled():  # only under create_graph=True
        raise RuntimeError(f"this gradient was written by hand and has no gradient of its own; {advice}")


@attrs.frozen(eq=False)
class _Kept:
    """What a pass through a stack leaves for the gradient."""

    given: list[Tensor]  # the input of each layer
    before: list[Tensor]  # what went into each activation, if its derivative needs it


def _forward(activation: Activation, activated: int, x: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, _Kept]:
    """The output, after the activation of the first ``activated`` layers."""
    kept = _Kept([], [])
    for k in range(len(parameters) // 2):
        kept.given.append(x)
        x = affine(x, parameters[2 * k], parameters[2 * k + 1])
        if k < activated:
            if activation.derivative_of_input:
                kept.before.append(x)
            x = activation.forward(x)
    return x, kept


def _layer_slopes(
    activation: Activation, activated: int, parameters: Sequence[Tensor], kept: _Kept, output: Tensor, slope: Tensor
) -> Iterator[tuple[int, Tensor]]:
    """From the last layer to the first: its number, and the slope of the loss by what it puts out. The chain rule."""
    for k in range(len(parameters) // 2 - 1, -1, -1):
        if k < activated:
            after = kept.given[k + 1] if k + 1 < len(kept.given) else output
            slope = activation.backward(slope, kept.before[k] if activation.derivative_of_input else after)
        yield k, slope
        if k > 0:
            slope = product(slope, parameters[2 * k])


class _CpuStack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, activation: Activation, activate_last: bool, x: Tensor, *parameters: Tensor) -> Tensor:
        activated = len(parameters) // 2 - (0 if activate_last else 1)
        output, kept = _forward(activation, activated, x, parameters)
        ctx.activation, ctx.activated, ctx.layers = activation, activated, len(parameters) // 2
        ctx.save_for_backward(output, *parameters, *kept.given, *kept.before)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative("pass twice_differentiable=True to linear_stack")
        output, *saved = ctx.saved_tensors
        n = ctx.layers
        parameters, kept = saved[: 2 * n], _Kept(saved[2 * n : 3 * n], saved[3 * n :])
        answers: list[Tensor | None] = [None] * (2 * n)
        of_x: Tensor | None = None
        for k, slope in _layer_slopes(ctx.activation, ctx.activated, parameters, kept, output, gradients[0]):
            if ctx.needs_input_grad[3 + 2 * k]:
                answers[2 * k] = transposed_product(slope, kept.given[k])
                answers[2 * k + 1] = slope.sum(0)
            if k == 0 and ctx.needs_input_grad[2]:
                of_x = product(slope, parameters[0])
        return None, None, of_x, *answers


def descend(x: Tensor, layers: Sequence[nn.Linear], activation: str, slope: Callable[[Tensor], Tensor]) -> Tensor:
    """The output [B, out] of ``layers`` on x [B, in]; their ``grad`` becomes the gradient of a loss.

    ``slope`` gives the derivative of the loss by the output, [B, out], so that no graph of the loss is needed: for a
    squared error it is a subtraction. Every parameter must have a ``grad`` tensor, which is written over; with
    :class:`~rlcore.torch.flat.FlatParameters` it has. x gets no gradient.
    """
    if not written_by_hand(x):
        output = linear_stack(x, layers, activation)
        for parameter, gradient in zip(
            parameters_of(layers),
            torch.autograd.grad(output, parameters_of(layers), slope(output.detach())),
            strict=True,
        ):
            assert parameter.grad is not None
            parameter.grad.copy_(gradient)
        return output.detach()
    with torch.no_grad():
        parameters, function = parameters_of(layers), ACTIVATIONS[activation]
        output, kept = _forward(function, len(layers) - 1, x, parameters)
        for k, given in _layer_slopes(function, len(layers) - 1, parameters, kept, output, slope(output)):
            weight, bias = parameters[2 * k].grad, parameters[2 * k + 1].grad
            assert weight is not None and bias is not None
            transposed_product(given, kept.given[k], out=weight)
            torch.sum(given, 0, out=bias)
        return output


def parameters_of(layers: Sequence[nn.Linear]) -> list[Tensor]:
    """Weight and bias of each layer in turn."""
    return [parameter for layer in layers for parameter in (layer.weight, layer.bias)]


def written_by_hand(x: Tensor) -> bool:
    """Whether gradients of a stack on ``x`` are those written out here."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and not torch.compiler.is_compiling()
