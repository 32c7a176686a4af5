"""The parts that an on-policy update is made of; the update itself stands in the file of the algorithm.

A subclass provides a network (:meth:`OnPolicyTrainer.build_model`), a loss (:meth:`OnPolicyTrainer.loss`) and an update
(:meth:`OnPolicyTrainer.update`) from these parts, in their usual order:

1. :meth:`~OnPolicyTrainer.rollout`: what was collected, with the log-probabilities and values of acting;
2. :meth:`~OnPolicyTrainer.advantages`: the rewards of each provider, and advantages by GAE, which bootstraps from the
   final observation of a truncated episode, after every ``time_horizon`` rows, and at the end of the rollout;
3. :meth:`~OnPolicyTrainer.minibatches`: one pass over the shuffled rollout;
4. :meth:`~OnPolicyTrainer.minimize`: one gradient step;
5. :meth:`~OnPolicyTrainer.finish`: the observation normalizer adds the rollout to its statistics, and an empty rollout
   begins. It comes last so that acting and all other parts see the same inputs. Acting in the first rollout does not:
   it begins the statistics.

Shapes: T rows, S slots, R reward providers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import BehaviorSettings, BehaviorSpec, ExtrinsicReward, PluginError, RunContext, TrainingDiverged
from rlcore_torch.acceleration.registry import accelerate, function_of_tensors
from rlcore_torch.arrays import Array, Arrays, BoolArray, FloatArray
from rlcore_torch.networks.actions import joint_log_prob_entropy, mask_logits
from rlcore_torch.networks.inputs import to_numpy
from rlcore_torch.networks.models import ActorCritic
from rlcore_torch.networks.sequence_inputs import Inputs
from rlcore_torch.on_policy.advantages import Trajectories, explained_variances
from rlcore_torch.on_policy.collection import RolloutTrainer
from rlcore_torch.on_policy.minibatch import (
    Loss,
    LossFunction,
    Minibatch,
    Rollout,
    approximate_kl,
    is_mean_over_rows,
    mean_losses,
    standardize,
    standardized_parts,
)
from rlcore_torch.on_policy.rollout import MEMORY
from rlcore_torch.on_policy.sequences import SequenceTable, sequence_starts
from rlcore_torch.optimization.divergence import remedy
from rlcore_torch.optimization.schedules import Schedule, create_schedule
from rlcore_torch.ranks.torch_ranks import gather_rows, gather_slots, sum_gradients
from rlcore_torch.template import Statistic

__all__ = ["OnPolicyTrainer"]

MOST_ROWS = 8192  # whose values are computed at once: new memory for more takes as long as the values
MOST_IMAGES = 256  # the same for images, unless a minibatch has more: the layers of a network keep a multiple of each

Piece = TypeVar("Piece")


class OnPolicyTrainer(RolloutTrainer):
    """A trainer that learns from what its current policy does; see :class:`rlcore_ppo.trainer.PPOTrainer`.

    Attributes:
        hyperparameters: The block ``hyperparameters``.
        model: The network.
        optimizer: The optimizer of all parameters of the network.
        policy: The current policy.
        buffer: The rollout that is collected.
        rollout_start: Agent steps of all ranks at which the rollout began.
    """

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        in_ranks = self.ranks.size > 1
        if in_ranks and not is_mean_over_rows(self.loss):
            raise PluginError(
                f"trainer {settings.trainer_type!r}: its loss is not a mean over rows (mean_over_rows), and cannot be "
                "summed over ranks; run it in one process, without torchrun"
            )
        self._scheduled: dict[str, tuple[Schedule, Tensor]] = {}  # by the tag of the statistic
        self._own_slot: NDArray[np.int64] | None = None  # [S*], of this rank; -1 for those of others
        if in_ranks:
            share = self.share
            self._own_slot = np.full(share.total, -1, np.int64)
            self._own_slot[share.numbers] = np.arange(behavior.slots)
        accelerate(self, run)

    # ------------------------------------------------------------ for a subclass to implement

    def build_model(self, value_heads: int) -> ActorCritic:
        """Return the network, an :class:`ActorCritic` or a subclass; called once, with PyTorch's generator seeded.

        A subclass may change what ``policy`` and ``value`` compute; ``policy_head.distribution`` says what the columns
        of continuous actions mean.
        """
        raise NotImplementedError

    def loss(self, batch: Minibatch) -> Loss:
        """Return the loss of one minibatch, differentiable in ``total``. A subclass implements it.

        Decorate it with :func:`rlcore_torch.mean_over_rows` if it is a mean over the rows, as PPO's is. Ranks and
        threads may then each compute a part of the rows.
        """
        raise NotImplementedError

    def update(self) -> Mapping[str, Statistic]:
        """Learn from the rollout and begin another; return statistics. A subclass implements it."""
        raise NotImplementedError

    def diagnostics(self, log_ratio: Tensor) -> dict[str, float]:
        """Return statistics by tag. ``log_ratio`` [rows] are log probability ratios of all minibatches of an update."""
        return {"Policy/KL Divergence": float(approximate_kl(log_ratio))}

    def scheduled(self, key: str, run: RunContext) -> Tensor:
        """Return a tensor [] with the hyperparameter ``key``, such as ``beta``, as its schedule has it in each update.

        It falls to ``final_KEY`` as ``KEY_schedule`` says; its statistic is ``Policy/Key``. Call it in the constructor.
        It is a tensor, so that a compiled or captured gradient step sees it change.
        """
        h = self.hyperparameters
        initial = getattr(h, key)
        final = getattr(h, f"final_{key}")
        name = getattr(h, f"{key}_schedule")
        tensor = torch.tensor(initial, device=self.device)
        schedule = create_schedule(name, initial, final, self.settings.max_steps, run)
        self._scheduled[f"Policy/{key.capitalize()}"] = schedule, tensor
        return tensor

    def schedules(self) -> Mapping[str, float]:
        """Set what changes with the steps to its value at :attr:`rollout_start`, and return the values by tag.

        Called at the start of an update. It sets the tensors of :meth:`scheduled`.
        """
        values = {}
        for tag, (schedule, tensor) in self._scheduled.items():
            values[tag] = schedule(self.rollout_start)
            tensor.fill_(values[tag])
        return values

    # ------------------------------------------------------------ the parts of an update

    @torch.no_grad()
    def rollout(self) -> Rollout:
        """Return what was collected, with log-probabilities and values under the weights that acted.

        Sets the learning rate and the other schedules for the update.
        """
        rate = self.learning_rate(self.rollout_start)
        self.optimizer.learning_rate = rate
        buffer = self.buffer
        buffer.require_finite(self.step_count.steps)
        lengths = buffer.lengths()
        # Where agents of other ranks alone have acted, one row without anything valid keeps the shapes of arrays.
        rows = max(1, int(lengths.max()))
        seen = {}
        for name, array in buffer.seen.items():
            stored = array[: rows + 1]  # with the observations that no action followed yet
            seen[name] = stored.reshape(-1, *array.shape[2:])
        raw_inputs = self._to_device(self._inputs.raw(seen))
        inputs = self._inputs(raw_inputs)
        valid = np.arange(rows)[:, None] < lengths
        terminated = buffer.terminated[:rows]
        trajectories = Trajectories.of(terminated, buffer.truncated[:rows], valid, self.settings.time_horizon)
        valid_of_all, table = self._sequences(trajectories.ended, valid)
        value, next_value = self._values(inputs, seen)
        return Rollout(
            raw_inputs=raw_inputs,
            inputs=inputs,
            raw=self._flat(buffer.raw, rows),
            choices=self._flat(buffer.choices, rows),
            mask=self._flat(buffer.masks, rows),
            log_prob=self._acting_log_prob(lengths, rows),
            value=value,
            next_value=next_value,
            valid=valid,
            valid_of_all=valid_of_all,
            own_slot=self._own_slot,
            trajectories=trajectories.map(buffer.as_values),
            memory=self._flat(buffer.memory, rows + 1),
            table=table,
            stats={"Policy/Learning Rate": rate, **self.schedules()},
        )

    @torch.no_grad()
    def advantages(self, rollout: Rollout, baseline: NDArray[np.float32] | None = None) -> tuple[Tensor, Tensor]:
        """Return the advantages [T, S], summed over the providers, and the value targets [T, S, R].

        A value target is the lambda-return G; an advantage is G less ``baseline`` [T, S, R], by default the value.
        Advantages are standardized if ``advantage_normalization`` is ``rollout``. A reward provider that learns does
        so after its rewards were computed. Statistics are added to those of the rollout.
        """
        rewards = self.rewards(rollout)
        advantages: Any = 0.0
        targets = []
        for k, provider in enumerate(self.providers):
            value = rollout.value[..., k]
            next_value = rollout.next_value[..., k]
            gae = rollout.trajectories.advantages(rewards[k], value, next_value, provider, self.hyperparameters.lambd)
            targets.append(gae + value)
            above = gae if baseline is None else targets[k] - baseline[..., k]
            advantages = advantages + above
        return self._finished_advantages(rollout, advantages, targets, baseline)

    def rewards(self, rollout: Rollout) -> list[Any]:
        """Return the rewards to learn from of each provider, each [T, S], with its strength.

        The environment's are clipped and scaled as the hyperparameters say. Providers that learn do so.
        """
        buffer = self.buffer
        valid = rollout.valid
        # While slots act together every place holds a transition, and a slice copies nothing.
        at: Any = valid if buffer.ragged else slice(None)
        ended = to_numpy(torch.as_tensor(rollout.trajectories.ended))
        transitions = buffer.transitions(self.policy.layout, len(valid), at)
        scaling = self.reward_scaling
        rewards = []
        for k, provider in enumerate(self.providers):
            strength = np.float32(provider.strength)
            earned = provider.evaluate(transitions)
            reward = np.zeros(valid.shape, np.float32)
            reward[at] = earned * strength
            learned_from = reward
            learned: Mapping[str, Statistic] = {}
            if scaling is not None and k == scaling.place:
                unscaled = np.zeros(valid.shape, np.float32)
                unscaled[at] = earned
                learned_from = scaling.scaled_rollout(unscaled, ended, valid) * strength
            rewards.append(buffer.as_values(learned_from))
            # Statistics are of the rewards as the environment gave them: a run with scaling stays comparable.
            rollout.episodes.append(self.episode_rewards[k].record(reward, ended, buffer.cut_rows()))
            if type(provider).update is not ExtrinsicReward.update:
                with torch.enable_grad():
                    learned = provider.update(transitions)
            rollout.learned.append(learned)
        return rewards

    def report_values(self, rollout: Rollout, targets: Tensor, baseline: NDArray[np.float32] | None) -> None:
        """Add statistics of values, ``targets`` and ``baseline``, each [T, S, R], and of each provider's rewards."""
        stats = rollout.stats
        arrays = [to_numpy(torch.as_tensor(rollout.value)), to_numpy(targets)]
        if baseline is not None:
            arrays.append(baseline)
        values, returns, *baselines = self._of_all(*arrays, lists=rollout.episodes)
        place: Any = rollout.valid_of_all
        if rollout.own_slot is None and not self.buffer.ragged:
            place = slice(None)
        for k, name in enumerate(self.provider_names):
            title = name.capitalize()
            stats[f"Policy/{title} Value Estimate"] = float(values[..., k][place].mean())
            for estimates in baselines:
                stats[f"Policy/{title} Baseline Estimate"] = float(estimates[..., k][place].mean())
            if rollout.episodes[k]:
                stats[f"Policy/{title} Reward"] = rollout.episodes[k]
            stats.update(rollout.learned[k])
        stats.update(explained_variances(values[place], returns[place], self.provider_names))

    def minibatches(self, rollout: Rollout, advantages: Tensor, returns: Tensor) -> Iterator[Minibatch]:
        """Yield the minibatches of one pass over the rollout in random order, of which a rank has its own rows.

        ``advantages`` are [T, S], ``returns`` [T, S, R]. Minibatches have equal sizes of about ``batch_size``: some
        rows come twice if these do not divide the rollout. With memory they consist of whole sequences, whose lengths
        differ, and the gradient of each counts by its rows. Advantages are standardized within each minibatch if
        ``advantage_normalization`` is ``minibatch``.
        """
        drawn, sequences = rollout.draw(self.hyperparameters.batch_size, self._minibatch_generator)
        sizes = [len(places) for places in drawn]  # of the minibatches of all ranks
        in_ranks = rollout.own_slot is not None
        local = [rollout.own(places) for places in drawn]  # this rank's places, and which of those drawn they are
        local_sizes = [len(places) for places, _ in local]
        order = self._on_device(np.concatenate([places for places, _ in local]))
        # One gather serves the whole pass: the minibatches are views of it.
        shuffled = rollout.minibatch(advantages, returns).map(lambda x: x.index_select(0, order))
        standardized: Sequence[Tensor] = ()
        if self.hyperparameters.advantage_normalization == "minibatch":
            of_all = shuffled.advantage
            if in_ranks:
                # Mean and deviation are those of the minibatch of all ranks, as one process would have them.
                (gathered,) = self._of_all(to_numpy(advantages))
                of_all = self._on_device(gathered.reshape(-1)[np.concatenate(drawn)])
            standardized = standardized_parts(of_all, sizes)
        mean_rows = sum(sizes) / len(sizes)
        for k, batch in enumerate(shuffled.split(local_sizes)):
            batch.share = local_sizes[k] / sizes[k]
            if standardized:
                batch.advantage = standardized[k]
            if standardized and in_ranks:
                _, is_local = local[k]
                batch.advantage = standardized[k][torch.from_numpy(is_local)]
            if sequences:
                batch.sequences = rollout.sequences(sequences[k], self.model.memory_size)
                batch.weight = torch.tensor(sizes[k] / mean_rows, device=self.device)
            yield batch

    def minimize(self, loss: LossFunction, batch: Minibatch) -> Loss:
        """Move the parameters along the clipped gradient of ``loss`` of ``batch``, of all ranks; return the loss.

        With ``target_kl``, no step is taken if the minibatch's KL divergence exceeds 1.5 times ``target_kl``.
        A GPU repeats a recorded :meth:`gradient_step` where it can.
        """
        result = self.gradient_step(loss, batch)
        result.share = batch.share
        result.weight = batch.weight
        return result

    @function_of_tensors(unless="target_kl")
    def gradient_step(self, loss: LossFunction, batch: Minibatch) -> Loss:
        """Compute the gradient, sum it over the ranks, clip it, and step unless the KL divergence is too large.

        Without ``target_kl``, nothing in it depends on the values of tensors or waits for a device, so it can be
        compiled, or captured in a CUDA graph.
        """
        optimizer = self.optimizer
        optimizer.zero_grad()
        result = self.backward(loss, batch)
        if self.ranks.size > 1:
            sum_gradients(self.ranks, optimizer.parameters, batch.share)
        if batch.weight is not None:
            gradients = [parameter.grad for parameter in optimizer.parameters if parameter.grad is not None]
            torch._foreach_mul_(gradients, batch.weight)
        result.norm = optimizer.clip_grad_norm(self.hyperparameters.max_grad_norm)
        target = self.hyperparameters.target_kl
        if target is not None:
            # All ranks decide alike, by the divergence of the minibatch of all of them.
            log_ratio = gather_rows(self.ranks, result.log_ratio)
            result.stepped = float(approximate_kl(log_ratio)) <= 1.5 * target
        if result.stepped:
            optimizer.step()
        return result

    def backward(self, loss: LossFunction, batch: Minibatch) -> Loss:
        """Leave the gradient of the loss in the parameters; return the loss without its graph."""
        if not len(batch.advantage):  # all of the minibatch's rows are of other ranks
            zero = torch.zeros((), device=self.device)
            return Loss(zero, zero, zero, zero, batch.advantage)
        result = loss(batch)
        result.total.backward()  # type: ignore[no-untyped-call]
        return result.detached()

    def finish(self, rollout: Rollout, losses: Sequence[Loss]) -> Mapping[str, Statistic]:
        """Add the rollout to the statistics of the observation normalizer, and begin another rollout.

        The first rollout has been added step by step.
        Returns the statistics of the update, means over its ``losses`` among them.
        Raises TrainingDiverged if a loss is not finite.
        """
        means, log_ratio = mean_losses(losses, self.ranks)
        self._require_finite(means)
        learned = {**means, **self.diagnostics(log_ratio)}
        if self._inputs.normalizer is not None and not self.begins_statistics:
            places = self._on_device(np.flatnonzero(rollout.valid))
            observed = tuple(x.index_select(0, places) for x in rollout.raw_inputs)
            self._inputs.update_normalizer(observed, self.ranks)
            self.policy.refresh()
        else:
            self.policy.refresh_distribution()
        self.begins_statistics = False
        self.buffer.restart()
        self.rollout_start = self.step_count.steps
        return {**learned, **rollout.stats}

    # ------------------------------------------------------------ what networks say

    def evaluate(self, batch: Minibatch, differentiable_entropy: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probabilities [B] and entropies of the joint actions, and values [B, R], under current weights.

        The entropies are [B], or [] if they do not depend on the observations.
        """
        columns, logits, value = self.model.policy_and_value(batch.inputs, batch.sequences)
        return *self.likelihood(batch, columns, logits, differentiable_entropy), value

    def likelihood(
        self, batch: Minibatch, columns: Tensor | None, logits: Tensor | None, differentiable_entropy: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities [B] and entropies, [B] or [], of the joint actions under an output of the policy."""
        if batch.mask is not None and logits is not None:
            logits = mask_logits(logits, batch.mask)
        layout = self.policy.layout
        distribution = self.model.policy_head.distribution
        return joint_log_prob_entropy(
            layout, distribution, columns, logits, batch.raw, batch.choices, differentiable_entropy
        )

    def value(self, inputs: Inputs, seen: Mapping[str, NDArray[Any]]) -> Tensor:
        """Return the values [B, R] of B rows; a subclass whose critic reads more than ``inputs`` overrides it.

        ``inputs`` are normalized observations, and ``seen`` all that the rollout stores of these rows by name, each
        [B, *shape].
        """
        if self.memory is None:
            return self.model.value(inputs)
        of_critic = seen[MEMORY][:, -self.model.memory_size :]
        return self.model.value_step(inputs, self._on_device(of_critic))

    def in_pieces(
        self,
        function: Callable[[Inputs, Mapping[str, NDArray[Any]]], Tensor],
        inputs: Inputs,
        seen: Mapping[str, NDArray[Any]],
    ) -> Tensor:
        """Return ``function`` [B, ...] of B rows, in pieces so small that images fit in memory, and any in a cache."""
        size = MOST_ROWS
        if self._inputs.images:
            size = max(MOST_IMAGES, self.hyperparameters.batch_size)

        def piece(start: int) -> Tensor:
            part = slice(start, start + size)
            stored = {name: array[part] for name, array in seen.items()}
            return function(tuple(x[part] for x in inputs), stored)

        return torch.cat(self.of_each(piece, range(0, len(inputs[0]), size)))

    def of_each(self, function: Callable[[Piece], Tensor], pieces: Iterable[Piece]) -> list[Tensor]:
        """Return ``function`` of each of ``pieces``, in their order; tensors of its shape [...]."""
        return list(map(function, pieces))

    # ------------------------------------------------------------ inside

    def _acting_log_prob(self, lengths: NDArray[np.int64], rows: int) -> Tensor:
        """Return the log-probabilities [T * S] of the actions under the weights that acted.

        While slots act in turns, an action may be open: chosen, and without what followed. Its log-probability is kept
        for the next rollout, because the weights that chose it are gone then.
        """
        buffer = self.buffer
        open_row = 1 if buffer.ragged else 0
        acted = min(rows + open_row, buffer.rows)
        log_prob, _ = joint_log_prob_entropy(
            self.policy.layout,
            self.model.policy_head.distribution,
            self._flat(buffer.columns, acted),
            self._flat(buffer.logits, acted),
            self._flat(buffer.raw, acted),
            self._flat(buffer.choices, acted),
        )
        slots = len(lengths)
        if buffer.ragged:
            kept = torch.from_numpy(buffer.kept_log_prob).to(self.device)
            log_prob[:slots] = torch.where(kept.isnan(), log_prob[:slots], kept)
            open_rows = np.minimum(lengths, acted - 1)
            buffer.open_log_prob = to_numpy(log_prob.view(acted, slots))[open_rows, range(slots)]
        return log_prob[: rows * slots]

    def _values(self, inputs: Inputs, seen: Arrays) -> tuple[Any, Any]:
        """Values of the observations acted on and of those that followed, both [T, S, R].

        After the end of an episode, its final observation follows. For a reward with ``ignore_done``, the first one of
        the next episode does, as in the code of RND (Burda et al. 2018, arXiv:1810.12894, section 2.3), whether the
        episode terminated or was truncated; the final one only where the agent has not seen the next yet.
        """
        buffer = self.buffer
        values = self.in_pieces(self.value, inputs, seen)
        values = values.view(-1, len(buffer.cursor), len(self.providers))
        next_values = values[1:].clone()
        places, final_seen = buffer.finals()
        if len(places):
            rows = places[:, 0].copy()
            slots = places[:, 1].copy()
            final_inputs = self._inputs(self._to_device(self._inputs.raw(final_seen)))
            final_values = self.in_pieces(self.value, final_inputs, final_seen)
            ended = self._on_device(rows), self._on_device(slots)
            ignores_done = np.array([provider.ignore_done for provider in self.providers])  # [R]
            followed = buffer.followed(rows, slots)  # [K]
            continued = self._on_device(ignores_done & followed[:, None])  # [K, R]
            next_values[ended] = torch.where(continued, next_values[ended], final_values)
        return buffer.as_values(values[:-1]), buffer.as_values(next_values)

    def _sequences(self, ended: BoolArray, valid: BoolArray) -> tuple[BoolArray, SequenceTable | None]:
        """Where all ranks have a transition, [T*, S*], and with memory the sequences of all ranks."""
        memory = self.model.memory
        if memory is None:
            (valid_of_all,) = self._of_all(valid)
            return valid_of_all, None
        starts = sequence_starts(ended, memory.sequence_length)
        # What was remembered after an action that was chosen before the latest update is of older weights.
        starts[1:2, ~np.isnan(self.buffer.kept_log_prob)] = True
        valid_of_all, starts = self._of_all(valid, starts & valid)
        return valid_of_all, SequenceTable(starts, valid_of_all)

    def _finished_advantages(
        self, rollout: Rollout, advantages: Any, targets: Sequence[Any], baseline: FloatArray | None
    ) -> tuple[Tensor, Tensor]:
        """Return ``advantages`` [T, S] and the ``targets`` of each provider as tensors, and report the values.

        Standardized advantages are so over the transitions of all ranks, and 0 where there is none.
        """
        targets_of_all = torch.stack([self._on_device(target) for target in targets], dim=-1)
        self.report_values(rollout, targets_of_all, baseline)
        on_device = self._on_device(advantages)
        if self.hyperparameters.advantage_normalization != "rollout":
            return on_device, targets_of_all
        (of_all,) = self._of_all(to_numpy(on_device))
        standardized = self._on_device(of_all)
        valid = self._on_device(rollout.valid_of_all)
        standardized[valid] = standardize(standardized[valid])
        if rollout.own_slot is not None:
            rows = len(rollout.valid)
            numbers = self._on_device(self.share.numbers)
            standardized = standardized[:rows, numbers]
        return standardized, targets_of_all

    def _require_finite(self, means: Mapping[str, float]) -> None:
        """Raise TrainingDiverged if a mean loss or gradient is NaN or infinite."""
        policy = means["Losses/Policy Loss"]
        value = means["Losses/Value Loss"]
        norm = means["Losses/Gradient Norm"]
        if np.isfinite(policy + value + norm):
            return
        advice = remedy(self.buffer, self._inputs.normalizer is not None)
        raise TrainingDiverged(
            f"behavior {self.behavior.name!r}: the loss became NaN or infinite in the update at step {self.steps} "
            f"(policy {policy:g}, value {value:g}, gradient norm {norm:g}); {advice}"
        )

    def _of_all(self, *arrays: Array, lists: Sequence[list[float]] = ()) -> list[Array]:
        """Return arrays [T, S, ...] of this rank as [T*, S*, ...] of all ranks."""
        if self.ranks.size == 1:
            return list(arrays)
        return gather_slots(self.ranks, self.share, *arrays, lists=lists)

    def _flat(self, array: Array | Tensor | None, rows: int) -> Tensor | None:
        """Return the first ``rows`` of an array or a tensor [T, S, ...] as a tensor [rows * S, ...] on the device.

        None if it holds nothing.
        """
        if array is None or not array.shape[-1]:
            return None
        return self._on_device(array[:rows].reshape(-1, *array.shape[2:]))

    def _on_device(self, array: Array | Tensor) -> Tensor:
        return torch.as_tensor(array).to(self.device)

    def _to_device(self, inputs: Inputs) -> Inputs:
        return tuple(x.to(self.device) for x in inputs)

    _methods_of_tensors = (*RolloutTrainer._methods_of_tensors, value, rollout, advantages)
