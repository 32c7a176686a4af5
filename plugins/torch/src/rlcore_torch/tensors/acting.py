"""Acting on observations that are tensors on the device of the policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rlcore_torch.networks.actions import ActionNoise, mask_logits
from rlcore_torch.policy.policy import ActorPolicy
from rlcore_torch.policy.policy_module import PolicyModule
from rlcore_torch.tensors.environment import TensorActions

__all__ = ["SharedMemoryActor", "TensorActor", "TensorNoise", "shares_memory"]


class SharedMemoryActor:
    """Acts on a CPU, where tensors and arrays share memory: a policy computes the same numbers from either.

    ``parameters`` and ``explore`` return arrays, as those of :class:`rlcore_torch.ActorPolicy` do.
    """

    def __init__(self, policy: ActorPolicy) -> None:
        self._policy = policy

    def parameters(self, observations: Mapping[str, Tensor], mask: Tensor | None) -> Any:
        """Return the columns of the continuous parts and the masked logits of R rows."""
        seen = {name: tensor.numpy() for name, tensor in observations.items()}
        return self._policy.parameters(seen, None if mask is None else mask.numpy())

    def explore(self, parameters: Any, noise: Any) -> Any:
        """Return raw continuous parts [R, continuous] and choices [R, branches]; the most likely without ``noise``."""
        return self._policy.explore(parameters, noise)

    def actions(self, raw: Any, choices: Any) -> TensorActions:
        """Return the actions of the environment for raw parts [R, continuous] and choices [R, branches]."""
        return TensorActions.of(self._policy.layout.actions(raw, choices), self._policy.device)


class TensorActor:
    """Acts on any device, without a copy to the host.

    It has the methods of :class:`SharedMemoryActor`, with tensors, and computes the same numbers up to rounding.
    """

    def __init__(self, policy: ActorPolicy) -> None:
        self._policy = policy
        self._module = PolicyModule(policy.model, policy.layout).to(policy.device)

    @torch.no_grad()
    def parameters(
        self, observations: Mapping[str, Tensor], mask: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the columns of the continuous parts and the masked logits of R rows."""
        columns, logits = self._policy.tensor_parameters(observations)
        return columns, logits if mask is None or logits is None else mask_logits(logits, mask)

    @torch.no_grad()
    def explore(
        self, parameters: tuple[Tensor | None, Tensor | None], noise: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return raw continuous parts [R, continuous] and choices [R, branches]; the most likely without ``noise``."""
        columns, logits = parameters
        distribution = self._policy.model.policy_head.distribution
        raw = choices = None
        if columns is not None and distribution is not None:
            raw = distribution.deterministic(columns) if noise is None else distribution.sample(columns, noise[0])
        if logits is not None:
            if noise is not None:
                logits = logits + noise[1]
            branches = logits.split(self._policy.layout.branches, dim=1)  # type: ignore[no-untyped-call]
            choices = torch.stack([branch.argmax(1) for branch in branches], dim=1)
        return raw, choices

    def actions(self, raw: Tensor | None, choices: Tensor | None) -> TensorActions:
        """Return the actions of the environment for raw parts [R, continuous] and choices [R, branches]."""
        return TensorActions(None if raw is None else self._module.to_environment(raw), choices)


def shares_memory(device: torch.device) -> bool:
    """Whether tensors on ``device`` can be read as arrays, without a copy."""
    return device.type == "cpu"


class TensorNoise(ActionNoise):
    """Noise for acting on a device: one copy there for all steps that are drawn at once.

    Attributes:
        device: The device.
    """

    device: torch.device
    _copied: Any = None  # the numbers on the host of which the device has a copy

    def next(self) -> Any:
        """Return Gaussian noise [S, noise_size] and Gumbel noise [S, logits] of one step, on the device."""
        super().next()
        if self._copied is not self._gumbel:
            self._copied = self._gumbel
            self._on_device = tuple(torch.from_numpy(each).to(self.device) for each in (self._gaussian, self._gumbel))
        gaussian, gumbel = self._on_device
        row = self._row - 1
        return gaussian[row // self._hold], gumbel[row]
