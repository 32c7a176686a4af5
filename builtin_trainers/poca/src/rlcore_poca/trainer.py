"""MA-POCA, Multi-Agent POsthumous Credit Assignment (Cohen et al. 2022, arXiv:2111.05992).

The algorithm is :meth:`POCATrainer.update` and :meth:`POCATrainer.loss`; the networks follow: a policy that sees one
agent's observation, and a critic that reads the group as a set. :mod:`rlcore_poca.groups` has the rules of a group's
rewards and ends. The other parts of an update are methods of :class:`rlcore_torch.OnPolicyTrainer`.

Shapes: T rows, S slots, B rows of a minibatch, M places for the mates of an agent, A numbers of an action, R reward
providers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from rlcore import Actions, AgentBatch, BehaviorSettings, BehaviorSpec, ObservationSpec, RunContext, saved_mapping
from rlcore_poca.groups import ACTIONS, MATES, PRESENT, Groups
from rlcore_poca.settings import POCASettings
from rlcore_torch import (
    Actor,
    Body,
    Critic,
    EntityEmbedding,
    Inputs,
    Loss,
    Minibatch,
    NetworkSettings,
    ObservationInputs,
    OnPolicyTrainer,
    ResidualSelfAttention,
    Rollout,
    clip_fraction,
    clipped_surrogate_loss,
    make_distribution,
    mean_over_rows,
)

__all__ = ["POCATrainer"]

log = logging.getLogger(__name__)


class POCATrainer(OnPolicyTrainer):
    """POCA for continuous, discrete and hybrid actions, with one value head for each reward provider.

    An algorithm that changes a part of POCA derives from this class, with a settings class that derives from
    :class:`rlcore_poca.settings.POCASettings`; its distribution requires ``rlcore-poca``.

    Attributes:
        hyperparameters: The block ``hyperparameters``.
        groups: The groups of the agents.
        clip_range: Tensor [] with the clip range of the probability ratio, as its schedule has it now.
        entropy_weight: Tensor [] with the weight of the entropy bonus, as its schedule has it now.
    """

    hyperparameters: POCASettings
    model: GroupActorCritic  # type: ignore[assignment]  # its critic reads more than an ActorCritic's

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        """Make the model, the optimizer and the schedules. Called by rlcore with keywords."""
        self.groups = Groups(behavior)
        super().__init__(settings, behavior, run)
        self.clip_range = self.scheduled("epsilon", run)
        self.entropy_weight = self.scheduled("beta", run)
        # value_coefficient is the weight of each head's loss, and `loss` takes the mean over heads.
        self._weight_of_mean_value_loss = self.hyperparameters.value_coefficient * len(self.providers)
        if self.model.critic.most == 1 and not run.inference:
            log.warning(
                "behavior %r: no agent of the environment is in a group with another one (group of its BehaviorSpec), "
                "so poca learns what ppo learns, more slowly; choose trainer_type ppo",
                behavior.name,
            )

    # ------------------------------------------------------------ the update

    def update(self) -> Mapping[str, float | Sequence[float]]:
        """Take ``num_epoch`` passes over the rollout, then begin another.

        The value of a group's state and the baseline of an agent have one target, the lambda-return of the value, and
        the return less the baseline is the advantage of what the agent did. All else is as in PPO. Raises
        TrainingDiverged if a loss is not finite.
        """
        rollout = self.rollout()
        seen = self.seen(rollout)
        rollout.beside = self.mates(seen).columns()  # minibatches have it
        advantages, returns = self.advantages(rollout, self.baselines(rollout, seen))
        losses: list[Loss] = []
        for _ in range(self.hyperparameters.num_epoch):
            for batch in self.minibatches(rollout, advantages, returns):
                losses.append(self.minimize(self.loss, batch))
                if not losses[-1].stepped:  # the policy is too far from the one that acted
                    return self.finish(rollout, losses)
        return self.finish(rollout, losses)

    @mean_over_rows
    def loss(self, batch: Minibatch) -> Loss:
        """The clipped surrogate, the losses of value and baseline, and the entropy bonus of one minibatch."""
        columns, logits = self.model.policy(batch.inputs)
        learns_entropy = self.hyperparameters.beta > 0.0
        log_prob, entropy = self.likelihood(batch, columns, logits, learns_entropy)

        # The clipped surrogate of PPO (Schulman et al. 2017, eq. 7).
        log_ratio = log_prob - batch.old_log_prob
        policy_loss = clipped_surrogate_loss(log_ratio, batch.advantage, self.clip_range)

        # Both learn the same return; the baseline does not see what its agent did (Cohen et al. 2022).
        mates = Mates.of_columns(batch.beside)
        value, baseline = self.model.critic.value_and_baseline(batch.inputs, mates)
        value_loss = mse_loss(value, batch.returns)
        baseline_loss = mse_loss(baseline, batch.returns)

        entropy = entropy.mean()
        critic_loss = value_loss + 0.5 * baseline_loss  # ML-Agents' weights
        total = policy_loss + self._weight_of_mean_value_loss * critic_loss - self.entropy_weight * entropy
        return Loss(total, policy_loss, value_loss, entropy, log_ratio, {"Losses/Baseline Loss": baseline_loss})

    # ------------------------------------------------------------ values and baselines of a rollout

    def seen(self, rollout: Rollout) -> Mapping[str, NDArray[Any]]:
        """Return what the rollout stores by name, each [T * S, *shape], of the agents and of their mates."""
        rows = len(rollout.valid)
        seen = {}
        for name, array in self.buffer.seen.items():
            stored = array[:rows]
            seen[name] = stored.reshape(-1, *array.shape[2:])
        return seen

    @torch.no_grad()
    def baselines(self, rollout: Rollout, seen: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return the baselines [T, S, R] under the weights that acted."""
        places = rollout.valid.size
        inputs = tuple(x[:places] for x in rollout.inputs)
        baselines = self.in_pieces(self.baseline, inputs, seen).cpu().numpy()
        return baselines.reshape(rollout.value.shape)

    def value(self, inputs: Inputs, seen: Mapping[str, NDArray[Any]]) -> Tensor:
        """Return the values [B, R] of the groups of B agents."""
        return self.model.critic.value(inputs, self.mates(seen))

    def baseline(self, inputs: Inputs, seen: Mapping[str, NDArray[Any]]) -> Tensor:
        """Return the baselines [B, R] of B agents."""
        return self.model.critic.baseline(inputs, self.mates(seen))

    def mates(self, seen: Mapping[str, NDArray[Any]]) -> Mates:
        """Return the mates of B agents from what the rollout stores of these rows, normalized as the agents are."""
        device = self.device
        observed = {o.name: seen[MATES + o.name] for o in self.behavior.observations}
        raw = self.model.inputs.raw(observed, lead=2)
        inputs = self.model.inputs(tuple(x.to(device) for x in raw))
        present = torch.from_numpy(seen[PRESENT]).to(device)
        actions = torch.from_numpy(seen[ACTIONS]).to(device)
        by_agent = tuple(x.unflatten(0, present.shape) for x in inputs)  # each [B, M, ...]
        return Mates(by_agent, present, actions)

    # ------------------------------------------------------------ the network, and statistics

    def build_model(self, value_heads: int) -> GroupActorCritic:  # type: ignore[override]
        """The network of the policy and of the group's values, with a value head for each reward provider."""
        most = max(self.ranks.all_gather(self.groups.most))
        network = self.settings.network_settings
        log_std = self.hyperparameters.initial_log_std
        return GroupActorCritic(self.groups, network, value_heads, log_std, most)

    def diagnostics(self, log_ratio: Tensor) -> dict[str, float]:
        """Statistics of an update: those of the template, and the share of ``log_ratio`` [rows] that is clipped."""
        clipped = clip_fraction(log_ratio, self.clip_range)
        return {**super().diagnostics(log_ratio), "Policy/Clip Fraction": clipped}

    # ------------------------------------------------------------ collecting

    def stored(self) -> BehaviorSpec:
        """The behavior with what mates see and do among the observations."""
        return self.groups.stored()

    def begin(self, batch: AgentBatch) -> None:
        super().begin(self.groups.begin(batch))

    def act(self, batch: AgentBatch) -> Actions:
        """Return actions; store what their distribution was given, and what the mates do."""
        actions = super().act(batch)
        of_mates = self.groups.act(actions, batch)
        slots = np.arange(self.behavior.slots)
        if batch.needs_action is not None:
            slots = np.flatnonzero(batch.needs_action)
        rows = self.buffer.lengths()[slots]
        # Beside the observation that is stored already: what mates do is known only when all have chosen.
        self.buffer.seen[ACTIONS][rows, slots] = of_mates[slots]
        return actions

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        """Store the transitions that closed, with the rewards and ends of the group."""
        super().observe(actions, self.groups.observe(batch))

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "groups": self.groups.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.groups.load_state_dict(saved_mapping(state, "groups"))

    def require_fit(self, state: Mapping[str, Any]) -> None:
        super().require_fit(state)
        self.groups.require_fit(saved_mapping(state, "groups"))


# ---------------------------------------------------------------- the networks

HEADS = 4  # of attention, as in ML-Agents


@attrs.frozen(eq=False)
class Mates:
    """The mates of the agents of B rows."""

    inputs: Inputs  # normalized observations, each [B, M, ...]
    present: Tensor  # [B, M] bool, the mates that are there; nothing else of the others is used
    actions: Tensor  # [B, M, A] what they do: continuous parts, then a 1 for each choice

    def columns(self) -> dict[str, Tensor]:
        """The parts by name, as a minibatch carries them."""
        columns = {"present": self.present, "actions": self.actions}
        for k, x in enumerate(self.inputs):
            columns[f"{k}"] = x
        return columns

    @classmethod
    def of_columns(cls, columns: Mapping[str, Tensor]) -> Mates:
        """The mates that :meth:`columns` describes."""
        count = len(columns) - 2
        inputs = tuple(columns[f"{k}"] for k in range(count))
        return cls(inputs, columns["present"], columns["actions"])


class GroupCritic(nn.Module):
    """Values of a group and counterfactual baselines of an agent, by one network (Cohen et al. 2022).

    The group is a set of entities: the agent, and each mate that is there. For the value each is embedded with what it
    observes; for the baseline the mates are embedded with what they observe and do, and the agent with what it observes
    alone. Attention reads the set as one vector, whatever its order and size; the hidden layers follow, which also see
    the size.

    Attributes:
        most: The number of agents in the largest group.
        observed: The embedding of an agent by what it observes.
        acted: The embedding of an agent by what it observes and does.
    """

    def __init__(
        self, inputs: ObservationInputs, settings: NetworkSettings, action_size: int, most: int, heads: int
    ) -> None:
        """Give ``heads`` values, for groups of up to ``most`` agents with A = ``action_size`` numbers of an action."""
        super().__init__()
        of_critic = settings.of_critic
        width = of_critic.hidden_units
        self.most = most
        encoding = attrs.evolve(of_critic, hidden_layers=())  # of images and vectors alone
        self.encoder = Body(inputs, encoding)
        features = self.encoder.features
        self.observed = EntityEmbedding(features, width)
        self.acted = EntityEmbedding(features + action_size, width)
        self.attention = ResidualSelfAttention(width, math.gcd(width, HEADS))
        read = ObservationSpec("group", (width,), np.float32)
        group = ObservationInputs((read,), normalize=False)
        layers = attrs.evolve(of_critic, vector_encode_type=None)
        # The size of the group enters beside what attention read, where a critic of actions has the action.
        self.values = Critic(group, layers, heads, continuous=1)

    def value(self, inputs: Inputs, mates: Mates) -> Tensor:
        """Return the values [B, R] of the groups of the agents that observe ``inputs``."""
        entities = self.observed(self._encoded(inputs, mates))
        return self._read(entities, mates.present)

    def baseline(self, inputs: Inputs, mates: Mates) -> Tensor:
        """Return the baselines [B, R] of these agents, which do not depend on what they do themselves."""
        encoded = self._encoded(inputs, mates)
        agent = self.observed(encoded[:, :1])
        entities = self._with_actions(agent, encoded, mates)
        return self._read(entities, mates.present)

    def value_and_baseline(self, inputs: Inputs, mates: Mates) -> tuple[Tensor, Tensor]:
        """Return values and baselines, both [B, R], in one pass."""
        encoded = self._encoded(inputs, mates)
        observed = self.observed(encoded)
        acted = self._with_actions(observed[:, :1], encoded, mates)
        entities = torch.cat((observed, acted))
        present = mates.present.repeat(2, 1)
        value, baseline = self._read(entities, present).chunk(2)
        return value, baseline

    def _encoded(self, inputs: Inputs, mates: Mates) -> Tensor:
        """Encoded observations [B, 1 + M, features], those of the agent first."""
        rows = []
        for of_agent, of_mates in zip(inputs, mates.inputs, strict=True):
            group = torch.cat((of_agent.unsqueeze(1), of_mates), 1)  # [B, 1 + M, ...]
            rows.append(group.flatten(0, 1))
        encoded = self.encoder.encode(tuple(rows))
        return encoded.view(len(mates.present), -1, self.encoder.features)

    def _with_actions(self, agent: Tensor, encoded: Tensor, mates: Mates) -> Tensor:
        """Embedded agents [B, 1 + M, width]: ``agent`` [B, 1, width] as it is, the mates with what they do."""
        observed_and_done = torch.cat((encoded[:, 1:], mates.actions), 2)
        return torch.cat((agent, self.acted(observed_and_done)), 1)

    def _read(self, entities: Tensor, present: Tensor) -> Tensor:
        """Values [B, R] of groups of embedded agents [B, 1 + M, width], of which the first is there."""
        agent = present.new_ones(len(present), 1)
        there = torch.cat((agent, present), 1)
        size = 2.0 * there.sum(1, keepdim=True) / self.most - 1.0  # in [-1, 1], as in ML-Agents
        group = self.attention(entities, there)
        return self.values((group,), size)  # type: ignore[no-any-return]


class GroupActorCritic(Actor):
    """The policy of one agent, and the critic of its group."""

    def __init__(self, groups: Groups, settings: NetworkSettings, value_heads: int, log_std: float, most: int) -> None:
        """``log_std`` is the initial one of the policy, ``most`` the agents in the largest group of the run."""
        behavior = groups.behavior
        distribution = None
        if behavior.continuous:
            distribution = make_distribution(settings, behavior, log_std)
        super().__init__(behavior, settings, distribution)
        self.critic = GroupCritic(self.inputs, settings, groups.action_size, most, value_heads)
