"""Adam over the flat parameters of a model.

PyTorch's own kernel, called without :class:`torch.optim.Optimizer`: creating one imports PyTorch's compiler, which
takes longer than everything else between ``import torch`` and the first environment step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

from rlcore.errors import RunStateError
from rlcore.saved_values import saved_array
from rlcore.torch.flat import FlatParameters


class Adam:
    """Adam (Kingma and Ba 2015, arXiv:1412.6980, algorithm 1) with the paper's betas."""

    def __init__(self, flat: FlatParameters, learning_rate: float, epsilon: float) -> None:
        self.flat = flat
        self.learning_rate = learning_rate
        self.epsilon = epsilon
        self._mean = torch.zeros_like(flat.gradient)
        self._square = torch.zeros_like(flat.gradient)
        self._step = torch.zeros((), device=flat.gradient.device)
        self._fused = flat.gradient.device.type in ("cpu", "cuda")

    @torch.no_grad()
    def step(self) -> None:
        """Moves the parameters against the gradient that ``backward`` left in them."""
        adam(
            [self.flat.parameter],
            [self.flat.gradient],
            [self._mean],
            [self._square],
            [],
            [self._step],
            fused=self._fused,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.learning_rate,
            weight_decay=0.0,
            eps=self.epsilon,
            maximize=False,
        )

    def state_dict(self) -> dict[str, Any]:
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self._tensors().items()}

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raises RunStateError if the moments are of another model, or not finite."""
        for name, tensor in self._tensors().items():
            saved = saved_array(state, name, np.float32)
            if saved.shape != tuple(tensor.shape):
                raise RunStateError(
                    f"the saved optimizer's {name} has shape {saved.shape} and this model's "
                    f"{tuple(tensor.shape)}; use the network_settings the checkpoint was made with"
                )
            if not np.isfinite(saved).all():
                raise RunStateError(f"the saved optimizer's {name} is not finite; the training had diverged")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises RunStateError, changing nothing, if the moments are of another model."""
        self.require_fit(state)
        for name, tensor in self._tensors().items():
            tensor.copy_(torch.from_numpy(state[name].copy()))

    def _tensors(self) -> dict[str, Tensor]:
        return {"mean": self._mean, "square": self._square, "step": self._step}
