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
        networks: list[tuple[Body, nn.Module]] = []
        for actor in actors:
            if not _is_linear(actor.policy_head):
                return None
            networks.append((actor.actor, actor.policy_head.linear))
        for critic in critics:
            networks.append((critic.body, critic.head))
        if not all(is_plain_body(body, head) for body, head in networks):
            return None
        parts = [_layers(body, head) for body, head in networks]
        sizes = [0] * (max(memories) + 1)
        for (layers, activation), memory in zip(parts, memories, strict=True):
            size = rows * LinearStack.numbers(layers, activation)
            sizes[memory] = max(sizes[memory], size)
        arrays = [torch.empty(size) for size in sizes]
        observed = _inputs(parts[0], rows)
        acted = _inputs(parts[-1], rows)
        stacks = []
        for k, (layers, activation) in enumerate(parts):
            inputs = observed if k < len(actors) else acted
            stacks.append(LinearStack(layers, activation, inputs, arrays[memories[k]]))
        return cls(stacks[: len(actors)], stacks[len(actors) :], (observed, acted))

    def begin(self) -> None:
        """Begin other sums in all stacks, with the weights as they are now."""
        for stack in (*self.actors, *self.critics):
            stack.begin()

    def act(self, actor: LinearStack, observed: Tensor) -> Tensor:
        """Return the outputs [B, outputs] of ``actor`` where [B, size] is observed."""
        rows = len(observed)
        self._observed[:rows, :-1].copy_(observed)
        return actor.forward(rows).t()

    def judge(self, critics: Sequence[LinearStack], observed: Tensor, action: Tensor) -> list[Tensor]:
        """Return the outputs [outputs, B] of each of ``critics`` for actions [B, C] where [B, size] is observed."""
        rows, size = observed.shape
        acted = self._acted[:rows]
        acted[:, :size].copy_(observed)
        acted[:, size:-1].copy_(action)
        return [critic.forward(rows) for critic in critics]


def critic_layers(model: ActorCritic) -> tuple[list[nn.Linear], str] | None:
    """Return the layers of the values and their activation; None if values need more than linear layers."""
    if not has_exactly(model, (ActorCritic.value,)) or model.privileged is not None:
        return None
    if not is_plain_body(model.critic, model.value_head):
        return None
    return _layers(model.critic, model.value_head)


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
    if not _is_linear(head) or not all(parameter.requires_grad for parameter in model.parameters()):
        return None
    if not is_plain_body(model.actor, head.linear) or not is_plain_body(model.critic, model.value_head):
        return None
    policy_layers, activation = _layers(model.actor, head.linear)
    value_layers, value_activation = _layers(model.critic, model.value_head)
    rows = rows_at_once([*policy_layers, *value_layers])
    if most_rows is not None:
        rows = min(rows, most_rows)
    inputs = torch.ones(rows, model.inputs.vector_size + 1)
    policy_numbers = LinearStack.numbers(policy_layers, activation)
    value_numbers = LinearStack.numbers(value_layers, value_activation)
    memory = torch.empty(rows * max(policy_numbers, value_numbers))
    policy = LinearStack(policy_layers, activation, inputs, memory)
    critic = LinearStack(value_layers, value_activation, inputs, memory)
    return policy, critic, inputs


def _is_linear(head: PolicyHead) -> bool:
    """Whether a policy's output is a linear layer on the features, and no distribution reads these too."""
    return type(head) is PolicyHead and not head.reads_features


def _layers(body: Body, head: Any) -> tuple[list[nn.Linear], str]:
    """Return the linear layers of a plain network, and the activation between them."""
    return [*body.layers, head], body.activation


def _inputs(part: tuple[list[nn.Linear], str], rows: int) -> Tensor:
    """Return room for the inputs [rows, size + 1] of the first of several layers; the last column is of ones."""
    layers, _ = part
    return torch.ones(rows, layers[0].in_features + 1)


def _values(trainer: OnPolicyTrainer) -> Mapping[Function, Function] | None:
    layers = critic_layers(trainer.model)
    if layers is None:
        return None
    outputs = StackOutputs(*layers)
    return {OnPolicyTrainer.value: outputs.value}


VALUES = Acceleration[OnPolicyTrainer](piece="by_hand", methods=(OnPolicyTrainer.value,), make=_values)
