"""The on-policy template: collect a rollout, estimate advantages, take minibatch gradient steps, start over.

A subclass provides a network (:meth:`OnPolicyTrainer.build_model`) and a loss (:meth:`OnPolicyTrainer.loss`). The
update, in order:

1. values of every stored observation, and log-probabilities of the actions, under the weights that acted;
2. for each reward provider its rewards, and advantages by GAE, which bootstrap from the final observation of a
   truncated episode and from the next row at the end of the rollout;
3. ``num_epoch`` passes over the shuffled rollout in minibatches of about ``batch_size``;
4. the observation normalizer adds the rollout to its statistics. It comes last so that acting, step 1 and step 3 all
   see the same inputs.

The statistics of the first rollout are those of the observations that the first actions are chosen for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSettings,
    BehaviorSpec,
    PluginError,
    RunContext,
    RunStateError,
    TrainingDiverged,
    derive_generator,
    fill,
    generator_state,
    restore_generator,
    saved_array,
    saved_count,
    saved_mapping,
    total_of,
)
from rlcore_torch.distributed import sum_over_ranks
from rlcore_torch.networks.actions import ActionNoise
from rlcore_torch.networks.networks import ActorCritic
from rlcore_torch.networks.saved_networks import load_model_state, model_state
from rlcore_torch.on_policy.minibatch import Loss, Minibatch, approximate_kl
from rlcore_torch.on_policy.reward_stats import EpisodeRewards
from rlcore_torch.on_policy.rollout import RolloutBuffer
from rlcore_torch.on_policy.rollout_memory import RolloutMemory
from rlcore_torch.on_policy.rollout_preparation import RolloutPreparation, Statistic
from rlcore_torch.on_policy.rollout_state import require_rollout_fit
from rlcore_torch.optimization.divergence import remedy, strength_of
from rlcore_torch.optimization.optimizer import Optimizer
from rlcore_torch.optimization.rank_gradients import gather_rows, sum_gradients
from rlcore_torch.policy.policy import ActorPolicy
from rlcore_torch.settings import OnPolicySettings
from rlcore_torch.template import TorchTrainer

__all__ = ["Loss", "Minibatch", "OnPolicyTrainer"]


class OnPolicyTrainer(TorchTrainer):
    """A trainer that learns from what its current policy does.

    Attributes:
        hyperparameters: The block ``hyperparameters``.
        model: The network.
        optimizer: The optimizer of all parameters of the network.
        policy: The current policy.
        buffer: The rollout that is collected.
        rollout_start: Agent steps of all ranks at which the rollout began. Schedules are evaluated there, so that a
            rollout is learned from as it was collected, and the last one not with the values of the end.
    """

    hyperparameters: OnPolicySettings
    model: ActorCritic

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        self.optimizer = self.make_optimizer(self.model.parameters())
        self.policy = ActorPolicy(behavior, self.model, self.backend)
        noise_size = self.model.policy_head.noise_size
        collected = self.hyperparameters.buffer_size
        if self.ranks.size > 1:
            collected = -(-collected // self.share.total) * behavior.slots
        self.buffer = RolloutBuffer(behavior, collected, self.model.memory_size, noise_size)
        self.rollout_start = 0
        self._memory = None
        if self.model.memory is not None:
            memory = self.model.memory
            self._memory = RolloutMemory(memory.memory_size, memory.sequence_length, behavior.slots)
        self._noise_generator = derive_generator(run.seed, f"{behavior.name}/actions")
        self._minibatch_generator = derive_generator(run.seed, f"{behavior.name}/minibatches")
        self._noise = ActionNoise(behavior, self.buffer.rows, self._noise_generator, noise_size, self.share)
        in_pieces = getattr(type(self).loss, "is_mean_over_rows", False)
        if self.ranks.size > 1 and not in_pieces:
            raise PluginError(
                f"trainer {settings.trainer_type!r}: its loss is not a mean over rows (mean_over_rows), and cannot be "
                "summed over ranks; run it in one process, without torchrun"
            )
        self._most_rows = self.backend.most_rows(self.model) if in_pieces else None
        # With target_kl, whether a step follows a gradient depends on values.
        self._step = self.captured(self.gradient_step) if self.hyperparameters.target_kl is None else self.gradient
        self._rewards = [EpisodeRewards(behavior.slots) for _ in self.providers]
        providers = dict(zip(self.provider_names, self.providers, strict=True))
        self.preparation = RolloutPreparation(
            settings,
            self.model,
            self.policy,
            self.buffer,
            self._memory,
            providers,
            self._rewards,
            self.ranks,
            self.share,
        )

    # ------------------------------------------------------------ for a subclass to implement

    def build_model(self, value_heads: int) -> ActorCritic:
        """Return the network, an :class:`ActorCritic` or a subclass; called once, with PyTorch's generator seeded.

        A subclass may change what ``policy`` and ``value`` compute; ``policy_head.distribution`` says what the columns
        of continuous actions mean.
        """
        raise NotImplementedError

    def loss(self, batch: Minibatch) -> Loss:
        """Return the loss of one minibatch, differentiable in ``total``. A subclass implements it.

        Decorate it with :func:`rlcore_torch.mean_over_rows` if it is a mean over the rows, as PPO's is. A
        CPU then computes a large minibatch in pieces that fit in its cache.
        """
        raise NotImplementedError

    def schedules(self) -> Mapping[str, float]:
        """Return the values at :attr:`rollout_start` of what changes with the steps, by tag.

        Called at the start of an update.
        """
        return {}

    def diagnostics(self, log_ratio: Tensor) -> dict[str, float]:
        """Return statistics by tag. ``log_ratio`` [rows] are log probability ratios of all minibatches of an update."""
        return {"Policy/KL Divergence": float(approximate_kl(log_ratio))}

    def actor_optimizer(self) -> Optimizer:
        """Return the optimizer of all parameters."""
        return self.optimizer

    # ------------------------------------------------------------ the Trainer contract

    def begin(self, batch: AgentBatch) -> None:
        """Implement :meth:`rlcore.Trainer.begin`."""
        self._forget(np.ones(self.behavior.slots, np.bool_))
        self.buffer.begin(batch)
        self._begin_statistics(batch)

    def act(self, batch: AgentBatch) -> Actions:
        """Implement :meth:`rlcore.Trainer.act`."""
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
        """Implement :meth:`rlcore.Trainer.observe`: store the transitions that closed."""
        if batch.aborted is not None:
            self._forget(batch.aborted)
        if self._memory is not None:
            self._memory.observe(batch)
        full = self.rollout_start + self.hyperparameters.buffer_size
        self.step_count.add(self.buffer.observe(batch), min(full, self.settings.max_steps))
        self._begin_statistics(batch)

    def _begin_statistics(self, batch: AgentBatch) -> None:
        """Give the normalizer the first observations that are acted on; it then changes with updates alone.

        A rollout that an earlier version began without statistics ends without them.
        """
        if not self.model.inputs.has_statistics and self.steps == self.rollout_start:
            self.normalize(batch)

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
        """Return whether the rollout is full, or is the last one before ``max_steps``, which may be shorter.

        A short rollout holds at least ``batch_size`` transitions, and every rank has a part. Fewer would take
        ``num_epoch`` steps as long as all others along gradients noisier than ``batch_size`` asks for.
        """
        h, collected = self.hyperparameters, self.steps - self.rollout_start
        if collected >= h.buffer_size:
            return True
        last = self.rollout_start < self.settings.max_steps <= self.steps
        return last and collected >= h.batch_size and not self.ranks.any(self.buffer.size == 0)

    def update(self) -> Mapping[str, Statistic]:
        """Take ``num_epoch`` passes over the rollout, then start an empty one.

        With ``target_kl``, no step is taken from the first minibatch whose KL divergence exceeds 1.5 times as much, nor
        from those after it.

        Raises TrainingDiverged if a loss is not finite.
        """
        h = self.hyperparameters
        schedules = {"Policy/Learning Rate": self.learning_rate(self.rollout_start), **self.schedules()}
        self.optimizer.learning_rate = schedules["Policy/Learning Rate"]
        open_log_probs = self.preparation.open_log_probs() if self.buffer.ragged else None
        rollout = self.preparation.prepare()

        losses: list[Loss] = []
        norms: list[Tensor] = []
        shares: list[float] = []
        passes = (rollout.minibatches(h, self._minibatch_generator) for _ in range(h.num_epoch))
        for minibatch in chain.from_iterable(passes):
            loss, norm = self._step(minibatch)
            losses.append(loss)
            norms.append(norm)
            shares.append(minibatch.share)
            if h.target_kl is not None:
                if float(approximate_kl(gather_rows(self.ranks, loss.log_ratio))) > 1.5 * h.target_kl:
                    break
                self.optimizer.step()

        learned = self._summarize(losses, norms, shares)
        self.model.inputs.update_normalizer(rollout.raw_inputs, self.ranks)
        self.policy.refresh()
        self.buffer.restart(open_log_probs)
        self.rollout_start = self.steps
        return {**learned, **schedules, **rollout.stats}

    def gradient_step(self, minibatch: Minibatch) -> tuple[Loss, Tensor]:
        """Move the parameters along the gradient of one minibatch; called without ``target_kl``.

        Returns what :meth:`gradient` does. A function of tensors: nothing in it depends on their values or waits for a
        device, so it can be compiled, or captured in a CUDA graph.
        """
        found = self.gradient(minibatch)
        self.optimizer.step()
        return found

    def gradient(self, minibatch: Minibatch) -> tuple[Loss, Tensor]:
        """Leave the clipped gradient of one minibatch in the parameters.

        Returns the loss, detached, and the gradient's norm before it was clipped, []. With ``target_kl``, it is called
        in place of :meth:`gradient_step`.
        """
        self.optimizer.zero_grad()
        loss = self._backward(minibatch)
        sum_gradients(self.ranks, self.optimizer.parameters, minibatch.share)
        return loss, self.optimizer.clip_grad_norm(self.hyperparameters.max_grad_norm)

    def _backward(self, minibatch: Minibatch) -> Loss:
        """Leave the gradient of the loss in the parameters. A large minibatch is taken in pieces if the loss allows."""
        rows, most_rows = len(minibatch.advantage), self._most_rows
        if not rows:  # all of the minibatch's are of other ranks
            zero = torch.zeros((), device=self.device)
            return Loss(zero, zero, zero, zero, minibatch.advantage)
        if most_rows is None or rows <= most_rows or minibatch.sequences is not None:
            loss = self.loss(minibatch)
            loss.total.backward()  # type: ignore[no-untyped-call]
            return loss.detached()
        losses, shares = [], []
        for piece in minibatch.split(-(-rows // -(-rows // most_rows))):
            loss = self.loss(piece)
            shares.append(len(piece.advantage) / rows)
            (loss.total * shares[-1]).backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detached())
        return Loss.of_pieces(losses, shares)

    def _summarize(self, losses: Sequence[Loss], norms: Sequence[Tensor], shares: Sequence[float]) -> dict[str, float]:
        """Means over all minibatches of an update, each with its share in all ranks.

        Raises TrainingDiverged if one is not finite.
        """
        parts = [torch.stack([getattr(loss, name) for loss in losses]) for name in ("policy", "value", "entropy")]
        if self.ranks.size > 1:
            of_all = torch.stack(parts) * torch.tensor(shares, device=self.device)
            sum_over_ranks(self.ranks, of_all)
            parts = list(of_all)
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
            **self.diagnostics(gather_rows(self.ranks, torch.cat([loss.log_ratio for loss in losses]))),
        }

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Implement :meth:`rlcore.Trainer.state_dict`."""
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
        """Implement :meth:`rlcore.Trainer.load_state_dict`."""
        self.require_fit(state)
        load_model_state(self.model, state["model"], self.behavior.name)
        self.optimizer.load_state_dict(state["optimizer"])
        self.forget_captured()
        self.buffer.load_state_dict(state["buffer"])
        self.steps = saved_count(state, "steps")
        self.rollout_start = self.steps - total_of(self.ranks, self.buffer.size)
        restore_generator(self._noise_generator, state["generators"]["actions"])
        restore_generator(self._minibatch_generator, state["generators"]["minibatches"])
        self._noise.load_state_dict(state["noise"])
        for name, rewards in zip(self.provider_names, self._rewards, strict=True):
            fill(rewards.open, saved_mapping(state, "episode_rewards"), name)
        self.load_providers(state["providers"])
        if self._memory is not None:
            self._memory.load_state_dict(state["memory"])
        self.policy.refresh()

    def load_learned(self, state: Mapping[str, Any]) -> None:
        """Implement :meth:`rlcore.PortableTrainer.load_learned`."""
        super().require_fit(state)
        self.require_optimizer_fit(self.optimizer, saved_mapping(state, "optimizer"))
        load_model_state(self.model, state["model"], self.behavior.name)
        self.optimizer.load_state_dict(state["optimizer"])
        self.forget_captured()
        self.steps = self.rollout_start = saved_count(state, "steps")
        restore_generator(self._noise_generator, state["generators"]["actions"])
        restore_generator(self._minibatch_generator, state["generators"]["minibatches"])
        self.load_providers(state["providers"])
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
