"""Models of trainers: a policy, with critics beside it or on the same body."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec
from rlcore_torch.networks.actions import ActionLayout
from rlcore_torch.networks.bodies import Body
from rlcore_torch.networks.distributions import ActionDistribution, make_distribution
from rlcore_torch.networks.heads import PolicyHead
from rlcore_torch.networks.inputs import AnyInputs, LearnerInputs, ObservationInputs, divided_observations
from rlcore_torch.networks.layers import initialize
from rlcore_torch.networks.sequence_inputs import Inputs, SequenceInputs, Sequences
from rlcore_torch.networks.settings import NetworkSettings

__all__ = ["Actor", "ActorCritic", "Critic", "min_q"]


class Actor(nn.Module):
    """A policy network: what acting, evaluation and export need. Trainers derive from it and add critics.

    ``distribution`` is that of the continuous parts of an action; by default the one that ``settings`` name.

    Attributes:
        memory: The block ``memory``; None without memory.
        inputs: Makes inputs of the policy from observations; for all parts of the model without ``privileged``.
        privileged: Makes inputs from the observations that critics alone read, ``critic_observations``; None without.
        actor: The body of the policy.
        policy_head: The parameters of the distribution from the features of the body.
    """

    def __init__(
        self, behavior: BehaviorSpec, settings: NetworkSettings, distribution: ActionDistribution | None = None
    ) -> None:
        super().__init__()
        self.memory = settings.memory
        acting, privileged = divided_observations(behavior, settings)
        self.inputs = ObservationInputs(acting, settings.normalize, settings.normalize_clip)
        self.privileged: ObservationInputs | None = None
        if privileged:
            self.privileged = ObservationInputs(privileged, settings.normalize, settings.normalize_clip)
        self.actor = Body(self.inputs, settings, memory_place=0)
        if distribution is None and behavior.continuous:
            distribution = make_distribution(settings, behavior)
        layout = ActionLayout(behavior)
        features = self.actor.features
        self.policy_head = PolicyHead(features, layout, settings.init, distribution)

    def policy(self, inputs: Inputs, batch_statistics: bool = False) -> tuple[Tensor | None, Tensor | None]:
        """Return the columns of the continuous parts [B, columns] and the logits [B, logits].

        See :class:`PolicyHead`. A part that the behavior does not have is None. ``batch_statistics`` is that of
        :meth:`Body.into`, for losses.
        """
        head = self.policy_head
        if head.reads_features:
            features = self.actor.last_features(inputs, batch_statistics=batch_statistics)
            return head(features)  # type: ignore[no-any-return]
        output = self.actor.into(inputs, head.linear, batch_statistics=batch_statistics)
        return head.split(output)

    @property
    def learner_inputs(self) -> AnyInputs:
        """Makes inputs from all observations, for minibatches; those that the policy reads alone are ``inputs``."""
        if self.privileged is None:
            return self.inputs
        return LearnerInputs(self.inputs, self.privileged)

    def of_actor(self, inputs: Inputs) -> Inputs:
        """Return what the policy reads of the ``inputs`` of a minibatch."""
        if self.privileged is None:
            return inputs
        split = LearnerInputs(self.inputs, self.privileged).split
        if isinstance(inputs, SequenceInputs):
            return inputs.map(lambda part: split(part)[0])
        of_actor, _ = split(inputs)
        return of_actor

    # ------------------------------------------------------------ with memory

    @property
    def memory_size(self) -> int:
        """M, the numbers that each row remembers from step to step; 0 without memory."""
        if self.memory is None:
            return 0
        return self.memory.memory_size

    @property
    def remembering(self) -> Sequence[Body]:
        """The bodies whose memory a trainer keeps while it acts, at their ``memory_place``; that of the policy first.

        By default, the bodies of ``critics`` that have a place follow.
        """
        bodies = [self.actor]
        for critic in getattr(self, "critics", ()):
            if isinstance(critic, Critic) and critic.body.memory_place is not None:
                bodies.append(critic.body)
        return bodies

    def policy_step(self, inputs: Inputs, memory: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """Return the output of :meth:`policy` for one step of R rows, and their next memory [R, M].

        ``memory`` [R, M] is the memory before the step.
        """
        features, memory = self.actor.step(inputs, memory)
        return *self.policy_head(features), memory

    def policy_of(self, inputs: Inputs, sequences: Sequences) -> tuple[Tensor | None, Tensor | None]:
        """Return the output of :meth:`policy` for the B rows of ``sequences``, [B, columns] and [B, logits]."""
        features = self.actor.remember(inputs, sequences, sequences.actor_memory)
        return self.policy_head(features)  # type: ignore[no-any-return]


class ActorCritic(Actor):
    """A policy and one value head for each reward provider, on one body (``shared``) or on two.

    Attributes:
        critic: The body of the values; that of the policy if shared.
        value_head: The values from the features of the body.
    """

    def __init__(
        self,
        behavior: BehaviorSpec,
        settings: NetworkSettings,
        value_heads: int,
        shared: bool,
        initial_log_std: float = 0.0,
    ) -> None:
        distribution: ActionDistribution | None = None
        if behavior.continuous:
            distribution = make_distribution(settings, behavior, initial_log_std)
        super().__init__(behavior, settings, distribution)
        self.critic = self.actor
        if not shared:
            self.critic = Body(self.learner_inputs, settings.of_critic, memory_place=1)
        self.value_head = nn.Linear(self.critic.features, value_heads)
        initialize(self.value_head, settings.init, gain=1.0)

    @property
    def remembering(self) -> Sequence[Body]:
        if self.critic is self.actor:
            return (self.actor,)
        return (self.actor, self.critic)

    def value(self, inputs: Inputs) -> Tensor:
        """Return the values by reward provider, [B, value_heads]."""
        return self.critic.into(inputs, self.value_head)

    def value_step(self, inputs: Inputs, memory: Tensor) -> Tensor:
        """Return the values [R, value_heads] of R rows with the critic's ``memory`` [R, M] before them."""
        features, _ = self.critic.step(inputs, memory)
        return self.value_head(features)  # type: ignore[no-any-return]

    def policy_and_value(
        self, inputs: Inputs, sequences: Sequences | None = None
    ) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """Return the output of :meth:`policy` and the values [B, value_heads], running a shared body once.

        ``inputs`` are those of a minibatch. With memory, B are the rows of ``sequences``.
        """
        if self.critic is self.actor:
            if sequences is None:
                features = self.actor(inputs)
            else:
                features = self.actor.remember(inputs, sequences, sequences.actor_memory)
            return *self.policy_head(features), self.value_head(features)
        of_actor = self.of_actor(inputs)
        if sequences is None:
            return *self.policy(of_actor), self.value(inputs)
        features = self.critic.remember(inputs, sequences, sequences.critic_memory)
        return *self.policy_of(of_actor, sequences), self.value_head(features)


class Critic(nn.Module):
    """A value network of its own: inputs, and an action's continuous parts if ``continuous``, to [B, outputs].

    Of ``settings``, those of a critic are used. With memory, its stored memory is at ``memory_place``, or sequences
    begin with zeros.

    Attributes:
        body: The body.
        head: The outputs from the features of the body.
    """

    def __init__(
        self,
        inputs: AnyInputs,
        settings: NetworkSettings,
        outputs: int,
        continuous: int = 0,
        memory_place: int | None = None,
    ) -> None:
        super().__init__()
        self.body = Body(inputs, settings.of_critic, continuous, memory_place)
        self.head = nn.Linear(self.body.features, outputs)
        initialize(self.head, settings.init, gain=1.0)

    def forward(
        self,
        inputs: Inputs,
        continuous: Tensor | None = None,
        frozen: bool = False,
        encoded: Tensor | None = None,
        batch_statistics: bool = False,
    ) -> Tensor:
        """Return [B, outputs].

        With ``frozen``, ``continuous`` [B, continuous] gets a gradient and the weights get none. ``encoded`` is what
        :meth:`Body.encode_once` returned for the ``inputs``. ``batch_statistics`` is that of :meth:`Body.into`.
        """
        return self.body.into(inputs, self.head, continuous, frozen, encoded, batch_statistics)


def min_q(first: Tensor, *others: Tensor) -> Tensor:
    """Return, in each row of critics' values [B, R, ...], those of the critic with the smallest sum over R rewards.

    With two critics, this is clipped double Q-learning (Fujimoto et al. 2018, arXiv:1802.09477).

    Each reward has its own value, and what an action is worth is their sum. The minimum of each value by itself would
    combine critics, none of which expects this sum.
    """
    least = first
    for other in others:
        total_of_least = least.sum(1, keepdim=True)
        total_of_other = other.sum(1, keepdim=True)
        least = torch.where(total_of_least <= total_of_other, least, other)
    return least
