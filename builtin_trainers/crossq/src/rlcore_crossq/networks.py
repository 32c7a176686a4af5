"""The networks of CrossQ: a policy, two critics without targets, and the temperature of the entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec
from rlcore_torch import Actor, Critic, Inputs, NetworkSettings, SquashedGaussian

__all__ = ["PolicyDraw", "SoftActorCritics"]


class PolicyDraw(NamedTuple):
    """Actions that the policy draws at B observations."""

    action: Tensor  # [B, C] in [-1, 1]
    log_prob: Tensor  # [B]


class SoftActorCritics(Actor):
    """A policy, two critics with a value for each of R rewards, and the temperature; nothing has a target network.

    Attributes:
        critics: The critics.
        log_temperature: [] logarithm of the weight of the entropy.
    """

    def __init__(
        self, behavior: BehaviorSpec, settings: NetworkSettings, rewards: int, initial_temperature: float
    ) -> None:
        super().__init__(behavior, settings, SquashedGaussian(behavior))
        # Two critics against overestimation (Fujimoto et al. 2018, arXiv:1802.09477).
        self.critics = nn.ModuleList(Critic(self.inputs, settings, rewards, behavior.continuous) for _ in range(2))
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

    def joint_values(self, parts: Sequence[tuple[Inputs, Tensor]]) -> list[Sequence[Tensor]]:
        """Return the values [B, R] by each critic of each of the ``parts``, in one forward pass with batch statistics.

        Each part has B observations and actions [B, C]. One pass normalizes all parts by the statistics of their
        mixture: two passes would hide the difference between them.
        """
        inputs = tuple(torch.cat(columns) for columns in zip(*(seen for seen, _ in parts), strict=True))
        actions = torch.cat([action for _, action in parts])
        values = []
        for critic in self.critics:
            joint = critic(inputs, actions, batch_statistics=True)
            values.append(joint.chunk(len(parts)))
        return values

    def values(self, inputs: Inputs, action: Tensor) -> list[Tensor]:
        """Return the values [B, R] of actions [B, C] by each critic with its running statistics.

        Only the action gets a gradient.
        """
        return [critic(inputs, action, frozen=True) for critic in self.critics]
