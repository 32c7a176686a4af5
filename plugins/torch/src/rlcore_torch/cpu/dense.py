"""A stack of linear layers as one node of the autograd graph, with the gradient written out.

On a CPU, PyTorch's tanh and its products with a matrix of a few columns take several times as long as necessary. The
small networks of reinforcement learning consist of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu

from rlcore_torch.networks.networks import dense, is_plain_linear

MOSTLY = 0.9  # share of rows with a gradient from which all rows are computed
NARROW = 16  # columns; measured: a [256, 256] by [256, 4] product takes 85 us, transposed 14


def fused_dense(
    x: Tensor, layers: Sequence[nn.Module], activation: str, activate_last: bool = False, frozen: bool = False
) -> Tensor:
    """Compute what :func:`rlcore_torch.networks.networks.dense` computes, in float32 on a CPU.

    The plain function computes activations that are not in :data:`FUNCTIONS`, and layers with hooks or
    parametrizations, or of other classes than Linear. Otherwise, a gradient of the gradient raises an error; a gradient
    penalty needs the plain function.
    """
    if not layers:
        return x
    plain = [layer for layer in layers if is_plain_linear(layer)]
    if activation not in FUNCTIONS or len(plain) < len(layers):
        return dense(x, layers, activation, activate_last, frozen)
    parameters: list[Tensor] = [p for layer in plain for p in (layer.weight, layer.bias)]
    if frozen:
        parameters = [p.detach() for p in parameters]
    activated = len(layers) if activate_last else len(layers) - 1
    if not torch.is_grad_enabled():
        return _forward(FUNCTIONS[activation], activated, x, parameters)[0]
    return _Dense.apply(FUNCTIONS[activation], activated, x, *parameters)  # type: ignore[no-any-return, no-untyped-call]


@attrs.frozen
class _Activation:
    forward: Callable[[Tensor], Tensor]  # may work in place unless `of_input`
    backward: Callable[[Tensor, Tensor, Tensor], Any]  # (gradient, x or f(x), out) writes gradient * f'(x) into out
    of_input: bool  # whether `backward` takes x; otherwise it takes f(x)


def _tanh(x: Tensor) -> Tensor:
    array = x.numpy()  # NumPy's vectorized tanh takes a fifth of the time of PyTorch's
    np.tanh(array, out=array)
    return x


def _silu_backward(grad: Tensor, x: Tensor, out: Tensor) -> None:
    torch.ops.aten.silu_backward.grad_input(grad, x, grad_input=out)


def _tanh_backward(grad: Tensor, y: Tensor, out: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(grad, y, grad_input=out)


def _relu_backward(grad: Tensor, y: Tensor, out: Tensor) -> None:
    torch.ops.aten.threshold_backward.grad_input(grad, y, 0, grad_input=out)


FUNCTIONS = {
    "swish": _Activation(silu, _silu_backward, True),
    "tanh": _Activation(_tanh, _tanh_backward, False),
    "relu": _Activation(torch.relu_, _relu_backward, False),
}


def _forward(
    function: _Activation, activated: int, x: Tensor, parameters: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The output, the input of each layer, and what each activation's derivative needs."""
    inputs, kept = [], []
    for k in range(len(parameters) // 2):
        inputs.append(x)
        x = linear(x, parameters[2 * k], parameters[2 * k + 1])
        if k < activated:
            before, x = x, function.forward(x)
            kept.append(before if function.of_input else x)
    return x, inputs, kept


class _Dense(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: _Activation, activated: int, x: Tensor, *parameters: Tensor) -> Tensor:
        x, inputs, kept = _forward(function, activated, x, parameters)
        ctx.function = function
        ctx.save_for_backward(*parameters, *inputs, *kept)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # only under create_graph=True
            raise RuntimeError(
                "this gradient is written by hand and has no gradient of its own; set torch_settings.fast_cpu: false, "
                "or compute this part with rlcore_torch.networks.networks.dense"
            )
        saved, needed, given = ctx.saved_tensors, ctx.needs_input_grad[2:], grads[0]
        layers = (len(needed) - 1) // 2
        parameters, inputs, kept = saved[: 2 * layers], saved[2 * layers : 3 * layers], saved[3 * layers :]
        rows = None if any(needed[1:]) else _few_rows(given)
        grad = given if rows is None else given.index_select(0, rows)
        answers: list[Tensor | None] = [None] * (1 + 2 * layers)  # for x, then weight and bias of each layer
        for k in range(layers - 1, -1, -1):
            if k < len(kept):
                own = torch.empty_like(grad) if grad is given else grad  # the caller's gradient is not written to
                ctx.function.backward(grad, kept[k] if rows is None else kept[k].index_select(0, rows), own)
                grad = own
            if needed[1 + 2 * k]:
                answers[1 + 2 * k] = _transposed_product(grad, inputs[k])
                answers[2 + 2 * k] = grad.sum(0)
            if k > 0 or needed[0]:
                grad = _product(grad, parameters[2 * k])
        if needed[0]:
            answers[0] = grad if rows is None else grad.new_zeros(len(given), grad.shape[1]).index_copy_(0, rows, grad)
        return None, None, *answers


def _few_rows(grad: Tensor) -> Tensor | None:
    """The rows of ``grad`` that are not zero, where leaving out the others is worth the copies that it takes.

    The minimum of two critics passes a gradient to one of them in each row.
    """
    rows = grad.any(1).nonzero().squeeze(1)
    return rows if len(rows) < MOSTLY * len(grad) else None


def _product(a: Tensor, b: Tensor) -> Tensor:
    """a b, transposed on both sides if b has few columns."""
    return a @ b if b.shape[1] >= NARROW else (b.t() @ a.t()).t()


def _transposed_product(a: Tensor, b: Tensor) -> Tensor:
    """a^T b, with the narrower matrix first."""
    return a.t() @ b if a.shape[1] <= b.shape[1] else (b.t() @ a).t()
