"""The on-policy template: collect a rollout, estimate advantages, take minibatch gradient steps, start over.

A subclass provides a network (:meth:`OnPolicyTrainer.build_model`) and a loss (:meth:`OnPolicyTrainer.loss`). The
update, in order:

1. values of every stored observation, and log-probabilities of the actions, under the weights that acted;
2. for each reward provider its rewards, and advantages by GAE, which bootstrap from the final observation of a
   truncated episode and from the next row at the end of the rollout;
3. ``num_epoch`` passes over the shuffled rollout in minibatches of about ``batch_size``;
4. the observation normalizer adds the rollout to its statistics. It comes last so that acting, step 1 and step 3 all
   see the same inputs.

The first update of a run with ``normalize`` differs: its actions were drawn from raw observations, because there were
no statistics yet. The log-probabilities of step 1 are those of the raw observations; then comes step 4, and values and
losses are those of normalized observations.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.environment import Actions, AgentBatch, BehaviorSpec
from rlcore.errors import RunStateError, TrainingDiverged
from rlcore.plugins.run_context import RunContext
from rlcore.rewards import Transitions, recording_gradients
from rlcore.saved_values import fill, saved_array, saved_count, saved_mapping
from rlcore.seeding import derive_generator, generator_state, restore_generator
from rlcore.settings import BehaviorSettings, OnPolicySettings
from rlcore.torch.actions import ActionNoise, joint_log_prob_entropy, mask_logits
from rlcore.torch.advantages import explained_variance, generalized_advantages, trajectory_cuts
from rlcore.torch.divergence import remedy, strength_of
from rlcore.torch.minibatch import (
    Loss,
    Minibatch,
    approximate_kl,
    minibatch_sizes,
    minibatches,
    rollout_rows,
    standardize,
)
from rlcore.torch.networks import ActorCritic, Inputs, to_numpy
from rlcore.torch.optimizer import Optimizer
from rlcore.torch.policy import ActorPolicy
from rlcore.torch.reward_stats import EpisodeRewards
from rlcore.torch.rollout import RolloutBuffer, valid_rows
from rlcore.torch.rollout_memory import RolloutMemory, RolloutSequences
from rlcore.torch.rollout_state import require_rollout_fit
from rlcore.torch.saved_networks import load_model_state, model_state
from rlcore.torch.template import TorchTrainer

log = logging.getLogger(__name__)

Statistic = float | Sequence[float]  # of an update, or one for each of several episodes


class OnPolicyTrainer(TorchTrainer):
    """A trainer that learns from what its current policy does."""

    hyperparameters: OnPolicySettings
    model: ActorCritic

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        self.optimizer = self.make_optimizer(self.model.parameters())
        self.policy = ActorPolicy(behavior, self.model, self.backend)
        self.buffer = RolloutBuffer(behavior, self.hyperparameters.buffer_size, self.model.memory_size)
        self._memory = None
        if self.model.memory is not None:
            memory = self.model.memory
            self._memory = RolloutMemory(memory.memory_size, memory.sequence_length, behavior.slots)
        self._noise_generator = derive_generator(run.seed, f"{behavior.name}/actions")
        self._minibatch_generator = derive_generator(run.seed, f"{behavior.name}/minibatches")
        self._noise = ActionNoise(behavior, self.buffer.rows, self._noise_generator)
        self._rewards = [EpisodeRewards(behavior.slots) for _ in self.providers]

    # ------------------------------------------------------------ for a subclass to implement

    def build_model(self, value_heads: int) -> ActorCritic:
        """Return the network, an :class:`ActorCritic` or a subclass; called once, with PyTorch's generator seeded.

        A subclass may change what ``policy`` and ``value`` compute; the standard deviation of continuous actions
        stays ``policy_head.log_std``.
        """
        raise NotImplementedError

    def loss(self, batch: Minibatch) -> Loss:
        """The loss of one minibatch, differentiable in ``total``."""
        raise NotImplementedError

    def schedules(self) -> Mapping[str, float]:
        """Current values of whatever changes with progress, by tag; called at the start of an update."""
        return {}

    def diagnostics(self, log_ratio: Tensor) -> dict[str, float]:
        """Statistics of the log probability ratios of all minibatches of an update, by tag."""
        return {"Policy/KL Divergence": float(approximate_kl(log_ratio))}

    def actor_optimizer(self) -> Optimizer:
        return self.optimizer

    # ------------------------------------------------------------ the Trainer contract

    def begin(self, batch: AgentBatch) -> None:
        self._forget(np.ones(self.behavior.slots, np.bool_))
        self.buffer.begin(batch)

    def act(self, batch: AgentBatch) -> Actions:
        noise = None if self.settings.network_settings.deterministic else self._noise.next()
        memory = self._memory
        if memory is None:
            raw, choices = self.policy.choose(self.policy.parameters(batch.observations, batch.action_mask), noise)
            self.buffer.act(raw, choices)
        else:
            before = memory.acting.copy()
            parameters = self.policy.parameters(batch.observations, batch.action_mask, memory.acting)
            memory.keep_idle(before, batch)
            raw, choices = self.policy.choose(parameters, noise)
            self.buffer.act(raw, choices, before)
        return self.policy.layout.actions(raw, choices)

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        if batch.aborted is not None:
            self._forget(batch.aborted)
        if self._memory is not None:
            self._memory.observe(batch)
        before = self.steps
        self.steps += self.buffer.observe(batch)
        if before < self.settings.max_steps <= self.steps:
            self._report_unlearned()

    def _report_unlearned(self) -> None:
        """Log how many steps at the end of the run fill no rollout. A run reports by itself if it learned nothing."""
        if not self.ready() and 0 < self.buffer.size < self.steps:
            log.info(
                "behavior %r: the last %d of %d steps are not learned from: they fill no rollout of buffer_size %d; "
                "max_steps at a multiple of buffer_size leaves none",
                self.behavior.name, self.buffer.size, self.steps, self.hyperparameters.buffer_size,
            )  # fmt: skip

    def _forget(self, cut: NDArray[np.bool_]) -> None:
        """Forget what was remembered and earned in the episodes of these slots [S], which are cut.

        Reward sums are reset where there is no transition in the buffer; ``cut_rows`` reports the others.
        """
        lengths = self.buffer.lengths()
        for rewards in self._rewards:
            rewards.forget(cut & (lengths == 0))
        if self._memory is not None:
            self._memory.forget(cut, lengths)

    def ready(self) -> bool:
        return self.buffer.full

    def update(self) -> Mapping[str, Statistic]:
        h = self.hyperparameters
        schedules = {"Policy/Learning Rate": self.learning_rate(self.steps), **self.schedules()}
        self.optimizer.learning_rate = schedules["Policy/Learning Rate"]
        open_log_probs = self._open_log_probs() if self.buffer.ragged else None
        rollout, sequences, unseen, stats = self._prepare()

        losses: list[Loss] = []
        norms: list[Tensor] = []
        for _ in range(h.num_epoch):
            first = len(losses)
            for minibatch in self._shuffled(rollout, sequences):
                loss = self.loss(minibatch)
                self.optimizer.zero_grad()
                loss.total.backward()  # type: ignore[no-untyped-call]
                norms.append(self.optimizer.clip_grad_norm(h.max_grad_norm))
                self.optimizer.step()
                losses.append(loss.detached())
            if h.target_kl is not None:
                last_epoch = torch.cat([loss.log_ratio for loss in losses[first:]])
                if float(approximate_kl(last_epoch)) > 1.5 * h.target_kl:
                    break

        learned = self._summarize(losses, norms)
        if unseen is not None:
            self.model.inputs.update_normalizer(unseen)
        self.policy.refresh()
        self.buffer.restart(open_log_probs)
        return {**learned, **schedules, **stats}

    def _shuffled(self, rollout: Minibatch, sequences: RolloutSequences | None) -> Iterator[Minibatch]:
        """Minibatches of one pass over the rollout."""
        h, count, generator = self.hyperparameters, len(rollout.advantage), self._minibatch_generator
        sizes = minibatch_sizes(count, h.batch_size)
        standardized = h.advantage_normalization == "minibatch"
        if sequences is not None:
            return sequences.minibatches(rollout, generator, len(sizes), standardized)
        order = torch.from_numpy(generator.permutation(count)).to(self.device)
        return minibatches(rollout, order, sizes, standardized)

    def _summarize(self, losses: Sequence[Loss], norms: Sequence[Tensor]) -> dict[str, float]:
        """Means over all minibatches of an update. Raises TrainingDiverged if one is not finite."""
        parts = [torch.stack([getattr(loss, name) for loss in losses]) for name in ("policy", "value", "entropy")]
        policy, value, entropy, norm = torch.stack([*parts, torch.stack(tuple(norms))]).mean(1).tolist()
        if not np.isfinite(policy + value + norm):
            normalized = self.model.inputs.normalizer is not None
            raise TrainingDiverged(
                f"behavior {self.behavior.name!r}: the loss became NaN or infinite in the update at step {self.steps} "
                f"(policy {policy:g}, value {value:g}, gradient norm {norm:g}); "
                f"{remedy(self.buffer, normalized, strength_of(self.providers))}"
            )
        return {
            "Losses/Policy Loss": policy,
            "Losses/Value Loss": value,
            "Losses/Gradient Norm": norm,
            "Policy/Entropy": entropy,
            **self.diagnostics(torch.cat([loss.log_ratio for loss in losses])),
        }

    # ------------------------------------------------------------ the rollout
    # T rows, S slots, R reward providers; N transitions, which are T * S while all slots act together.

    @torch.no_grad()
    def _prepare(self) -> tuple[Minibatch, RolloutSequences | None, Inputs | None, dict[str, Statistic]]:
        """Return the rollout as one large minibatch, its sequences, inputs new to the normalizer, and statistics."""
        lengths = self.buffer.lengths()
        num_rows = int(lengths.max())
        stored = None
        if self.buffer.ragged:
            stored = torch.from_numpy(np.flatnonzero(valid_rows(num_rows, lengths))).to(self.device)
        inputs, acted_on, unseen = self._network_inputs(num_rows, stored)
        values, next_values, sequences = self._value_estimates(inputs, num_rows)
        advantages, returns, stats = self._advantages(values, next_values, lengths)
        rollout = self._whole_minibatch(inputs, acted_on, stored, values, advantages, returns, sequences)
        if self.buffer.ragged:
            rows, log_probs = self.buffer.kept_log_probs()
            rollout.old_log_prob[torch.from_numpy(rows)] = torch.from_numpy(log_probs).to(self.device)
        return rollout, sequences, unseen, stats

    def _network_inputs(self, num_rows: int, stored: Tensor | None) -> tuple[Inputs, Inputs, Inputs | None]:
        """Normalized observations [(T + 1) * S, ...], the inputs that were acted on, and those new to the normalizer.

        The last S rows are the observations after the rollout; the other two are [N, ...]. ``stored`` [N] has the
        indices of the transitions in an array [T * S, ...]; None if every index holds one.
        """
        observations = {name: array[: num_rows + 1] for name, array in self.buffer.observations.items()}
        raw_inputs = self._to_device(self.model.inputs.raw(observations, lead=2))
        raw_transitions = _transition_rows(raw_inputs, num_rows * self.behavior.slots, stored)
        if self.model.inputs.has_statistics:
            inputs = self.model.inputs(raw_inputs)
            return inputs, _transition_rows(inputs, num_rows * self.behavior.slots, stored), raw_transitions
        self.model.inputs.update_normalizer(raw_transitions)
        return self.model.inputs(raw_inputs), raw_transitions, None

    def _value_estimates(
        self, inputs: Inputs, num_rows: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], RolloutSequences | None]:
        """Values of the observations acted on and of those that followed, final ones included: both [T, S, R].

        With memory, also the sequences of the rollout.
        """
        finals, final_observations = self.buffer.finals()
        final_inputs = None
        if len(finals):
            final_inputs = self.model.inputs(self._to_device(self.model.inputs.raw(final_observations)))
        if self._memory is None:
            sequences = None
            values = self._in_parts(self.model.value, inputs)
            final_values = None if final_inputs is None else self._in_parts(self.model.value, final_inputs)
        else:
            features = self._in_parts(self.model.critic, inputs).view(num_rows + 1, self.behavior.slots, -1)
            final_features = None if final_inputs is None else self._in_parts(self.model.critic, final_inputs)
            values, final_values, sequences = self._memory.values(self.model, features, final_features, self.buffer)
        all_values = to_numpy(values).reshape(num_rows + 1, self.behavior.slots, -1)
        next_values = all_values[1:].copy()
        if final_values is not None and len(finals):
            next_values[finals[:, 0], finals[:, 1]] = to_numpy(final_values)
        return all_values[:-1], next_values, sequences

    def _whole_minibatch(
        self,
        inputs: Inputs,
        acted_on: Inputs,
        stored: Tensor | None,
        values: NDArray[np.float32],
        advantages: NDArray[np.float32],
        returns: NDArray[np.float32],
        sequences: RolloutSequences | None,
    ) -> Minibatch:
        """All N transitions, with the log-probabilities of their actions under the weights that acted."""
        buffer, behavior, num_rows = self.buffer, self.behavior, len(values)

        def flat(array: NDArray[Any]) -> Tensor:
            return rollout_rows(array[:num_rows], stored, self.device)

        inputs = _transition_rows(inputs, num_rows * behavior.slots, stored)
        raw = flat(buffer.raw) if behavior.continuous else None
        choices = flat(buffer.choices) if behavior.discrete else None
        mask = flat(buffer.masks) if buffer.masks is not None else None
        if sequences is None:
            mean, logits = self._policy_parameters(acted_on)
        else:
            most_rows = self._piece if self.model.inputs.images else None
            mean, logits = sequences.policy_parameters(self.model, acted_on, most_rows)
        if mask is not None and logits is not None:
            logits = mask_logits(logits, mask)
        log_std = self.model.policy_head.log_std
        log_prob, _ = joint_log_prob_entropy(self.policy.layout, mean, log_std, logits, raw, choices)
        advantage = flat(advantages)
        if self.hyperparameters.advantage_normalization == "rollout":
            advantage = standardize(advantage)
        return Minibatch(
            inputs=inputs,
            raw=raw,
            choices=choices,
            mask=mask,
            old_log_prob=log_prob,
            old_value=flat(values),
            advantage=advantage,
            returns=flat(returns),
        )

    @torch.no_grad()
    def _open_log_probs(self) -> NDArray[np.float32]:
        """Log-probabilities [S] of the latest action of each slot, under the weights that acted."""
        buffer, behavior, at = self.buffer, self.behavior, self.buffer.lengths()
        slots = np.flatnonzero(buffer.open)
        log_probs = np.zeros(behavior.slots, np.float32)
        if len(slots):
            seen = {name: array[at[slots], slots] for name, array in buffer.observations.items()}
            mask = None if buffer.masks is None else buffer.masks[at[slots], slots]
            memory = None if buffer.memory is None else buffer.memory[at[slots], slots]
            mean, logits = self.policy.parameters(seen, mask, memory)
            raw = torch.from_numpy(buffer.raw[at[slots], slots]) if behavior.continuous else None
            choices = torch.from_numpy(buffer.choices[at[slots], slots]) if behavior.discrete else None
            log_std = self.model.policy_head.log_std
            log_prob, _ = joint_log_prob_entropy(
                self.policy.layout,
                None if mean is None else torch.from_numpy(mean),
                None if log_std is None else log_std.detach().cpu(),
                None if logits is None else torch.from_numpy(logits),
                raw,
                choices,
            )
            log_probs[slots] = log_prob.numpy()
        return log_probs

    def _advantages(
        self, values: NDArray[np.float32], next_values: NDArray[np.float32], lengths: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], dict[str, Statistic]]:
        """Advantages [T, S] over all providers, value targets [T, S, R], and statistics.

        ``values`` and ``next_values`` are [T, S, R]; ``lengths`` [S] is the number of transitions of each slot.
        """
        buffer, num_rows = self.buffer, len(values)
        # Rows past a slot's length hold what an earlier rollout left there.
        valid = valid_rows(num_rows, lengths) if buffer.ragged else np.ones((num_rows, len(lengths)), np.bool_)
        rows = valid if buffer.ragged else slice(None)
        terminated, truncated = buffer.terminated[:num_rows], buffer.truncated[:num_rows]
        ended = (terminated | truncated) & valid
        carry = ~ended
        if self.settings.time_horizon < num_rows:
            carry &= ~trajectory_cuts(ended, np.zeros(len(lengths), np.int64), self.settings.time_horizon)
        if buffer.ragged:
            carry[lengths[lengths > 0] - 1, np.flatnonzero(lengths > 0)] = False
        transitions = self._transitions(num_rows, rows)
        advantages = np.zeros_like(values[..., 0])
        returns = np.empty_like(values)
        stats: dict[str, Statistic] = {}
        for k, provider in enumerate(self.providers):
            reward = np.zeros_like(advantages)
            reward[rows] = provider.evaluate(transitions) * np.float32(provider.strength)
            value, next_value = values[..., k], next_values[..., k]
            if not provider.ignore_done:
                # Truncated episodes bootstrap from their final observation, terminated ones have no future.
                next_value = np.where(terminated, np.float32(0), next_value)
            advantage = generalized_advantages(
                reward, value, next_value, carry, provider.gamma, self.hyperparameters.lambd
            )
            advantages += advantage
            returns[..., k] = advantage + value
            title = self.provider_names[k].capitalize()
            stats[f"Policy/{title} Value Estimate"] = float(value[rows].mean())
            episode_rewards = self._rewards[k].record(reward, ended, buffer.cut_rows())
            if episode_rewards:
                stats[f"Policy/{title} Reward"] = episode_rewards
            with recording_gradients(True):
                stats.update(provider.update(transitions))
        stats["Losses/Explained Variance"] = explained_variance(values[rows], returns[rows])
        return advantages, returns, stats

    def _transitions(self, num_rows: int, rows: NDArray[np.bool_] | slice) -> Transitions:
        """The rollout for reward providers: [T, S] while all slots act together, else [N]."""
        buffer, behavior = self.buffer, self.behavior

        def selected(array: NDArray[Any]) -> NDArray[Any]:
            part: NDArray[Any] = array[:num_rows][rows]
            return part

        return Transitions(
            observations={name: selected(array) for name, array in buffer.observations.items()},
            actions=self.policy.layout.actions(
                selected(buffer.raw) if behavior.continuous else None,
                selected(buffer.choices) if behavior.discrete else None,
            ),
            reward=selected(buffer.reward),
            terminated=selected(buffer.terminated),
            truncated=selected(buffer.truncated),
            group_reward=None if buffer.group_reward is None else selected(buffer.group_reward),
            following=lambda: {name: array[rows] for name, array in buffer.next_observations(num_rows).items()},
        )

    def _in_parts(self, network: Callable[[Inputs], Tensor], inputs: Inputs) -> Tensor:
        return torch.cat([network(part) for part in self._parts(inputs)])

    def _policy_parameters(self, inputs: Inputs) -> tuple[Tensor | None, Tensor | None]:
        parts = [self.model.policy(part) for part in self._parts(inputs)]
        means = [mean for mean, _ in parts if mean is not None]
        logits = [logit for _, logit in parts if logit is not None]
        return torch.cat(means) if means else None, torch.cat(logits) if logits else None

    def _parts(self, inputs: Inputs) -> list[Inputs]:
        """Pieces small enough that a forward pass over images fits in memory."""
        if not self.model.inputs.images:
            return [inputs]
        size = self._piece
        return [tuple(x[i : i + size] for x in inputs) for i in range(0, len(inputs[0]), size)]

    @property
    def _piece(self) -> int:
        """Rows of images that pass through a network at once."""
        return max(self.hyperparameters.batch_size, 256)

    def _to_device(self, inputs: Inputs) -> Inputs:
        return tuple(x.to(self.device) for x in inputs)

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": model_state(self.model),
            "optimizer": self.optimizer.state_dict(),
            "buffer": self.buffer.state_dict(),
            "steps": self.steps,
            "generators": {
                "actions": generator_state(self._noise_generator),
                "minibatches": generator_state(self._minibatch_generator),
            },
            "noise": self._noise.state_dict(),
            "episode_rewards": {
                name: r.open.copy() for name, r in zip(self.provider_names, self._rewards, strict=True)
            },
            "providers": self.providers_state(),
            **({} if self._memory is None else {"memory": self._memory.state_dict()}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.require_fit(state)
        load_model_state(self.model, state["model"], self.behavior.name)
        self.optimizer.load_state_dict(state["optimizer"])
        self.buffer.load_state_dict(state["buffer"])
        self.steps = saved_count(state, "steps")
        restore_generator(self._noise_generator, state["generators"]["actions"])
        restore_generator(self._minibatch_generator, state["generators"]["minibatches"])
        self._noise.load_state_dict(state["noise"])
        for name, rewards in zip(self.provider_names, self._rewards, strict=True):
            fill(rewards.open, saved_mapping(state, "episode_rewards"), name)
        self.load_providers(state["providers"])
        if self._memory is not None:
            self._memory.load_state_dict(state["memory"])
        self.policy.refresh()

    def require_fit(self, state: Mapping[str, Any]) -> None:
        super().require_fit(state)
        buffer = saved_mapping(state, "buffer")
        slots = len(saved_array(buffer, "cursor", np.int64, (None,)))
        if slots != self.behavior.slots:
            raise RunStateError(
                f"behavior {self.behavior.name!r}: the checkpoint is of {slots} agents, this run has "
                f"{self.behavior.slots}; set environment.num_envs as it was"
            )
        require_rollout_fit(self.buffer, buffer)
        if self._memory is not None:
            self._memory.require_fit(saved_mapping(state, "memory"))
        self.require_optimizer_fit(self.optimizer, saved_mapping(state, "optimizer"))


def _transition_rows(inputs: Inputs, count: int, stored: Tensor | None) -> Inputs:
    """The inputs of transitions: those at the indices ``stored``, or the first ``count`` if it is None."""
    return tuple(x[:count] if stored is None else x.index_select(0, stored) for x in inputs)
