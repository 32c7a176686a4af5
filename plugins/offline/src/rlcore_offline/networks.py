"""Implicit Q-learning's networks: a policy, a value, twin critics and their targets."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from rlcore import BehaviorSpec
from rlcore_torch import ActionBatch, ActionLayout, Actor, Critic, DiscreteOptions, NetworkSettings


class ImplicitActorCritic(Actor):
    """The policy, a value of states and two critics of actions, with a number for each of R rewards, and the critics'
    target networks.
    """

    def __init__(self, behavior: BehaviorSpec, settings: NetworkSettings, rewards: int) -> None:
        super().__init__(behavior, settings)
        layout = ActionLayout(behavior)
        self.options = DiscreteOptions(layout)
        self.rewards = rewards
        self.value = Critic(self.inputs, settings, rewards)
        outputs = rewards * self.options.columns
        self.critics = nn.ModuleList(Critic(self.inputs, settings, outputs, layout.continuous) for _ in range(2))
        self.targets = nn.ModuleList(copy.deepcopy(critic) for critic in self.critics)
        self.targets.requires_grad_(False)

    def q_values(self, critics: nn.ModuleList, batch: ActionBatch) -> list[Tensor]:
        """The value of the recorded actions, [B, R], by each of ``critics``."""
        shape = (-1, self.rewards, self.options.columns)
        return [self.options.chosen(critic(batch.inputs, batch.raw).view(shape), batch.choices) for critic in critics]
