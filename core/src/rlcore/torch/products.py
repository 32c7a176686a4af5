"""Products of float32 matrices on a CPU, each by the faster of the two libraries PyTorch ships.

PyTorch multiplies matrices with MKL, and computes convolutions and compiled linear layers with oneDNN. On the AMD CPU
with AVX-512 that this was measured on, oneDNN takes half of MKL's time for a large product; a call of it costs more.
In microseconds, on one core: 256 rows through a layer of 256 by 256, MKL 310 and oneDNN 150; 1024 rows through 64 by
64, 82 and 45; 64 rows through 64 by 64, 7 and 13.

The choice depends on the CPU and the shapes alone, so that a run repeats itself bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

NARROW = 16  # columns; measured: a [256, 256] by [256, 4] product takes 56 us, transposed 16
LARGE = 2**20  # multiplications; measured: from here on oneDNN is the faster, where it can use AVX-512

Linear = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def _one_dnn() -> Linear | None:
    """``x W^T + b`` by oneDNN, or None where that is not the faster way."""
    available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not available or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return None
    try:
        # What PyTorch's own compiler calls for a linear layer.
        operator = torch.ops.mkldnn._linear_pointwise.default
    except AttributeError:
        return None
    return lambda x, weight, bias: operator(x, weight, bias, "none", [], "")


_linear = _one_dnn()


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W^T + b: a linear layer [B, out] of x [B, in], with W [out, in]."""
    if _linear is not None and x.numel() * len(weight) >= LARGE:
        return _linear(x, weight, bias)
    return torch.addmm(bias, x, weight.t())


def product(a: Tensor, b: Tensor) -> Tensor:
    """a b, transposed on both sides where b is only a few columns wide, which takes a third of the time."""
    return _product(a, b) if b.shape[1] >= NARROW else (b.t() @ a.t()).t()


def transposed_product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """a^T b, the narrower matrix first: the other order takes three times as long where one is only a few wide."""
    made = _product(a.t(), b) if a.shape[1] <= b.shape[1] else _product(b.t(), a).t()
    return made if out is None else out.copy_(made)


def _product(a: Tensor, b: Tensor) -> Tensor:
    if _linear is not None and a.numel() * b.shape[1] >= LARGE:
        return _linear(a, b.t(), None)
    return a @ b
