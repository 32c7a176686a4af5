"""Non-linearities by the names the configuration uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class _CpuTanh(torch.autograd.Function):
    """tanh through NumPy's vectorised kernel, which is several times faster than PyTorch's on a CPU.

    The two agree to a few units in the last place; the gradient, g * (1 - y^2), is PyTorch's own.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        np.tanh(x.detach().numpy(), out=y.numpy())
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(gradients[0], y)  # type: ignore[no-any-return]


class Tanh(nn.Module):
    """tanh, by whichever kernel is faster on the tensor's device."""

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type == "cpu" and x.dtype == torch.float32 and not torch.compiler.is_compiling():
            return _CpuTanh.apply(x)  # type: ignore[no-any-return, no-untyped-call]
        return torch.tanh(x)


MODULES: dict[str, Callable[[], nn.Module]] = {"swish": nn.SiLU, "tanh": Tanh, "relu": nn.ReLU}


def numpy_swish(x: NDArray[np.float32]) -> NDArray[np.float32]:
    logistic: NDArray[np.float32] = 0.5 + 0.5 * np.tanh(0.5 * x)  # by tanh, which cannot overflow
    return x * logistic


def numpy_tanh(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.tanh(x, out=x)


def numpy_relu(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.maximum(x, 0.0, out=x)


NUMPY: dict[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    "swish": numpy_swish,
    "tanh": numpy_tanh,
    "relu": numpy_relu,
}
