"""Adam, with a state that fits into a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rlcore.errors import RunStateError
from rlcore.saved_values import saved_array

__all__ = ["Adam", "TorchAdam"]

BETAS = (0.9, 0.999)  # those of the paper, and of PyTorch


class Adam:
    """The interface of both implementations of Adam (Kingma and Ba 2015, arXiv:1412.6980, algorithm 1).

    A gradient step is ``zero_grad()``, ``loss.backward()``, ``clip_grad_norm(...)`` where wanted, ``step()``.

    Attributes:
        parameters: The parameters that are moved.
        learning_rate: Step size; may be set before every step.
        epsilon: Added to the root of the second moment.
    """

    parameters: Sequence[nn.Parameter]
    learning_rate: float
    epsilon: float

    def another(self, learning_rate: float, epsilon: float) -> Adam:
        """Return an Adam of the same parameters, with moments of its own."""
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Clear the gradients of the parameters."""
        raise NotImplementedError

    def clip_grad_norm(self, max_norm: float) -> Tensor:
        """Scale the gradient to an L2 norm of at most ``max_norm``; return the norm before, of shape []."""
        raise NotImplementedError

    def step(self) -> None:
        """Move the parameters against the gradient that ``backward`` left in them."""
        raise NotImplementedError

    def moments(self) -> dict[str, Tensor]:
        """Return ``mean`` and ``square``, both [P] for all P numbers of the parameters, and the ``step``, []."""
        raise NotImplementedError

    def load_moments(self, moments: dict[str, Any]) -> None:
        """Continue from the tensors of :meth:`moments`."""
        raise NotImplementedError

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return the moments as numpy arrays by name."""
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.moments().items()}

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raise RunStateError if the moments belong to another model, or are not finite."""
        for name, tensor in self.moments().items():
            saved = saved_array(state, name, np.float32)
            if saved.shape != tuple(tensor.shape):
                raise RunStateError(
                    f"the saved optimizer's {name} has shape {saved.shape} and this model's "
                    f"{tuple(tensor.shape)}; use the network_settings the checkpoint was made with"
                )
            if not np.isfinite(saved).all():
                raise RunStateError(f"the saved optimizer's {name} is not finite; the training had diverged")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`.

        Raises RunStateError, changing nothing, if the moments belong to another model.
        """
        self.require_fit(state)
        self.load_moments({name: torch.from_numpy(state[name].copy()) for name in self.moments()})


class TorchAdam(Adam):
    """``torch.optim.Adam``."""

    def __init__(self, parameters: Iterable[nn.Parameter], learning_rate: float, epsilon: float) -> None:
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        self.epsilon = epsilon
        # Not torch's default of one kernel for each parameter and operation.
        fused = self.parameters[0].device.type in ("cpu", "cuda")
        self._optimizer = torch.optim.Adam(self.parameters, learning_rate, BETAS, epsilon, fused=fused)

    def another(self, learning_rate: float, epsilon: float) -> TorchAdam:
        return TorchAdam(self.parameters, learning_rate, epsilon)

    def zero_grad(self) -> None:
        self._optimizer.zero_grad()

    def clip_grad_norm(self, max_norm: float) -> Tensor:
        return nn.utils.clip_grad_norm_(self.parameters, max_norm)

    def step(self) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate
        self._optimizer.step()

    def moments(self) -> dict[str, Tensor]:
        states = [self._optimizer.state.get(p) for p in self.parameters]

        def row(name: str) -> Tensor:
            parts = [
                torch.zeros_like(p) if s is None else s[name] for p, s in zip(self.parameters, states, strict=True)
            ]
            return torch.cat([part.detach().reshape(-1) for part in parts])

        # Parameters that never had a gradient have no state: zero moments, whatever the step.
        steps = [float(s["step"]) for s in states if s is not None]
        return {"mean": row("exp_avg"), "square": row("exp_avg_sq"), "step": torch.tensor(max(steps, default=0.0))}

    def load_moments(self, moments: dict[str, Any]) -> None:
        sizes = [p.numel() for p in self.parameters]
        columns = [moments[name].split(sizes) for name in ("mean", "square")]
        for p, mean, square in zip(self.parameters, *columns, strict=True):
            device = p.device
            self._optimizer.state[p] = {
                "step": moments["step"].clone().to(device),
                "exp_avg": mean.view_as(p).clone().to(device),
                "exp_avg_sq": square.view_as(p).clone().to(device),
            }
