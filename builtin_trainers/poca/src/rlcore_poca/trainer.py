"""MA-POCA, Multi-Agent POsthumous Credit Assignment (Cohen et al. 2022, arXiv:2111.05992).

The algorithm is :meth:`POCATrainer.update` and :meth:`POCATrainer.loss`. :mod:`rlcore_poca.groups` has the rules of a
group's rewards and ends, and :mod:`rlcore_poca.networks` the critic; the other parts of an update are methods of
:class:`rlcore_torch.OnPolicyTrainer`.

Shapes: T rows, S slots, B rows of a minibatch, M places for the mates of an agent, R reward providers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import mse_loss

from rlcore import Actions, AgentBatch, BehaviorSettings, BehaviorSpec, RunContext, saved_mapping
from rlcore_poca.groups import ACTIONS, MATES, PRESENT, Groups
from rlcore_poca.networks import GroupActorCritic, Mates
from rlcore_poca.settings import POCASettings
from rlcore_torch import Inputs, Loss, Minibatch, OnPolicyTrainer, Rollout, mean_over_rows

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

    def build_model(self, value_heads: int) -> GroupActorCritic:  # type: ignore[override]
        """The network of the policy and of the group's values, with a value head for each reward provider."""
        most = max(self.ranks.all_gather(self.groups.most))
        log_std, action_size = self.hyperparameters.initial_log_std, self.groups.action_size
        return GroupActorCritic(self.behavior, self.settings.network_settings, value_heads, log_std, action_size, most)

    # ------------------------------------------------------------ the update

    def update(self) -> Mapping[str, float | Sequence[float]]:
        """Take ``num_epoch`` passes over the rollout, then begin another.

        The value of a group's state and the baseline of an agent have one target, the lambda-return of the value, and
        the return less the baseline is the advantage of what the agent did. All else is as in PPO. Raises
        TrainingDiverged if a loss is not finite.
        """
        rollout = self.rollout()
        self.add_baselines(rollout)
        advantages, returns = self.advantages(rollout)
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
        log_prob, entropy = self.likelihood(batch, columns, logits, self.hyperparameters.beta > 0.0)

        log_ratio = log_prob - batch.old_log_prob
        ratio = log_ratio.exp()
        clipped_ratio = ratio.clamp(1.0 - self.clip_range, 1.0 + self.clip_range)
        policy_loss = -torch.min(ratio * batch.advantage, clipped_ratio * batch.advantage).mean()

        value, baseline = self.model.critic.value_and_baseline(batch.inputs, Mates.of_columns(batch.beside))
        value_loss = mse_loss(value, batch.returns)
        baseline_loss = mse_loss(baseline, batch.returns)

        entropy = entropy.mean()
        critic_loss = value_loss + 0.5 * baseline_loss  # ML-Agents' weights
        total = policy_loss + self._weight_of_mean_value_loss * critic_loss - self.entropy_weight * entropy
        return Loss(total, policy_loss, value_loss, entropy, log_ratio, {"Losses/Baseline Loss": baseline_loss})

    def diagnostics(self, log_ratio: Tensor) -> dict[str, float]:
        """Statistics of an update: those of the template, and the share of ``log_ratio`` [rows] that is clipped."""
        clipped = log_ratio.expm1().abs() > self.clip_range
        return {**super().diagnostics(log_ratio), "Policy/Clip Fraction": float(clipped.to(torch.float32).mean())}

    # ------------------------------------------------------------ values and baselines of a rollout

    @torch.no_grad()
    def add_baselines(self, rollout: Rollout) -> None:
        """Add to the rollout what mates see and do, and the baselines under the weights that acted."""
        rows = len(rollout.valid)
        seen = {name: array[:rows].reshape(-1, *array.shape[2:]) for name, array in self.buffer.seen.items()}
        rollout.beside = self.mates(seen).columns()
        inputs = tuple(x[: rollout.valid.size] for x in rollout.inputs)
        baseline = self.in_pieces(self.baseline, inputs, seen)  # [T * S, R]
        rollout.baseline = baseline.cpu().numpy().reshape(rollout.value.shape)

    def value(self, inputs: Inputs, seen: Mapping[str, NDArray[Any]]) -> Tensor:
        """Return the values [B, R] of the groups of B agents."""
        return self.model.critic.value(inputs, self.mates(seen))

    def baseline(self, inputs: Inputs, seen: Mapping[str, NDArray[Any]]) -> Tensor:
        """Return the baselines [B, R] of B agents."""
        return self.model.critic.baseline(inputs, self.mates(seen))

    def mates(self, seen: Mapping[str, NDArray[Any]]) -> Mates:
        """Return the mates of B agents from what the rollout stores of these rows, normalized as the agents are."""
        observed = {o.name: seen[MATES + o.name] for o in self.behavior.observations}
        raw = self.model.inputs.raw(observed, lead=2)
        present, actions = (torch.from_numpy(seen[name]).to(self.device) for name in (PRESENT, ACTIONS))
        inputs = self.model.inputs(tuple(x.to(self.device) for x in raw))
        return Mates(tuple(x.unflatten(0, present.shape) for x in inputs), present, actions)

    # ------------------------------------------------------------ collecting

    def stored(self) -> BehaviorSpec:
        """The behavior with what mates see and do among the observations."""
        return self.groups.stored()

    def begin(self, batch: AgentBatch) -> None:
        """Start new episodes in all slots."""
        super().begin(self.groups.begin(batch))

    def act(self, batch: AgentBatch) -> Actions:
        """Return actions; store what their distribution was given, and what the mates do."""
        actions = super().act(batch)
        slots = np.arange(self.behavior.slots) if batch.needs_action is None else np.flatnonzero(batch.needs_action)
        rows = self.buffer.lengths()[slots]
        self.buffer.seen[ACTIONS][rows, slots] = self.groups.act(actions, batch)[slots]
        return actions

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        """Store the transitions that closed, with the rewards and ends of the group."""
        super().observe(actions, self.groups.observe(batch))

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return what a run must save of the trainer."""
        return {**super().state_dict(), "groups": self.groups.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, for a state that does not fit."""
        super().load_state_dict(state)
        self.groups.load_state_dict(saved_mapping(state, "groups"))

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raise RunStateError, before anything is changed, for the state of another configuration."""
        super().require_fit(state)
        self.groups.require_fit(saved_mapping(state, "groups"))
