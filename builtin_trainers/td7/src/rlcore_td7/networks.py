"""The networks of TD7 (Fujimoto et al. 2023, arXiv:2306.02451, section 4.1 and appendix B).

Shapes: B rows, R reward providers, C continuous parts of an action, Z numbers of an embedding.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import pairwise

import attrs
import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec
from rlcore_torch import (
    ActionLayout,
    Actor,
    Body,
    DeterministicTanh,
    Inputs,
    NetworkSettings,
    ObservationInputs,
    PolicyHead,
    dense,
    initialize,
)


def avg_l1_norm(x: Tensor) -> Tensor:
    """Divide each row of ``x`` [B, Z] by the mean of its absolute values, so that it neither vanishes nor grows."""
    return x / x.abs().mean(-1, keepdim=True).clamp(min=1e-8)


def linear_layers(*sizes: int, init: str) -> nn.ModuleList:
    """Return linear layers between widths that follow each other."""
    layers = nn.ModuleList()
    for width, units in pairwise(sizes):
        layer = nn.Linear(width, units)
        initialize(layer, init, gain=1.0)
        layers.append(layer)
    return layers


def without_layers(settings: NetworkSettings) -> NetworkSettings:
    """Return settings of a body that encodes observations alone; one linear layer follows it."""
    return attrs.evolve(settings, hidden_layers=())


class StateEncoder(nn.Module):
    """Embeddings zs [B, Z] of states."""

    def __init__(self, inputs: ObservationInputs, settings: NetworkSettings, units: int) -> None:
        super().__init__()
        self.body = Body(inputs, settings)
        self.head = nn.Linear(self.body.features, units)
        initialize(self.head, settings.init, gain=1.0)

    def forward(self, inputs: Inputs) -> Tensor:
        """Return zs [B, Z]."""
        return avg_l1_norm(self.body.into(inputs, self.head))


class ActionEncoder(nn.Module):
    """Embeddings zsa [B, Z] of states and actions: predictions of the next state's zs."""

    def __init__(self, continuous: int, settings: NetworkSettings, units: int) -> None:
        super().__init__()
        self.activation = settings.activation
        self.layers = linear_layers(units + continuous, *settings.widths, units, init=settings.init)

    def forward(self, zs: Tensor, action: Tensor) -> Tensor:
        """Return zsa [B, Z] of ``zs`` [B, Z] and ``action`` [B, C]."""
        x = torch.cat([zs, action], dim=1)
        return dense(x, list(self.layers), self.activation)


class Encoder(nn.Module):
    """The encoder that learns: both of its parts."""

    def __init__(self, zs: StateEncoder, zsa: ActionEncoder) -> None:
        super().__init__()
        self.zs = zs
        self.zsa = zsa


class EncodedActor(Body):
    """The body of the policy: a normalized layer of the state beside zs, then hidden layers.

    Attributes:
        zs: The fixed encoder of states. It is a part of the actor, so that saved and exported policies have it.
    """

    def __init__(self, inputs: ObservationInputs, settings: NetworkSettings, zs: StateEncoder, units: int) -> None:
        super().__init__(inputs, without_layers(settings))
        self.zs = zs
        self.first = nn.Linear(self.features, units)
        initialize(self.first, settings.init, gain=1.0)
        widths = (2 * units, *settings.widths)
        self.hidden = linear_layers(*widths, init=settings.init)
        self.features = widths[-1]

    def into(
        self,
        inputs: Inputs,
        head: nn.Linear,
        extra: Tensor | None = None,
        frozen: bool = False,
        encoded: Tensor | None = None,
        batch_statistics: bool = False,
    ) -> Tensor:
        """Return ``head`` applied to the features, [B, outputs of the head]."""
        x = avg_l1_norm(super().into(inputs, self.first, extra, frozen, encoded, batch_statistics))
        x = torch.cat([x, self.zs(inputs)], dim=1)
        return dense(x, [*self.hidden, head], self.activation, frozen=frozen)


class EncodedCritic(nn.Module):
    """Values [B, R] of a state and an action, beside their embeddings."""

    def __init__(
        self, inputs: ObservationInputs, settings: NetworkSettings, rewards: int, continuous: int, units: int
    ) -> None:
        super().__init__()
        self.activation = settings.activation
        self.body = Body(inputs, without_layers(settings), continuous)
        self.first = nn.Linear(self.body.features, units)
        initialize(self.first, settings.init, gain=1.0)
        self.layers = linear_layers(3 * units, *settings.widths, rewards, init=settings.init)

    def forward(self, inputs: Inputs, action: Tensor, zsa: Tensor, zs: Tensor) -> Tensor:
        """Return the values [B, R] of ``action`` [B, C], with embeddings [B, Z]."""
        x = avg_l1_norm(self.body.into(inputs, self.first, action))
        x = torch.cat([x, zsa, zs], dim=1)
        return dense(x, list(self.layers), self.activation)


class EncodedActorCritic(Actor):
    """A policy that acts with the tanh of its output, two critics, the encoder, and the targets of all.

    Attributes:
        zsa: The fixed encoder of actions; that of states is ``actor.zs``.
        critics: Both critics.
        target: The targets of the actor, the fixed encoders and the critics.
        encoder: The encoder that learns.
        saw_targets: [] whether there was a gradient step.
        lowest_target: [R] smallest target of all gradient steps; 0 before the first one.
        highest_target: [R] largest target of all gradient steps; 0 before the first one.
        clip_low: [R] ``lowest_target`` when the targets were copied last; 0 before.
        clip_high: [R] ``highest_target`` then.
    """

    actor: EncodedActor
    saw_targets: Tensor
    lowest_target: Tensor
    highest_target: Tensor
    clip_low: Tensor
    clip_high: Tensor

    def __init__(self, behavior: BehaviorSpec, settings: NetworkSettings, rewards: int, units: int) -> None:
        distribution = DeterministicTanh(behavior)
        super().__init__(behavior, settings, distribution)
        of_critic = settings.of_critic
        encoder = Encoder(
            StateEncoder(self.inputs, of_critic, units), ActionEncoder(behavior.continuous, of_critic, units)
        )
        fixed = copy.deepcopy(encoder).requires_grad_(False)
        self.actor = EncodedActor(self.inputs, settings, fixed.zs, units)
        self.policy_head = PolicyHead(self.actor.features, ActionLayout(behavior), settings.init, distribution)
        self.zsa = fixed.zsa
        self.critics = nn.ModuleList()
        for _ in range(2):
            self.critics.append(EncodedCritic(self.inputs, of_critic, rewards, behavior.continuous, units))
        self.target = copy.deepcopy(self).requires_grad_(False)
        del self.target.inputs  # the module that normalizes observations, which a batch's are already
        self.encoder = encoder
        for name in ("lowest_target", "highest_target", "clip_low", "clip_high"):
            self.register_buffer(name, torch.zeros(rewards))
        self.register_buffer("saw_targets", torch.zeros((), dtype=torch.bool))

    @torch.no_grad()
    def widen_range(self, targets: Tensor) -> None:
        """Let the range of targets have those of a minibatch [B, R] too."""
        lowest = targets.amin(0)
        highest = targets.amax(0)
        self.lowest_target.copy_(torch.where(self.saw_targets, torch.minimum(self.lowest_target, lowest), lowest))
        self.highest_target.copy_(torch.where(self.saw_targets, torch.maximum(self.highest_target, highest), highest))
        self.saw_targets.fill_(True)

    @torch.no_grad()
    def take_range(self) -> None:
        """Clip to the range of targets so far from now on."""
        self.clip_low.copy_(self.lowest_target)
        self.clip_high.copy_(self.highest_target)

    def fixed_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the fixed encoders, in the order of those of ``encoder``."""
        yield from self.actor.zs.parameters()
        yield from self.zsa.parameters()

    def action(self, inputs: Inputs) -> Tensor:
        """Return the actions [B, C] of the actor, those of :class:`rlcore_torch.DeterministicTanh`; differentiable."""
        return self.actor.into(inputs, self.policy_head.linear).tanh()

    def q_values(self, inputs: Inputs, action: Tensor, zs: Tensor) -> list[Tensor]:
        """Return the values [B, R] of each critic, beside the embeddings ``zs`` [B, Z] of the fixed encoder."""
        zsa = self.zsa(zs, action)
        return [critic(inputs, action, zsa, zs) for critic in self.critics]
