"""Networks as stacks of linear layers, where they are nothing more: actors, critics, and both together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlcore_torch.acceleration.linear_stack import LinearStack, StackOutputs, rows_at_once
from rlcore_torch.acceleration.numpy_actor import is_plain_body
from rlcore_torch.acceleration.registry import Acceleration, Function, has_exactly
from rlcore_torch.networks.bodies import Body
from rlcore_torch.networks.heads import PolicyHead
from rlcore_torch.networks.models import Actor, ActorCritic, Critic
from rlcore_torch.on_policy.trainer import OnPolicyTrainer


class MinibatchStacks:
    """Actors and critics of actions as stacks, for minibatches of up to ``rows``.

    Attributes:
        actors: From observations.
        critics: From observations and the C continuous parts of actions.
    """

    def __init__(self, actors: Sequence[LinearStack], critics: Sequence[LinearStack], inputs: Sequence[Tensor]) -> None:
        """``inputs`` are [rows, size + 1] those of the actors and [rows, size + C + 1] those of the critics."""
        self.actors = actors
        self.critics = critics
        self._observed, self._acted = inputs
        self.rows = len(self._observed)

    @classmethod
    def of(
        cls, actors: Sequence[Actor], critics: Sequence[Critic], rows: int, memories: Sequence[int]
    ) -> MinibatchStacks | None:
        """Return the networks as stacks; None if one is more than linear layers on vector observations.

        ``memories`` has a number for each of them. Those with the same number have one memory: each must be done before
        the next begins.
        """
        if not all(type(critic) is Critic for critic in critics):
            return None
        if not all(type(actor.policy_head) is PolicyHead and not actor.policy_head.reads_features for actor in actors):
            return None
        networks: list[tuple[Body, nn.Module]] = [(actor.actor, actor.policy_head.linear) for actor in actors]
        networks += [(critic.body, critic.head) for critic in critics]
        if not all(is_plain_body(body, head) for body, head in networks):
            return None
        parts: list[tuple[list[Any], str]] = [([*body.layers, head], body.activation) for body, head in networks]
        inputs = [torch.ones(rows, parts[k][0][0].in_features + 1) for k in (0, -1)]  # the last column is of ones
        sizes = [0] * (max(memories) + 1)
        for part, memory in zip(parts, memories, strict=True):
            sizes[memory] = max(sizes[memory], rows * LinearStack.numbers(*part))
        made = [torch.empty(size) for size in sizes]
        count = len(actors)
        stacks = [
            LinearStack(layers, activation, inputs[k >= count], made[memories[k]])
            for k, (layers, activation) in enumerate(parts)
        ]
        return cls(stacks[:count], stacks[count:], inputs)

    def begin(self) -> None:
        """Begin other sums in all stacks, with the weights as they are now."""
        for stack in (*self.actors, *self.critics):
            stack.begin()

    def act(self, actor: LinearStack, observed: Tensor) -> Tensor:
        """Return the outputs [B, outputs] of ``actor`` where [B, size] is observed."""
        self._observed[: len(observed), :-1].copy_(observed)
        return actor.forward(len(observed)).t()

    def judge(self, critics: Sequence[LinearStack], observed: Tensor, action: Tensor) -> list[Tensor]:
        """Return the outputs [outputs, B] of each of ``critics`` for actions [B, C] where [B, size] is observed."""
        acted = self._acted[: len(observed)]
        acted[:, : observed.shape[1]].copy_(observed)
        acted[:, observed.shape[1] : -1].copy_(action)
        return [critic.forward(len(observed)) for critic in critics]


def critic_layers(model: ActorCritic) -> tuple[list[nn.Linear], str] | None:
    """Return the layers of the values and their activation; None if values need more than linear layers."""
    if not has_exactly(model, (ActorCritic.value,)) or model.privileged is not None:
        return None
    if not is_plain_body(model.critic, model.value_head):
        return None
    return [*model.critic.layers, model.value_head], model.critic.activation


def actor_critic_layers(
    model: ActorCritic, most_rows: int | None = None
) -> tuple[LinearStack, LinearStack, Tensor] | None:
    """Return the layers of policy and critic, and their inputs [rows, size + 1], as many rows as they take at once.

    There are no more than ``most_rows``, the rows that a minibatch has at most. None for a model that is more than two
    stacks of linear layers between vector observations and their outputs.
    """
    if not has_exactly(model, (ActorCritic.policy, ActorCritic.value, ActorCritic.policy_and_value)):
        return None
    if model.critic is model.actor or model.privileged is not None:
        return None
    head = model.policy_head
    if (
        type(head) is not PolicyHead
        or head.reads_features
        or not all(parameter.requires_grad for parameter in model.parameters())
    ):
        return None
    bodies = ((model.actor, head.linear), (model.critic, model.value_head))
    if not all(is_plain_body(body, head) for body, head in bodies):
        return None
    stacks = [([*body.layers, head], body.activation) for body, head in bodies]
    rows = rows_at_once(layer for layers, _ in stacks for layer in layers)
    rows = rows if most_rows is None else min(rows, most_rows)
    inputs = torch.ones(rows, model.inputs.vector_size + 1)
    memory = torch.empty(rows * max(LinearStack.numbers(*stack) for stack in stacks))
    policy, critic = (LinearStack(layers, activation, inputs, memory) for layers, activation in stacks)
    return policy, critic, inputs


def _values(trainer: OnPolicyTrainer) -> Mapping[Function, Function] | None:
    layers = critic_layers(trainer.model)
    return None if layers is None else {OnPolicyTrainer.value: StackOutputs(*layers).value}


VALUES = Acceleration[OnPolicyTrainer](piece="by_hand", methods=(OnPolicyTrainer.value,), make=_values)
