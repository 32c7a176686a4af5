"""Stacks of linear layers: the part of a network where almost all of the arithmetic is.

On a CPU a whole stack is one node of the autograd graph, with the gradient written out below. For the small networks
of reinforcement learning, PyTorch's bookkeeping for each layer costs about as much as the layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from rlcore.torch.activations import ACTIVATIONS, Activation


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
    by_hand = x.device.type == "cpu" and x.dtype == torch.float32 and not torch.compiler.is_compiling()
    if by_hand and not twice_differentiable:
        parameters: list[Tensor] = [parameter for layer in layers for parameter in (layer.weight, layer.bias)]
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


def transposed_product(a: Tensor, b: Tensor) -> Tensor:
    """a^T b, the narrower matrix first: the other order takes three times as long where one is only a few wide."""
    return a.t() @ b if a.shape[1] <= b.shape[1] else (b.t() @ a).t()


class _CpuStack(torch.autograd.Function):
    """Forward keeps what each layer was given and what its activation needs; backward is the chain rule."""

    @staticmethod
    def forward(ctx: Any, activation: Activation, activate_last: bool, x: Tensor, *parameters: Tensor) -> Tensor:
        count = len(parameters) // 2
        activated = count if activate_last else count - 1
        kept = [x]  # the input of each layer
        before = []  # what went into each activation, if its derivative needs it
        for k in range(count):
            x = torch.addmm(parameters[2 * k + 1], x, parameters[2 * k].t())
            if k < activated:
                if activation.derivative_of_input:
                    before.append(x)
                x = activation.forward(x)
                kept.append(x)
        ctx.activation, ctx.activated, ctx.kept_count = activation, activated, len(kept)
        ctx.save_for_backward(*kept, *before, *parameters)
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative("pass twice_differentiable=True to linear_stack")
        (gradient,) = gradients
        activation, activated = ctx.activation, ctx.activated
        saved = ctx.saved_tensors
        kept, saved = saved[: ctx.kept_count], saved[ctx.kept_count :]
        before = saved[:activated] if activation.derivative_of_input else kept[1:]
        parameters = saved[activated:] if activation.derivative_of_input else saved
        count = len(parameters) // 2
        answers: list[Tensor | None] = [None] * (2 * count)
        for k in range(count - 1, -1, -1):
            if k < activated:
                gradient = activation.backward(gradient, before[k])
            if ctx.needs_input_grad[3 + 2 * k]:
                answers[2 * k] = transposed_product(gradient, kept[k])
                answers[2 * k + 1] = gradient.sum(0)
            if k > 0 or ctx.needs_input_grad[2]:
                gradient = gradient @ parameters[2 * k]
        return None, None, gradient if ctx.needs_input_grad[2] else None, *answers
