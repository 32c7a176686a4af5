"""PQN: Q-learning on rollouts of several environments, without replay buffer and target network.

The paper is Gallici et al. 2025, arXiv:2407.04811.

:class:`rlcore_torch.OnPolicyTrainer` collects the rollouts and has the parts of an update. This file has the rest, in
the order of the algorithm: exploration by epsilon, the update, the loss, the values of the returns, then the network.

The lambda-return of Q-learning (Peng's Q(lambda); Daley and Amato 2019) is

    R_t = r_t + gamma ((1 - lambda) max_a Q(s_{t+1}, a) + lambda R_{t+1}),

and so the generalized advantage of the value V(s) = max_a Q(s, a), plus this value. So ``advantages`` of the template
computes it, with its rules for ends: an episode that a time limit ends bootstraps from its final observation, which the
published implementations do not.

An action of several branches has a value for each option of each branch. The value of an observation is the mean over
the branches of their best options, and all branches learn one return (Tavakoli et al. 2018, arXiv:1711.08946, eq. 6).
Each of the R reward providers has its own values; the best option has the greatest sum of them.

Shapes: T rows, S slots, B transitions, R reward providers, D branches, L options of all branches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from rlcore import Actions, AgentBatch, BehaviorSettings, BehaviorSpec, ObservationSpec, RunContext
from rlcore_pqn.settings import PQNNetworkSettings, PQNSettings
from rlcore_torch import (
    ActionLayout,
    Actor,
    Inputs,
    Loss,
    Minibatch,
    OnPolicyTrainer,
    PolicyHead,
    Schedule,
    epsilon_greedy,
    initialize,
    linear,
    mask_logits,
    mean_over_rows,
    reads_tensors,
)

__all__ = ["PQNTrainer"]

ALLOWED = "/allowed"  # the key of the action mask among the observations that a rollout stores
OF_A_POLICY = ("Losses/Policy Loss", "Losses/Value Loss", "Policy/Entropy")  # statistics that Q-learning does not have


class PQNTrainer(OnPolicyTrainer):
    """PQN for discrete actions of any number of branches."""

    hyperparameters: PQNSettings
    model: QNetwork  # type: ignore[assignment]  # it has no critic beside the policy

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        h = self.hyperparameters
        self._epsilon_schedule = Schedule(linear, h.initial_epsilon, h.final_epsilon, h.epsilon_steps)

    # ------------------------------------------------------------ acting

    @property
    def epsilon(self) -> float:
        """The probability of a random action in this rollout; a function of agent steps, equal in all ranks."""
        return self._epsilon_schedule(self.rollout_start)

    @reads_tensors
    def explore(self, parameters: tuple[Any, Any], noise: tuple[Any, Any] | None) -> tuple[Any, Any]:
        """Return the best choices [S, D], and by epsilon random ones; each agent throws a coin of its own."""
        _, values = parameters
        _, gumbel = noise or self.action_noise.next()
        return super().explore((None, epsilon_greedy(values, gumbel, self.epsilon)), None)

    # ------------------------------------------------------------ the update

    def update(self) -> Mapping[str, float | Sequence[float]]:
        """Take ``num_epoch`` passes over the rollout, then begin another.

        The returns are those of the values that acted, and stay as they are in all passes. Raises TrainingDiverged if a
        loss is not finite.
        """
        rollout = self.rollout()
        advantages, returns = self.advantages(rollout)
        losses: list[Loss] = []
        for _ in range(self.hyperparameters.num_epoch):
            for batch in self.minibatches(rollout, advantages, returns):
                losses.append(self.minimize(self.loss, batch))
        stats = dict(self.finish(rollout, losses))
        for tag in OF_A_POLICY:
            del stats[tag]
        return stats

    @mean_over_rows
    def loss(self, batch: Minibatch) -> Loss:
        """The squared error of the values of the chosen options."""
        assert batch.choices is not None
        values = self.model.values(batch)  # [B, R, L]
        chosen = self.model.chosen(values, batch.choices)  # [B, R, D]
        target = batch.returns.unsqueeze(2).expand_as(chosen)
        loss = mse_loss(chosen, target)
        zero = torch.zeros_like(loss)
        log_ratio = torch.zeros_like(batch.advantage)
        return Loss(loss, zero, loss, zero, log_ratio, {"Losses/Q Loss": loss})

    @reads_tensors
    def value(self, inputs: Inputs, seen: Mapping[str, Any]) -> Tensor:
        """Return the values [B, R] of the best allowed options, which the returns are made of."""
        values = super().value(inputs, seen)  # [B, R * L]
        allowed = torch.as_tensor(seen[ALLOWED]).to(self.device)
        return self.model.best(self.model.by_reward(values), allowed)

    # ------------------------------------------------------------ which options are allowed, also where an episode ends

    @reads_tensors
    def stored(self) -> BehaviorSpec:
        """Return the behavior with the options that are allowed among the observations."""
        allowed = ObservationSpec(ALLOWED, (self.behavior.mask_size,), np.bool_)
        return attrs.evolve(self.behavior, observations=(*self.behavior.observations, allowed))

    @reads_tensors
    def begin(self, batch: AgentBatch) -> None:
        super().begin(self._with_allowed(batch))

    @reads_tensors
    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        super().observe(actions, self._with_allowed(batch))

    def _with_allowed(self, batch: AgentBatch) -> AgentBatch:
        observations = self._and_allowed(batch.observations, batch.action_mask)
        finals = batch.final_observations
        if finals is not None:
            finals = self._and_allowed(finals, batch.final_action_mask)
        return attrs.evolve(batch, observations=observations, final_observations=finals)

    def _and_allowed(self, observations: Mapping[str, Any], mask: Any) -> dict[str, Any]:
        """Return ``observations``, each [K, ...], and the ``mask`` [K, L] of allowed options; None: all are."""
        if mask is None:
            any_of_them = next(iter(observations.values()))
            shape = (len(any_of_them), self.behavior.mask_size)
            if isinstance(any_of_them, Tensor):
                mask = torch.ones(shape, dtype=torch.bool, device=any_of_them.device)
            else:
                mask = np.ones(shape, np.bool_)
        return {**observations, ALLOWED: mask}

    # ------------------------------------------------------------ the network, and statistics

    def build_model(self, value_heads: int) -> QNetwork:  # type: ignore[override]
        return QNetwork(self.behavior, self.settings.network_settings, value_heads)

    def schedules(self) -> Mapping[str, float]:
        """Return what changes with the steps, as it was in the rollout: the learning rate's are the template's."""
        return {**super().schedules(), "Policy/Epsilon": self.epsilon}

    def diagnostics(self, log_ratio: Tensor) -> dict[str, float]:
        """Return nothing: there is no ratio of probabilities."""
        return {}


# ---------------------------------------------------------------- the network


class ValueHead(PolicyHead):
    """A policy's head whose logits are the sums of the values of R rewards."""

    def __init__(self, features: int, layout: ActionLayout, init: str, rewards: int) -> None:
        super().__init__(features, layout, init, None)
        self.rewards = rewards
        self.linear = nn.Linear(features, rewards * layout.logits)
        initialize(self.linear, init, gain=0.01 if init == "orthogonal" else 0.1)  # as a policy's: small at first

    def split(self, output: Tensor) -> tuple[None, Tensor]:
        """Return None, and the sums [B, L] of ``output`` [B, R * L]."""
        return None, output.view(-1, self.rewards, self.logits).sum(1)


class QNetwork(Actor):
    """An actor whose logits are the values of options: its most likely action is the best one.

    Attributes:
        shape: R and L.
    """

    offsets: Tensor  # [D] index of the first option of each branch

    def __init__(self, behavior: BehaviorSpec, settings: PQNNetworkSettings, rewards: int) -> None:
        super().__init__(behavior, settings)
        layout = ActionLayout(behavior)
        if rewards > 1:
            self.policy_head = ValueHead(self.actor.features, layout, settings.init, rewards)
        self.shape = (rewards, layout.logits)
        self.branches = layout.branches
        self.register_buffer("offsets", torch.tensor(layout.offsets), persistent=False)

    def value(self, inputs: Inputs) -> Tensor:
        """Return the values of all options, [B, R * L]."""
        return self.actor.into(inputs, self.policy_head.linear)

    def value_step(self, inputs: Inputs, memory: Tensor) -> Tensor:
        """Return the values [R, R * L] of rows with ``memory`` [R, M] before them."""
        features, _ = self.actor.step(inputs, memory)
        return self.policy_head.linear(features)  # type: ignore[no-any-return]

    def values(self, batch: Minibatch) -> Tensor:
        """Return the values [B, R, L] of a minibatch."""
        if batch.sequences is None:
            return self.by_reward(self.value(batch.inputs))
        features = self.actor.remember(batch.inputs, batch.sequences, batch.sequences.actor_memory)
        return self.by_reward(self.policy_head.linear(features))

    def by_reward(self, values: Tensor) -> Tensor:
        """Return ``values`` [B, R * L] as [B, R, L]."""
        return values.view(-1, *self.shape)

    def chosen(self, values: Tensor, choices: Tensor) -> Tensor:
        """Select [B, R, D] of ``choices`` [B, D] from ``values`` [B, R, L]."""
        rewards, _ = self.shape
        columns = choices + self.offsets  # [B, D] among the L options
        return values.gather(2, columns.unsqueeze(1).expand(-1, rewards, -1))

    def best(self, values: Tensor, allowed: Tensor) -> Tensor:
        """Return the values [B, R] of the best ``allowed`` options, means over the branches; ``allowed`` is [B, L]."""
        total = mask_logits(values.sum(1), allowed)
        branches = total.split(self.branches, dim=1)  # type: ignore[no-untyped-call]
        choices = torch.stack([branch.argmax(1) for branch in branches], dim=1)
        return self.chosen(values, choices).mean(2)
