"""The networks of CrossQ and XQC: a policy, two critics, and the temperature of the entropy; XQC's have targets."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec
from rlcore_crossq.settings import XQCSettings
from rlcore_torch import Actor, CategoricalReturns, Critic, Inputs, NetworkSettings, SquashedGaussian

__all__ = ["CategoricalCritics", "PolicyDraw", "SoftActorCritics", "StateActions", "project_units"]

StateActions = tuple[Inputs, Tensor]
"""Observations and actions [B, C] that pass through critics."""

XQC_LOG_STD = (-10.0, 2.0)  # limits of the logarithm of the policy's standard deviation in XQC's code
ROUNDING = 1e-6  # by which a norm of float32 weights may differ from 1


class PolicyDraw(NamedTuple):
    """Actions that the policy draws at B observations."""

    action: Tensor  # [B, C] in [-1, 1]
    log_prob: Tensor  # [B]


class SoftActorCritics(Actor):
    """A policy, two critics with a value for each of R rewards, and the temperature.

    Attributes:
        critics: The critics.
        log_temperature: [] logarithm of the weight of the entropy.
    """

    def __init__(
        self,
        behavior: BehaviorSpec,
        settings: NetworkSettings,
        rewards: int,
        initial_temperature: float,
        numbers: int = 1,
    ) -> None:
        """``numbers`` are those of each value: 1, or the logits of its distribution."""
        super().__init__(behavior, settings, SquashedGaussian(behavior))
        outputs = rewards * numbers
        # Two critics against overestimation (Fujimoto et al. 2018, arXiv:1802.09477).
        self.critics = nn.ModuleList(Critic(self.inputs, settings, outputs, behavior.continuous) for _ in range(2))
        self.log_temperature = nn.Parameter(torch.tensor(math.log(initial_temperature)))

    @property
    def temperature(self) -> Tensor:
        """The weight of the entropy, [], without a gradient."""
        return self.log_temperature.detach().exp()

    def draw(self, inputs: Inputs, noise: Tensor, batch_statistics: bool = False) -> PolicyDraw:
        """Draw actions with standard normal ``noise`` [B, C]; with ``batch_statistics`` of the B rows themselves."""
        columns, _ = self.policy(inputs, batch_statistics)
        distribution = self.policy_head.distribution
        assert columns is not None and distribution is not None
        action, log_prob = distribution.sample_log_prob(columns, noise)
        return PolicyDraw(action, log_prob)

    def joint_values(self, critics: nn.ModuleList, parts: Sequence[StateActions]) -> list[Sequence[Tensor]]:
        """Return the outputs [B, R] of each critic for each of ``parts``, in one forward pass with batch statistics.

        One pass normalizes all parts by the statistics of their mixture: two passes would hide the difference between
        them.
        """
        inputs = tuple(torch.cat(columns) for columns in zip(*(seen for seen, _ in parts), strict=True))
        actions = torch.cat([action for _, action in parts])
        values = []
        for critic in critics:
            joint = critic(inputs, actions, batch_statistics=True)
            values.append(joint.chunk(len(parts)))
        return values

    def values(self, inputs: Inputs, action: Tensor) -> list[Tensor]:
        """Return the values [B, R] of actions [B, C] by each critic with its running statistics.

        Only the action gets a gradient.
        """
        return [critic(inputs, action, frozen=True) for critic in self.critics]


class CategoricalCritics(SoftActorCritics):
    """CrossQ's networks with the probabilities of K returns in the place of each value, and with target critics.

    The weights into each unit of the policy and the critics have norm 1.

    Attributes:
        returns: What the K logits mean.
        targets: The target critics, which begin as the critics.
    """

    def __init__(self, behavior: BehaviorSpec, settings: NetworkSettings, rewards: int, h: XQCSettings) -> None:
        super().__init__(behavior, settings, rewards, h.init_entcoef, h.num_atoms)
        distribution = self.policy_head.distribution
        assert isinstance(distribution, SquashedGaussian)
        distribution.limits = XQC_LOG_STD
        self.returns = CategoricalReturns(h.num_atoms, h.v_min, h.v_max)
        self.rewards = rewards
        with torch.no_grad():
            project_units(self)
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)

    def joint_logits(self, critics: nn.ModuleList, parts: Sequence[StateActions]) -> list[Tensor]:
        """Return the logits [2, B, R, K] of each of the ``parts`` by both ``critics``; see :meth:`joint_values`."""
        of_critics = self.joint_values(critics, parts)
        return [self._logits(of_part) for of_part in zip(*of_critics, strict=True)]

    def values(self, inputs: Inputs, action: Tensor) -> list[Tensor]:
        """Return the expected returns [B, R] of actions [B, C] by each critic with its running statistics.

        Only the action gets a gradient.
        """
        logits = self._logits(super().values(inputs, action))
        return list(self.returns.expected(logits))

    def _logits(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return the outputs [B, R * K] of each critic as [2, B, R, K]."""
        return torch.stack(tuple(outputs)).view(len(outputs), -1, self.rewards, self.returns.size)


def project_units(network: nn.Module) -> None:
    """Divide the weights of each unit of the linear layers by their norm; biases and normalizations stay.

    In place, for parameters that are views of others. Weights that were divided before stay as they are, bit for bit:
    a policy that is loaded acts as the one that was saved.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            weight = layer.weight  # [out, in]
            norm = weight.norm(dim=1, keepdim=True)
            is_unit = (norm - 1.0).abs() < ROUNDING
            weight.copy_(torch.where(is_unit, weight, weight / norm))
