"""SAC's networks: a policy that draws differentiably, twin critics and their targets, temperatures."""

from __future__ import annotations

import copy
import math

import attrs
import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec
from rlcore_torch import (
    ActionLayout,
    Actor,
    Critic,
    DiscreteOptions,
    Inputs,
    NetworkSettings,
    SquashedGaussian,
    log_probabilities,
    mask_logits,
    squashed_gaussian,
)


@attrs.define(eq=False)
class PolicyDraw:
    """The policy at B observations: a draw of the continuous parts, and the whole distribution of each branch."""

    action: Tensor | None  # [B, continuous] in [-1, 1]
    log_prob: Tensor | None  # [B] of the continuous parts together
    probabilities: Tensor | None  # [B, logits] of each branch's options
    entropies: Tensor | None  # [B, branches] nats


class SoftActorCritic(Actor):
    """The policy, two critics with a value for each of R rewards, their target networks, and the temperatures.

    There is one temperature for the continuous parts together and one for each discrete branch.
    """

    def __init__(
        self, behavior: BehaviorSpec, settings: NetworkSettings, rewards: int, initial_temperature: float
    ) -> None:
        super().__init__(behavior, settings, SquashedGaussian(behavior))
        self.layout = ActionLayout(behavior)
        self.options = DiscreteOptions(self.layout)
        self.rewards = rewards
        outputs = rewards * self.options.columns
        self.critics = nn.ModuleList(Critic(self.inputs, settings, outputs, self.layout.continuous) for _ in range(2))
        self.targets = nn.ModuleList(copy.deepcopy(critic) for critic in self.critics)
        self.targets.requires_grad_(False)
        temperatures = bool(self.layout.continuous) + len(self.layout.branches)
        self.log_temperature = nn.Parameter(torch.full((temperatures,), math.log(initial_temperature)))

    def draw(self, inputs: Inputs, mask: Tensor | None, noise: Tensor | None) -> PolicyDraw:
        """``noise`` [B, continuous] is standard normal; ``mask`` [B, logits] is True where allowed."""
        columns, logits = self.policy(inputs)
        action = log_prob = probabilities = entropies = None
        if columns is not None and noise is not None:
            action, log_prob = squashed_gaussian(columns, noise)
        if logits is not None:
            if mask is not None:
                logits = mask_logits(logits, mask)
            log_p = [log_probabilities(branch) for branch in self.options.branches(logits)]
            p = [branch.exp() for branch in log_p]
            probabilities = torch.cat(p, dim=1)
            entropies = torch.stack([-(a * b).sum(1) for a, b in zip(p, log_p, strict=True)], dim=1)
        return PolicyDraw(action, log_prob, probabilities, entropies)

    def q_values(
        self, critics: nn.ModuleList, inputs: Inputs, action: Tensor | None, frozen: bool = False
    ) -> list[Tensor]:
        """The values of each of ``critics``, [B, R, columns]; with ``frozen`` only the action gets a gradient."""
        shape = (-1, self.rewards, self.options.columns)
        return [critic(inputs, action, frozen).view(shape) for critic in critics]

    def entropy_bonus(self, drawn: PolicyDraw) -> Tensor:
        """[B]: each part's entropy (for continuous ones, minus the log-probability of the draw) by its temperature."""
        temperature = self.log_temperature.detach().exp()
        bonus: Tensor | None = None
        if drawn.log_prob is not None:
            bonus = -temperature[0] * drawn.log_prob
        if drawn.entropies is not None:
            of_branches = drawn.entropies @ temperature[-len(self.layout.branches) :]
            bonus = of_branches if bonus is None else bonus + of_branches
        assert bonus is not None
        return bonus
