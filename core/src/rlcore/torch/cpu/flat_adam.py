"""Adam and gradient clipping over one flat tensor instead of a dozen small ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlcore.torch.optimizer import BETAS, Adam


class FlatAdam(Adam):
    """Adam with the interface and the results of :class:`rlcore.torch.optimizer.TorchAdam`.

    The parameters become views of one tensor and their gradients views of another, so a network works as before.
    PyTorch's kernel is called without ``torch.optim``: its checks of a group of tensors take as long as the step of a
    small network, and importing it takes longer than everything else between ``import torch`` and the first
    environment step.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], learning_rate: float, epsilon: float) -> None:
        parameters = list(parameters)
        flat = torch.cat([p.detach().reshape(-1) for p in parameters])  # [number of parameters]
        for p, own in zip(parameters, _parts(flat, parameters), strict=True):
            p.data = own
        self._take(parameters, flat, learning_rate, epsilon)

    def _take(self, parameters: Sequence[nn.Parameter], flat: Tensor, learning_rate: float, epsilon: float) -> None:
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.epsilon = epsilon
        self._flat, self._grad = flat, torch.zeros_like(flat)
        self._grads = _parts(self._grad, parameters)
        self._mean, self._square, self._step = torch.zeros_like(flat), torch.zeros_like(flat), torch.zeros(())

    def another(self, learning_rate: float) -> FlatAdam:
        made = FlatAdam.__new__(FlatAdam)
        made._take(self.parameters, self._flat, learning_rate, self.epsilon)
        return made

    def zero_grad(self) -> None:
        self._grad.zero_()
        for p, own in zip(self.parameters, self._grads, strict=True):
            p.grad = own

    def clip_grad_norm(self, max_norm: float) -> Tensor:
        self._gather()
        norm: Tensor = torch.linalg.vector_norm(self._grad)
        self._grad.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1.0))
        return norm

    @torch.no_grad()
    def step(self) -> None:
        self._gather()
        self._step += 1
        torch._fused_adam_(
            [self._flat], [self._grad], [self._mean], [self._square], [], [self._step],
            amsgrad=False, beta1=BETAS[0], beta2=BETAS[1], lr=self.learning_rate, weight_decay=0.0, eps=self.epsilon,
            maximize=False,
        )  # fmt: skip

    def _gather(self) -> None:
        """Copy gradients that are not views of the flat one, such as those after the model's own ``zero_grad``."""
        for p, own in zip(self.parameters, self._grads, strict=True):
            if p.grad is not own:
                if p.grad is None:
                    own.zero_()
                else:
                    own.copy_(p.grad)
                p.grad = own

    def moments(self) -> dict[str, Tensor]:
        return {"mean": self._mean, "square": self._square, "step": self._step}

    def load_moments(self, moments: dict[str, Any]) -> None:
        for name, tensor in self.moments().items():
            tensor.copy_(moments[name])


def _parts(flat: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """Views of ``flat`` in the parameters' shapes."""
    pieces = flat.split([p.numel() for p in parameters])  # type: ignore[no-untyped-call]
    return [piece.view_as(p) for piece, p in zip(pieces, parameters, strict=True)]
