"""Adam over one flat tensor, for a CPU. ``torch_settings.fast_cpu: false`` runs with ``torch.optim.Adam``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlcore_torch.optimization.optimizer import BETAS, Adam

# The weights of a ReLU that no observation activates have no gradient any more, so their moments shrink with each step.
# Below 1e-38 they are denormal: rounding keeps them there, and a processor is some 20 times slower with them.
# After 1,000 gradient steps of TD3 on Pendulum, 40% of the means were denormal, and Adam took 1,700 us instead of 100.

VANISHED_EVERY = 100  # steps, in which a mean without a gradient shrinks by a factor of 4e4
VANISHED_MEAN = 1e-30  # with an epsilon of 1e-8, the step is 1e-22 of the learning rate
VANISHED_SQUARE = 1e-37  # added as its root to epsilon


class FlatAdam(Adam):
    """Adam with the interface and the results of :class:`rlcore_torch.TorchAdam`.

    The parameters become views of one tensor, so a network works as before. Gradients that are clipped are copied to
    views of another. PyTorch's kernel is called without ``torch.optim``: its checks of a group of tensors take as long
    as the step of a small network, and importing it takes longer than everything else between ``import torch`` and the
    first environment step.

    The kernel gets the parameters one by one where they cannot be one tensor, because another optimizer has some of
    them, and where some have no gradient, or had none before: those do not move, and count their steps by themselves.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        learning_rate: float,
        epsilon: float,
        betas: tuple[float, float] = BETAS,
    ) -> None:
        parameters = list(parameters)
        flat = None
        if all(p.untyped_storage().nbytes() == p.nbytes for p in parameters):  # else they are views of another tensor
            flat = torch.cat([p.detach().reshape(-1) for p in parameters])  # [number of parameters]
            for p, part in zip(parameters, _parts(flat, parameters), strict=True):
                p.data = part
        self._take(parameters, flat, learning_rate, epsilon, betas)

    def _take(
        self,
        parameters: Sequence[nn.Parameter],
        flat: Tensor | None,
        learning_rate: float,
        epsilon: float,
        betas: tuple[float, float],
    ) -> None:
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.epsilon = epsilon
        self.betas = betas
        self._flat = flat
        size = sum(p.numel() for p in parameters)
        dtype = parameters[0].dtype
        self._grad = torch.zeros(size, dtype=dtype)
        self._mean = torch.zeros(size, dtype=dtype)
        self._square = torch.zeros(size, dtype=dtype)
        self._grads = _parts(self._grad, parameters)
        self._means = _parts(self._mean, parameters)
        self._squares = _parts(self._square, parameters)
        self._step = torch.zeros(())  # of all parameters
        self._steps: list[Tensor] = []  # of each, where they differ

    def another(self, learning_rate: float) -> FlatAdam:
        other = FlatAdam.__new__(FlatAdam)
        other._take(self.parameters, self._flat, learning_rate, self.epsilon, self.betas)
        return other

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = None

    def clip_grad_norm(self, max_norm: float) -> Tensor:
        self._gather()
        norm: Tensor = torch.linalg.vector_norm(self._grad)
        limited = norm + 1e-6  # as torch.nn.utils.clip_grad_norm_ has it
        if not limited <= max_norm:  # NaN too
            self._grad.mul_(max_norm / limited)
        return norm

    @torch.no_grad()
    def step(self) -> None:
        count = len(self.parameters)
        grads = [p.grad for p in self.parameters if p.grad is not None and p.grad.is_contiguous()]
        moves_all = len(grads) == count and not self._steps
        if moves_all and grads[0] is not self._grads[0]:
            # Not clipped: a copy to the flat gradient would take as long as the step.
            self._step += 1
            steps = [self._step] * count
            self._move(list(self.parameters), grads, self._means, self._squares, steps)
            self._drop_vanished(self._step)
            return
        is_complete = self._gather()
        if is_complete and self._flat is not None and not self._steps:
            self._step += 1
            self._move([self._flat], [self._grad], [self._mean], [self._square], [self._step])
            self._drop_vanished(self._step)
            return
        if not self._steps:
            self._steps = [self._step.clone() for _ in self.parameters]
        moved = [k for k, p in enumerate(self.parameters) if p.grad is not None]
        if not moved:
            return
        values = [self.parameters[k].data for k in moved]
        grads = [self._grads[k] for k in moved]
        means = [self._means[k] for k in moved]
        squares = [self._squares[k] for k in moved]
        steps = [self._steps[k] for k in moved]
        torch._foreach_add_(steps, 1)
        self._move(values, grads, means, squares, steps)
        self._drop_vanished(steps[0])

    def _drop_vanished(self, step: Tensor) -> None:
        """Every hundred steps, let moments that are too small to move a parameter be zero."""
        if int(step) % VANISHED_EVERY:
            return
        hardshrink = torch.ops.aten.hardshrink.out
        hardshrink(self._mean, VANISHED_MEAN, out=self._mean)
        hardshrink(self._square, VANISHED_SQUARE, out=self._square)

    def _move(
        self, values: list[Tensor], grads: list[Tensor], means: list[Tensor], squares: list[Tensor], steps: list[Tensor]
    ) -> None:
        torch._fused_adam_(
            values,
            grads,
            means,
            squares,
            [],
            steps,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=self.learning_rate,
            weight_decay=0.0,
            eps=self.epsilon,
            maximize=False,
        )

    @torch.no_grad()
    def _gather(self) -> bool:
        """Let the gradients be views of the flat one, in which those that are missing are zero. Returns if none is."""
        is_complete = True
        sources = []
        targets = []
        for p, part in zip(self.parameters, self._grads, strict=True):
            grad = p.grad
            if grad is None:
                is_complete = False
                part.zero_()
            elif grad is not part:
                sources.append(grad)
                targets.append(part)
                p.grad = part
        if sources:
            torch._foreach_copy_(targets, sources)
        return is_complete

    def moments(self) -> dict[str, Tensor]:
        step = torch.stack(self._steps) if self._steps else self._step
        return {"mean": self._mean, "square": self._square, "step": step}

    def load_moments(self, moments: dict[str, Any]) -> None:
        self._mean.copy_(moments["mean"])
        self._square.copy_(moments["square"])
        step = moments["step"]
        self._steps = []
        if step.dim():
            self._steps = list(step.clone())
        else:
            self._step.copy_(step)


def _parts(flat: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """Views of ``flat`` in the parameters' shapes."""
    pieces = flat.split([p.numel() for p in parameters])  # type: ignore[no-untyped-call]
    return [piece.view_as(p) for piece, p in zip(pieces, parameters, strict=True)]
