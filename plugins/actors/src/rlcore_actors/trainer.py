"""APPO and IMPALA: actors play while the trainer learns, with V-trace (Espeholt et al. 2018, arXiv:1802.01561).

The algorithm is :meth:`APPOTrainer.update`, :meth:`APPOTrainer.advantages` and :meth:`APPOTrainer.loss`;
:class:`IMPALATrainer` has another loss. The other parts of an update are methods of
:class:`rlcore_torch.OnPolicyTrainer`. Without actors (``environment.workers.executor: actors``), it also collects the
rollouts, and every transition is of the current policy.

Shapes: T rows, S slots, R reward providers, B rows of a minibatch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import mse_loss

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSettings,
    BehaviorSpec,
    ExtrinsicReward,
    RunContext,
    saved_array,
    saved_count,
    saved_mapping,
)
from rlcore_actors.contract import ActingState, Fragment
from rlcore_actors.fragments import FragmentRollout, require_fragment, transitions_of
from rlcore_actors.settings import APPOSettings
from rlcore_actors.vtrace import vtrace
from rlcore_torch import (
    ActorCritic,
    Loss,
    Minibatch,
    OnPolicyTrainer,
    Rollout,
    Statistic,
    clip_fraction,
    clipped_surrogate_loss,
    mean_over_rows,
    probability_ratio,
)

__all__ = ["APPOTrainer", "IMPALATrainer"]

LAGS = "Policy/Version Lag"  # tags of statistics
LARGEST_LAG = "Policy/Largest Version Lag"


class APPOTrainer(OnPolicyTrainer):
    """PPO's clipped objective with V-trace's advantages, for continuous, discrete and hybrid actions.

    It implements :class:`rlcore_actors.contract.FragmentTrainer`. The ratio of the objective is that of the current
    policy to the one that acted, which may be some updates older.

    Attributes:
        hyperparameters: The block ``hyperparameters``.
        clip_range: Tensor [] with the clip range of the probability ratio, as its schedule has it now.
        entropy_weight: Tensor [] with the weight of the entropy bonus, as its schedule has it now.
        version: Number of updates, which numbers the states that actors act with.
        in_actors: Whether actors play: the trainer observes fragments.
    """

    hyperparameters: APPOSettings
    buffer: Any  # a FragmentRollout if `in_actors`

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        """Make the model, the optimizer and the schedules. Called by rlcore with keywords."""
        super().__init__(settings, behavior, run)
        self.clip_range = self.scheduled("epsilon", run)
        self.entropy_weight = self.scheduled("beta", run)
        # value_coefficient is the weight of each head's loss, and `loss` takes the mean over heads.
        self._weight_of_mean_value_loss = self.hyperparameters.value_coefficient * len(self.providers)
        self.version = 0
        self.in_actors = False
        self._acting_state: ActingState | None = None

    # ------------------------------------------------------------ the update

    def update(self) -> Mapping[str, Statistic]:
        """Take ``num_epoch`` passes over the rollout, then begin another. Raises TrainingDiverged for a wrong loss."""
        rollout = self.rollout()
        advantages, returns = self.advantages(rollout)
        losses: list[Loss] = []
        for _ in range(self.hyperparameters.num_epoch):
            for batch in self.minibatches(rollout, advantages, returns):
                losses.append(self.minimize(self.loss, batch))
                if not losses[-1].stepped:  # target_kl: the policy is too far from the one that acted
                    return self.finish(rollout, losses)
        return self.finish(rollout, losses)

    @torch.no_grad()
    def advantages(self, rollout: Rollout, baseline: NDArray[np.float32] | None = None) -> tuple[Tensor, Tensor]:
        """Return the advantages [T, S] of V-trace, summed over the providers, and the value targets [T, S, R].

        Values and importance weights are of the current weights. Advantages are standardized if
        ``advantage_normalization`` is ``rollout``. A reward provider that learns does so after its rewards were
        computed.
        """
        h = self.hyperparameters
        rewards = self.rewards(rollout)
        ratio = self.importance(rollout)
        trajectories = rollout.trajectories
        advantages: Any = 0.0
        targets = []
        for k, provider in enumerate(self.providers):
            carry = trajectories.carry
            terminated: Any = trajectories.terminated
            if provider.ignore_done:  # one trajectory goes through all episodes
                carry = carry | trajectories.across
                terminated = None
            target, advantage = vtrace(
                rewards[k],
                rollout.value[..., k],
                rollout.next_value[..., k],
                carry,
                ratio,
                provider.gamma,
                h.lambd,
                terminated,
                h.rho_bar,
                h.c_bar,
            )
            targets.append(target)
            advantages = advantages + advantage
        return self._finished_advantages(rollout, advantages, targets, baseline)

    def importance(self, rollout: Rollout) -> NDArray[np.float32]:
        """Return the ratios [T, S] of the probabilities of the actions now to those with which they were drawn.

        Where the current policy acted, the ratio is 1: computing it would add rounding.
        """
        ratio = np.ones(rollout.valid.shape, np.float32)
        if not self.in_actors:
            return ratio
        lag = self.version - self.buffer.version[: len(ratio)]
        of_transitions = lag[rollout.valid]
        rollout.stats[LAGS] = float(of_transitions.mean())
        rollout.stats[LARGEST_LAG] = float(of_transitions.max())
        older = rollout.valid & (lag > 0)
        if older.any():
            log_ratio = self._current_log_prob(rollout) - rollout.log_prob
            computed = probability_ratio(log_ratio, torch.zeros_like(log_ratio)).view(ratio.shape).cpu().numpy()
            ratio[older] = computed[older]
        rollout.stats["Policy/Importance Weight"] = float(ratio[rollout.valid].mean())
        return ratio

    def _current_log_prob(self, rollout: Rollout) -> Tensor:
        """Return the log-probabilities [T * S] of the actions under the current weights."""
        places = rollout.valid.size
        nothing = torch.zeros(rollout.valid.shape, device=self.device)
        columns = rollout.minibatch(nothing, nothing.unsqueeze(-1)).map(lambda x: x[:places])
        size = max(self.hyperparameters.batch_size, 256)
        sizes = [min(size, places - start) for start in range(0, places, size)]
        parts = []
        for part in columns.split(sizes):
            outputs = self.model.policy(part.inputs)
            log_prob, _ = self.likelihood(part, *outputs, differentiable_entropy=False)
            parts.append(log_prob)
        return torch.cat(parts)

    @mean_over_rows
    def loss(self, batch: Minibatch) -> Loss:
        """The clipped surrogate of PPO with V-trace's advantages, the loss of V-trace's values, the entropy bonus."""
        log_prob, entropy, value = self.evaluate(batch, differentiable_entropy=self.hyperparameters.beta > 0.0)

        # Schulman et al. 2017, eq. 7, with the policy that acted in place of the one before the update.
        log_ratio = log_prob - batch.old_log_prob
        policy_loss = clipped_surrogate_loss(log_ratio, batch.advantage, self.clip_range)
        return self._loss(batch, policy_loss, entropy, value, log_ratio)

    def _loss(self, batch: Minibatch, policy_loss: Tensor, entropy: Tensor, value: Tensor, log_ratio: Tensor) -> Loss:
        """The sum of the three losses of Espeholt et al. 2018, section 4.2."""
        value_loss = mse_loss(value, batch.returns)
        entropy = entropy.mean()
        total = policy_loss + self._weight_of_mean_value_loss * value_loss - self.entropy_weight * entropy
        return Loss(total, policy_loss, value_loss, entropy, log_ratio)

    def finish(self, rollout: Rollout, losses: Sequence[Loss]) -> Mapping[str, Statistic]:
        """End the update as :meth:`rlcore_torch.OnPolicyTrainer.finish` says; actors get the new weights."""
        stats = super().finish(rollout, losses)
        self.version += 1
        self._acting_state = None
        return stats

    # ------------------------------------------------------------ the network, and statistics

    def build_model(self, value_heads: int) -> ActorCritic:
        """The network of policy and values, with a value head for each reward provider."""
        h = self.hyperparameters
        network = self.settings.network_settings
        return ActorCritic(self.behavior, network, value_heads, h.shared_critic, h.initial_log_std)

    def diagnostics(self, log_ratio: Tensor) -> dict[str, float]:
        """Statistics of an update: those of the template, and the share of ``log_ratio`` [rows] that is clipped."""
        clipped = clip_fraction(log_ratio, self.clip_range)
        return {**super().diagnostics(log_ratio), "Policy/Clip Fraction": clipped}

    # ------------------------------------------------------------ actors

    def take_fragments(self) -> str | None:
        """Observe fragments from now on, as :meth:`rlcore_actors.contract.FragmentTrainer.take_fragments` says."""
        refusal = self._refusal_of_actors()
        if refusal is None:
            self.in_actors = True
            columns = self.model.policy_head.continuous
            self.buffer = FragmentRollout(self.behavior, self.hyperparameters.buffer_size, columns)
        return refusal

    def _refusal_of_actors(self) -> str | None:
        if self.ranks.size > 1:
            return "there are several ranks"
        if self.model.memory_size:
            return "network_settings.memory would have to be unrolled again with newer weights"
        if self.behavior.group is not None:
            return "agents share rewards of groups"
        for name, provider in zip(self.provider_names, self.providers, strict=True):
            if type(provider).update is not ExtrinsicReward.update:
                return f"the reward {name!r} learns from whole rollouts"
            if provider.ignore_done:
                return f"the reward {name!r} ignores the ends of episodes"
        return None

    def make_actor(self) -> RolloutActor:
        """Return what acts in an actor, as :meth:`rlcore_actors.contract.FragmentTrainer.make_actor` says."""
        return RolloutActor(self)

    def require_fragment(self, fragment: Fragment) -> None:
        """Raise an error for a fragment that does not fit."""
        require_fragment(fragment, self.behavior)

    def begin(self, batch: AgentBatch) -> None:
        """Start new episodes in all slots."""
        if not self.in_actors:
            super().begin(batch)
            return
        self._forget(np.ones(self.behavior.slots, np.bool_))
        self.buffer.cut_all()

    def act(self, batch: AgentBatch) -> Any:
        """Return actions; with actors, the :class:`rlcore_actors.contract.ActingState` that they act with."""
        if not self.in_actors:
            return super().act(batch)
        if self._acting_state is None:
            self._acting_state = ActingState(self.version, self.policy.state_dict())
        return self._acting_state

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        """Store the transitions that closed; ``batch`` is a Fragment if actors play."""
        if not self.in_actors:
            super().observe(actions, batch)
            return
        fragment: Any = batch
        if not fragment.continues:
            cut = np.zeros(self.behavior.slots, np.bool_)
            cut[fragment.first : fragment.first + fragment.slots] = True
            self._forget(cut)
        closed = self.buffer.append(fragment)
        self.step_count.add(closed, self.settings.max_steps)

    def _acting_log_prob(self, lengths: NDArray[np.int64], rows: int) -> Tensor:
        if not self.in_actors:
            return super()._acting_log_prob(lengths, rows)
        return self._on_device(self.buffer.log_prob[:rows].reshape(-1))

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return what a run must save of the trainer."""
        state = {**super().state_dict(), "version": self.version}
        if self.in_actors:
            rows = len(state["buffer"]["reward"])
            state["fragments"] = {
                "log_prob": self.buffer.log_prob[:rows].copy(),
                "version": self.buffer.version[:rows].copy(),
            }
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, for a state that does not fit."""
        super().load_state_dict(state)
        self._load_version(state)
        if not self.in_actors:
            return
        self.buffer.ragged = True
        if "fragments" in state:
            for name, array in saved_mapping(state, "fragments").items():
                getattr(self.buffer, name)[: len(array)] = array

    def load_learned(self, state: Mapping[str, Any]) -> None:
        """Continue with the weights, the optimizer and the generators of ``state``, and with an empty rollout."""
        super().load_learned(state)
        self._load_version(state)

    def _load_version(self, state: Mapping[str, Any]) -> None:
        self.version = saved_count(state, "version")
        self._acting_state = None

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raise RunStateError for the state of another configuration."""
        super().require_fit(state)
        saved_count(state, "version")
        if "fragments" in state:
            fragments = saved_mapping(state, "fragments")
            rows = len(state["buffer"]["reward"])
            shape = (rows, self.behavior.slots)
            saved_array(fragments, "log_prob", np.float32, shape)
            saved_array(fragments, "version", np.int64, shape)


class IMPALATrainer(APPOTrainer):
    """The actor-critic of IMPALA: a policy gradient with V-trace's importance weights, and no clipping."""

    @mean_over_rows
    def loss(self, batch: Minibatch) -> Loss:
        """The three losses of Espeholt et al. 2018, section 4.2, of one minibatch."""
        log_prob, entropy, value = self.evaluate(batch, differentiable_entropy=self.hyperparameters.beta > 0.0)
        log_ratio = log_prob - batch.old_log_prob
        rho = probability_ratio(log_ratio.detach(), torch.zeros_like(log_ratio)).clamp(max=self.hyperparameters.rho_bar)
        policy_loss = -(rho * log_prob * batch.advantage).mean()
        return self._loss(batch, policy_loss, entropy, value, log_ratio)


class RolloutActor:
    """Acts in an actor for an :class:`APPOTrainer`; a :class:`rlcore_actors.contract.FragmentActor`."""

    def __init__(self, trainer: APPOTrainer) -> None:
        self._trainer = trainer
        self.begin = trainer.begin
        self.act = trainer.act
        self.observe = trainer.observe

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Act with these weights."""
        self._trainer.load_model(arrays)

    @torch.no_grad()
    def fragment(self) -> dict[str, Any]:
        """Return the rollout, and begin another one."""
        trainer = self._trainer
        buffer = trainer.buffer
        lengths = buffer.lengths()
        rows = int(lengths.max())
        log_prob = trainer._acting_log_prob(lengths, rows).view(rows, -1).cpu().numpy()
        transitions = transitions_of(buffer, log_prob)
        buffer.restart()
        return transitions
