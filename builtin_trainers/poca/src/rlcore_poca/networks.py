"""The networks of POCA: a policy that sees one agent's observation, and a critic that reads the group as a set.

Shapes: B rows, M places for mates, A numbers of an action, R reward providers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs
import numpy as np
import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_torch import (
    Actor,
    Body,
    Critic,
    EntityEmbedding,
    Inputs,
    NetworkSettings,
    ObservationInputs,
    ResidualSelfAttention,
    make_distribution,
)

__all__ = ["GroupActorCritic", "GroupCritic", "Mates"]

HEADS = 4


@attrs.frozen(eq=False)
class Mates:
    """The mates of the agents of B rows.

    Attributes:
        inputs: Normalized observations, each [B, M, ...].
        present: [B, M] bool, the mates that are there; nothing else of the others is used.
        actions: [B, M, A] what they do: continuous parts, then a 1 for each choice.
    """

    inputs: Inputs
    present: Tensor
    actions: Tensor

    def columns(self) -> dict[str, Tensor]:
        """The parts by name, as a minibatch carries them."""
        return {"present": self.present, "actions": self.actions, **{f"{k}": x for k, x in enumerate(self.inputs)}}

    @classmethod
    def of_columns(cls, columns: Mapping[str, Tensor]) -> Mates:
        """The mates that :meth:`columns` describes."""
        return cls(tuple(columns[f"{k}"] for k in range(len(columns) - 2)), columns["present"], columns["actions"])


class GroupCritic(nn.Module):
    """Values of a group and counterfactual baselines of an agent, by one network (Cohen et al. 2022).

    The group is a set of entities: the agent, and each mate that is there. For the value each is embedded with what it
    observes; for the baseline the mates are embedded with what they observe and do, and the agent with what it observes
    alone. Attention reads the set as one vector, whatever its order and size; the hidden layers follow, which also see
    the size.

    Attributes:
        most: The number of agents in the largest group.
        encoder: Encodes the observations of every agent.
        observed: Embeds what an agent observes.
        acted: Embeds what an agent observes and does.
        attention: Reads embedded agents as one vector.
        values: The hidden layers and the heads.
    """

    def __init__(
        self, inputs: ObservationInputs, settings: NetworkSettings, action_size: int, most: int, heads: int
    ) -> None:
        """Give ``heads`` values, for groups of up to ``most`` agents with A = ``action_size`` numbers of an action."""
        super().__init__()
        own = settings.of_critic
        width = own.hidden_units
        self.most = most
        self.encoder = Body(inputs, attrs.evolve(own, hidden_layers=()))
        self.observed = EntityEmbedding(self.encoder.features, width)
        self.acted = EntityEmbedding(self.encoder.features + action_size, width)
        self.attention = ResidualSelfAttention(width, math.gcd(width, HEADS))
        group = ObservationInputs((ObservationSpec("group", (width,), np.float32),), normalize=False)
        self.values = Critic(group, attrs.evolve(own, vector_encode_type=None), heads, continuous=1)

    def value(self, inputs: Inputs, mates: Mates) -> Tensor:
        """Return the values [B, R] of the groups of the agents that observe ``inputs``."""
        return self._read(self.observed(self._encoded(inputs, mates)), mates.present)

    def baseline(self, inputs: Inputs, mates: Mates) -> Tensor:
        """Return the baselines [B, R] of these agents, which do not depend on what they do themselves."""
        encoded = self._encoded(inputs, mates)
        return self._read(self._with_actions(self.observed(encoded[:, :1]), encoded, mates), mates.present)

    def value_and_baseline(self, inputs: Inputs, mates: Mates) -> tuple[Tensor, Tensor]:
        """Return values and baselines, both [B, R], in one pass."""
        encoded = self._encoded(inputs, mates)
        observed = self.observed(encoded)
        both = torch.cat((observed, self._with_actions(observed[:, :1], encoded, mates)))
        value, baseline = self._read(both, mates.present.repeat(2, 1)).chunk(2)
        return value, baseline

    def _encoded(self, inputs: Inputs, mates: Mates) -> Tensor:
        """Encoded observations [B, 1 + M, features], those of the agent first."""
        together = (torch.cat((x.unsqueeze(1), y), 1) for x, y in zip(inputs, mates.inputs, strict=True))
        encoded = self.encoder.encode(tuple(x.flatten(0, 1) for x in together))
        return encoded.view(len(mates.present), -1, self.encoder.features)

    def _with_actions(self, agent: Tensor, encoded: Tensor, mates: Mates) -> Tensor:
        """Embedded agents [B, 1 + M, width]: ``agent`` [B, 1, width] as it is, the mates with what they do."""
        return torch.cat((agent, self.acted(torch.cat((encoded[:, 1:], mates.actions), 2))), 1)

    def _read(self, entities: Tensor, present: Tensor) -> Tensor:
        """Values [B, R] of groups of embedded agents [B, 1 + M, width], of which the first is there."""
        there = torch.cat((present.new_ones(len(present), 1), present), 1)
        size = 2.0 * there.sum(1, keepdim=True) / self.most - 1.0
        values: Tensor = self.values((self.attention(entities, there),), size)
        return values


class GroupActorCritic(Actor):
    """The policy of one agent, and the critic of its group.

    Attributes:
        critic: The critic.
    """

    def __init__(
        self,
        behavior: BehaviorSpec,
        settings: NetworkSettings,
        value_heads: int,
        initial_log_std: float,
        action_size: int,
        most: int,
    ) -> None:
        distribution = make_distribution(settings, behavior, initial_log_std) if behavior.continuous else None
        super().__init__(behavior, settings, distribution)
        self.critic = GroupCritic(self.inputs, settings, action_size, most, value_heads)
