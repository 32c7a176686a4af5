"""Adam and gradient clipping over one flat tensor instead of a dozen small ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from rlcore.torch.optimizer import BETAS, Adam


class FlatAdam(Adam):
    """Adam with the interface and the results of :class:`rlcore.torch.optimizer.TorchAdam`.

    The parameters become views of one tensor and their gradients views of another, so a network works as before.
    PyTorch's kernel is called without ``torch.optim.Optimizer``: importing that takes longer than everything else
    between ``import torch`` and the first environment step.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], learning_rate: float, epsilon: float) -> None:
        parameters = list(parameters)
        flat = torch.cat([p.detach().reshape(-1) for p in parameters])  # [number of parameters]
        grad = torch.zeros_like(flat)
        sizes = [p.numel() for p in parameters]
        for p, own, own_grad in zip(parameters, flat.split(sizes), grad.split(sizes), strict=True):  # type: ignore[no-untyped-call]
            p.data, p.grad = own.view_as(p), own_grad.view_as(p)
        self._take(parameters, flat, grad, learning_rate, epsilon)

    def _take(
        self, parameters: Sequence[nn.Parameter], flat: Tensor, grad: Tensor, learning_rate: float, epsilon: float
    ) -> None:
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.epsilon = epsilon
        self._flat, self._grad = flat, grad
        self._views = [p.grad for p in parameters]
        self._mean, self._square, self._step = torch.zeros_like(flat), torch.zeros_like(flat), torch.zeros(())

    def another(self, learning_rate: float, epsilon: float) -> FlatAdam:
        made = FlatAdam.__new__(FlatAdam)
        made._take(self.parameters, self._flat, self._grad, learning_rate, epsilon)
        return made

    def zero_grad(self) -> None:
        self._grad.zero_()

    def clip_grad_norm(self, max_norm: float) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(self._grad)
        self._grad.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1.0))
        return norm

    @torch.no_grad()
    def step(self) -> None:
        if any(p.grad is not view for p, view in zip(self.parameters, self._views, strict=True)):
            raise RuntimeError("a parameter's grad was replaced; zero gradients with this optimizer's zero_grad()")
        adam(
            [self._flat], [self._grad], [self._mean], [self._square], [], [self._step],
            fused=True, amsgrad=False, beta1=BETAS[0], beta2=BETAS[1], lr=self.learning_rate, weight_decay=0.0,
            eps=self.epsilon, maximize=False,
        )  # fmt: skip

    def moments(self) -> dict[str, Tensor]:
        return {"mean": self._mean, "square": self._square, "step": self._step}

    def load_moments(self, moments: dict[str, Any]) -> None:
        for name, tensor in self.moments().items():
            tensor.copy_(moments[name])
