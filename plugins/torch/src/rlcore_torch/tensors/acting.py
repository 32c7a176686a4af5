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


TensorPair = tuple[Tensor | None, Tensor | None]  # of the continuous parts, and of the branches


class SharedMemoryActor:
    """Acts on a CPU, where tensors and arrays share memory: a policy computes the same numbers from either.

    ``parameters`` and ``explore`` return arrays, as those of :class:`rlcore_torch.ActorPolicy` do.
    """

    def __init__(self, policy: ActorPolicy) -> None:
        self._policy = policy

    def parameters(self, observations: Mapping[str, Tensor], mask: Tensor | None) -> Any:
        """Return the columns of the continuous parts and the masked logits of R rows."""
        arrays = {name: tensor.numpy() for name, tensor in observations.items()}
        mask_array = None if mask is None else mask.numpy()
        return self._policy.parameters(arrays, mask_array)

    def explore(self, parameters: Any, noise: Any) -> Any:
        """Return raw continuous parts [R, continuous] and choices [R, branches]; the most likely without ``noise``."""
        return self._policy.explore(parameters, noise)

    def actions(self, raw: Any, choices: Any) -> TensorActions:
        """Return the actions of the environment for raw parts [R, continuous] and choices [R, branches]."""
        actions = self._policy.layout.actions(raw, choices)
        return TensorActions.of(actions, self._policy.device)


class TensorActor:
    """Acts on any device, without a copy to the host.

    It has the methods of :class:`SharedMemoryActor`, with tensors, and computes the same numbers up to rounding.
    """

    def __init__(self, policy: ActorPolicy) -> None:
        self._policy = policy
        self._module = PolicyModule(policy.model, policy.layout).to(policy.device)

    @torch.no_grad()
    def parameters(self, observations: Mapping[str, Tensor], mask: Tensor | None) -> TensorPair:
        """Return the columns of the continuous parts and the masked logits of R rows."""
        columns, logits = self._policy.tensor_parameters(observations)
        if mask is not None and logits is not None:
            logits = mask_logits(logits, mask)
        return columns, logits

    @torch.no_grad()
    def explore(self, parameters: TensorPair, noise: tuple[Tensor, Tensor] | None) -> TensorPair:
        """Return raw continuous parts [R, continuous] and choices [R, branches]; the most likely without ``noise``."""
        columns, logits = parameters
        distribution = self._policy.model.policy_head.distribution
        raw = choices = None
        if columns is not None and distribution is not None:
            # Not the noise of gSDE, which is made of arrays: `refusal_of_tensors` keeps such a policy to NumPy.
            raw = distribution.deterministic(columns) if noise is None else distribution.sample(columns, noise[0])
        if logits is not None:
            if noise is not None:
                logits = logits + noise[1]
            branches = logits.split(self._policy.layout.branches, dim=1)  # type: ignore[no-untyped-call]
            of_branches = [branch.argmax(1) for branch in branches]
            choices = torch.stack(of_branches, dim=1)
        return raw, choices

    def actions(self, raw: Tensor | None, choices: Tensor | None) -> TensorActions:
        """Return the actions of the environment for raw parts [R, continuous] and choices [R, branches]."""
        continuous = None if raw is None else self._module.to_environment(raw)
        return TensorActions(continuous, choices)


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
            self._device_gaussian = torch.from_numpy(self._gaussian).to(self.device)
            self._device_gumbel = torch.from_numpy(self._gumbel).to(self.device)
        row = self._row - 1  # the one that the base class has just returned
        return self._device_gaussian[row // self._hold], self._device_gumbel[row]
