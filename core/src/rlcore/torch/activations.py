"""Non-linearities by the names the configuration uses, each for PyTorch, for NumPy and with its derivative."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FloatArray = NDArray[np.float32]


@attrs.frozen
class Activation:
    """One non-linearity f."""

    torch: Callable[[Tensor], Tensor]  # on any device, differentiable
    numpy: Callable[[FloatArray], FloatArray]  # may work in place
    forward: Callable[[Tensor], Tensor]  # on a CPU without autograd; may work in place unless derivative_of_input
    backward: Callable[[Tensor, Tensor], Tensor]  # (gradient, x or f(x)) -> gradient * f'(x)
    derivative_of_input: bool  # whether backward takes x; otherwise it takes f(x)


def _tanh_array(x: FloatArray) -> FloatArray:
    return np.tanh(x, out=x)


def _tanh_in_place(x: Tensor) -> Tensor:
    np.tanh(x.numpy(), out=x.numpy())  # NumPy's vectorised kernel is several times faster than PyTorch's
    return x


def _tanh_backward(gradient: Tensor, y: Tensor) -> Tensor:
    return torch.ops.aten.tanh_backward(gradient, y)  # type: ignore[no-any-return]


def _relu_array(x: FloatArray) -> FloatArray:
    return np.maximum(x, 0.0, out=x)


def _relu_backward(gradient: Tensor, y: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(gradient, y, 0)  # type: ignore[no-any-return]


def _swish_array(x: FloatArray) -> FloatArray:
    logistic: FloatArray = 0.5 + 0.5 * np.tanh(0.5 * x)  # by tanh, which cannot overflow
    return x * logistic


def _swish_backward(gradient: Tensor, x: Tensor) -> Tensor:
    return torch.ops.aten.silu_backward(gradient, x)  # type: ignore[no-any-return]


ACTIVATIONS = {
    "swish": Activation(torch.nn.functional.silu, _swish_array, torch.nn.functional.silu, _swish_backward, True),
    "tanh": Activation(torch.tanh, _tanh_array, _tanh_in_place, _tanh_backward, False),
    "relu": Activation(torch.relu, _relu_array, torch.relu_, _relu_backward, False),
}
