"""A gradient step that ``torch.compile`` turns into fewer, larger kernels: ``torch_settings.compile``.

It pays for large networks on a GPU. The first steps wait for the compiler, which is Triton's there and a C++ compiler
on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from rlcore import ConfigError
from rlcore_torch.optimization.optimizer import Optimizer

__all__ = ["compiled_step", "leave_out"]

Result = TypeVar("Result")


def compiled_step(step: Callable[..., Result]) -> Callable[..., Result]:
    """Return ``step``, compiled when it is first called, and again for other shapes.

    Raises ConfigError there if the machine has no compiler that works.
    """
    compiled: Callable[..., Any] = torch.compile(step)

    def call(*arguments: Any) -> Result:
        from torch._dynamo.exc import TorchDynamoException  # takes as long to import as PyTorch

        try:
            result: Result = compiled(*arguments)
        except TorchDynamoException as error:
            cause = str(error).strip().splitlines()[0]
            raise ConfigError(
                f"the gradient step cannot be compiled: {cause}; install what is missing, or leave compile out",
                key=("torch_settings", "compile"),
            ) from error
        return result

    return call


def leave_out(optimizer: Optimizer) -> None:
    """Keep what ``optimizer`` does out of compiled steps: Adam is one kernel, and a rate that falls would compile it
    again at every step.
    """
    for name in ("zero_grad", "step"):
        setattr(optimizer, name, torch.compiler.disable(getattr(optimizer, name)))  # type: ignore[no-untyped-call]
