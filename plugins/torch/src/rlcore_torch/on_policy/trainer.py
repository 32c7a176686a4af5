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

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import BehaviorSettings, BehaviorSpec, ExtrinsicReward, PluginError, RunContext, TrainingDiverged
from rlcore_torch.acceleration.linear_stack import StackOutputs
from rlcore_torch.acceleration.network_stacks import critic_layers
from rlcore_torch.networks.actions import joint_log_prob_entropy, mask_logits
from rlcore_torch.networks.inputs import to_numpy
from rlcore_torch.networks.models import ActorCritic
from rlcore_torch.networks.sequence_inputs import Inputs
from rlcore_torch.on_policy.advantages import Trajectories, explained_variances
from rlcore_torch.on_policy.collection import RolloutTrainer
from rlcore_torch.on_policy.minibatch import Loss, Minibatch, Rollout, approximate_kl, standardize, standardized_parts
from rlcore_torch.on_policy.rollout import MEMORY
from rlcore_torch.on_policy.sequences import SequenceTable, sequence_starts
from rlcore_torch.on_policy.tensor_advantages import tensor_advantages, tensor_values
from rlcore_torch.optimization.divergence import remedy
from rlcore_torch.optimization.schedules import Schedule, create_schedule
from rlcore_torch.ranks.torch_ranks import gather_rows, sum_gradients
from rlcore_torch.template import Statistic

__all__ = ["OnPolicyTrainer", "mean_over_rows", "with_gradient_by_hand"]

MOST_ROWS = 8192  # whose values are computed at once: new memory for more takes as long as the values

LossFunction = Callable[[Minibatch], Loss]
LossMethod = TypeVar("LossMethod", bound=Callable[..., Loss])


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
        if self.ranks.size > 1 and not _is_mean_over_rows(type(self).loss):
            raise PluginError(
                f"trainer {settings.trainer_type!r}: its loss is not a mean over rows (mean_over_rows), and cannot be "
                "summed over ranks; run it in one process, without torchrun"
            )
        self._scheduled: dict[str, tuple[Schedule, Tensor]] = {}  # by the tag of the statistic
        side_by_side = None if run.inference else self.backend.piece_threads
        self._threads = None if side_by_side is None else side_by_side(self.model, self.backend.threads)
        by_hand = getattr(type(self).loss, "by_hand", None)
        self._by_hand: LossFunction | None = None
        if by_hand is not None and self.backend.losses_by_hand and not run.inference:
            self._by_hand = by_hand(self)
        layers = critic_layers(self.model) if self.backend.losses_by_hand else None
        self._values_by_hand = None if layers is None else StackOutputs(*layers)
        # With target_kl, whether a step follows a gradient depends on values.
        self._recorded: Callable[[LossFunction, Minibatch], Loss] | None = None
        if self.backend.changes_steps and self.hyperparameters.target_kl is None:
            self._recorded = self.captured(self.gradient_step)

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

    def schedules(self) -> Mapping[str, float]:
        """Set what changes with the steps to its value at :attr:`rollout_start`, and return the values by tag.

        Called at the start of an update. It sets the tensors of :meth:`scheduled`.
        """
        values = {}
        for tag, (schedule, tensor) in self._scheduled.items():
            values[tag] = schedule(self.rollout_start)
            tensor.fill_(values[tag])
        return values

    def diagnostics(self, log_ratio: Tensor) -> dict[str, float]:
        """Return statistics by tag. ``log_ratio`` [rows] are log probability ratios of all minibatches of an update."""
        return {"Policy/KL Divergence": float(approximate_kl(log_ratio))}

    # ------------------------------------------------------------ the parts of an update

    def scheduled(self, key: str, run: RunContext) -> Tensor:
        """Return a tensor [] with the hyperparameter ``key``, such as ``beta``, as its schedule has it in each update.

        It falls to ``final_KEY`` as ``KEY_schedule`` says; its statistic is ``Policy/Key``. Call it in the constructor.
        It is a tensor, so that a compiled or captured gradient step sees it change.
        """
        h = self.hyperparameters
        initial, final, name = (getattr(h, part) for part in (key, f"final_{key}", f"{key}_schedule"))
        tensor = torch.tensor(initial, device=self.device)
        schedule = create_schedule(name, initial, final, self.settings.max_steps, run)
        self._scheduled[f"Policy/{key.capitalize()}"] = schedule, tensor
        return tensor

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
        return joint_log_prob_entropy(
            self.policy.layout,
            self.model.policy_head.distribution,
            columns,
            logits,
            batch.raw,
            batch.choices,
            differentiable_entropy,
        )

    @torch.no_grad()
    def rollout(self) -> Rollout:
        """Return what was collected, with log-probabilities and values under the weights that acted.

        Sets the learning rate and the other schedules for the update.
        """
        rate = self.learning_rate(self.rollout_start)
        self.optimizer.learning_rate = rate
        buffer = self.buffer
        lengths = self.buffer.lengths()
        buffer.require_finite(self.steps)
        # One row without anything valid where agents of other ranks alone have acted.
        rows = max(1, int(lengths.max()))
        slots = len(lengths)
        acted = min(rows + buffer.ragged, buffer.rows)  # with those that are open while slots do not act together
        seen = {n: a[: rows + 1].reshape(-1, *a.shape[2:]) for n, a in buffer.seen.items()}
        raw_inputs = self._to_device(self.model.learner_inputs.raw(seen))
        inputs = self.model.learner_inputs(raw_inputs)
        memory = None if buffer.memory is None else self._flat(buffer.memory[: rows + 1])
        raw = self._flat(buffer.raw[:acted])
        choices = self._flat(buffer.choices[:acted])
        log_prob, _ = joint_log_prob_entropy(
            self.policy.layout,
            self.model.policy_head.distribution,
            self._flat(buffer.columns[:acted]),
            self._flat(buffer.logits[:acted]),
            raw,
            choices,
        )
        valid = np.arange(rows)[:, None] < lengths
        table = None
        if buffer.ragged:
            kept = torch.from_numpy(buffer.kept_log_prob).to(self.device)
            log_prob[:slots] = torch.where(kept.isnan(), log_prob[:slots], kept)
            buffer.open_log_prob = to_numpy(log_prob.view(acted, slots))[np.minimum(lengths, acted - 1), range(slots)]
        own_slot = None
        if self.ranks.size > 1:
            own_slot = np.full(self.share.total, -1, np.int64)
            own_slot[self.share.numbers] = np.arange(slots)
        if memory is None or self.model.memory is None:
            (valid_of_all,) = self._of_all(valid)
        else:
            ended = (buffer.terminated[:rows] | buffer.truncated[:rows]) & valid
            starts = sequence_starts(ended, self.model.memory.sequence_length)
            # What was remembered after an action that was chosen before the latest update is of older weights.
            starts[1:2, ~np.isnan(buffer.kept_log_prob)] = True
            valid_of_all, starts = self._of_all(valid, starts & valid)
            table = SequenceTable(starts, valid_of_all)
        value, next_value = self._values(inputs, seen)
        stats: dict[str, Statistic] = {"Policy/Learning Rate": rate, **self.schedules()}
        return Rollout(
            raw_inputs=raw_inputs,
            inputs=inputs,
            raw=raw,
            choices=choices,
            mask=None if buffer.masks is None else self._flat(buffer.masks[:rows]),
            log_prob=log_prob,
            value=value,
            next_value=next_value,
            valid=valid,
            valid_of_all=valid_of_all,
            own_slot=own_slot,
            memory=memory,
            table=table,
            stats=stats,
        )

    @torch.no_grad()
    def advantages(self, rollout: Rollout, baseline: NDArray[np.float32] | None = None) -> tuple[Tensor, Tensor]:
        """Return the advantages [T, S], summed over the providers, and the value targets [T, S, R].

        A value target is the lambda-return G; an advantage is G less ``baseline`` [T, S, R], by default the value.
        Advantages are standardized if ``advantage_normalization`` is ``rollout``. A reward provider that learns does
        so after its rewards were computed. Statistics are added to those of the rollout.
        """
        if isinstance(rollout.value, Tensor):
            return tensor_advantages(self, rollout)
        buffer = self.buffer
        rows = len(rollout.valid)
        at: Any = rollout.valid if buffer.ragged else slice(None)
        terminated = buffer.terminated[:rows]
        truncated = buffer.truncated[:rows]
        trajectories = Trajectories.of(terminated, truncated, rollout.valid, self.settings.time_horizon)
        transitions = buffer.transitions(self.policy.layout, rows, at)
        advantages = np.zeros_like(rollout.value[..., 0])
        returns = np.empty_like(rollout.value)
        episodes: list[list[float]] = []
        learned: list[Mapping[str, Statistic]] = []
        for k, provider in enumerate(self.providers):
            given = provider.evaluate(transitions)
            strength = np.float32(provider.strength)
            reward = np.zeros_like(advantages)
            reward[at] = given * strength
            learned_from = reward
            if self.reward_scaling is not None and k == self.reward_scaling.place:
                own = np.zeros_like(advantages)
                own[at] = given
                learned_from = self.reward_scaling.scaled_rollout(own, trajectories.ended, rollout.valid) * strength
            value = rollout.value[..., k]
            next_value = rollout.next_value[..., k]
            advantage = trajectories.advantages(learned_from, value, next_value, provider, self.hyperparameters.lambd)
            returns[..., k] = advantage + value
            advantages += advantage if baseline is None else returns[..., k] - baseline[..., k]
            episodes.append(self.episode_rewards[k].record(reward, trajectories.ended, buffer.cut_rows()))
            learned.append({})
            if type(provider).update is not ExtrinsicReward.update:
                with torch.enable_grad():
                    learned[k] = provider.update(transitions)
        more = () if baseline is None else (baseline,)
        of_all, values, targets, *baselines = self._of_all(advantages, rollout.value, returns, *more, lists=episodes)
        self.report_values(rollout, values, targets, episodes, learned, baselines)
        if self.hyperparameters.advantage_normalization == "rollout":
            kept = rollout.valid_of_all
            of_all[kept] = to_numpy(standardize(torch.from_numpy(of_all[kept]).to(self.device)))
            advantages = of_all if rollout.own_slot is None else of_all[:rows, self.share.numbers]
        return self._on_device(advantages), self._on_device(returns)

    def report_values(
        self,
        rollout: Rollout,
        values: NDArray[np.float32],
        targets: NDArray[np.float32],
        episodes: Sequence[list[float]],
        learned: Sequence[Mapping[str, Statistic]],
        baselines: Sequence[NDArray[np.float32]] = (),
    ) -> None:
        """Add the statistics of values, targets and baselines, each [T*, S*, R], and of each provider to the rollout's.

        ``episodes`` has the rewards of the episodes that ended, and ``learned`` what the reward learned, by provider.
        """
        place = self._at(rollout)
        for k, name in enumerate(self.provider_names):
            title = name.capitalize()
            rollout.stats[f"Policy/{title} Value Estimate"] = float(values[..., k][place].mean())
            for each in baselines:
                rollout.stats[f"Policy/{title} Baseline Estimate"] = float(each[..., k][place].mean())
            if episodes[k]:
                rollout.stats[f"Policy/{title} Reward"] = episodes[k]
            rollout.stats.update(learned[k])
        rollout.stats.update(explained_variances(values[place], targets[place], self.provider_names))

    def minibatches(self, rollout: Rollout, advantages: Tensor, returns: Tensor) -> Iterator[Minibatch]:
        """Yield the minibatches of one pass over the rollout in random order, of which a rank has its own rows.

        ``advantages`` are [T, S], ``returns`` [T, S, R]. Minibatches have equal sizes of about ``batch_size``: some
        rows come twice if these do not divide the rollout. With memory they consist of whole sequences, whose lengths
        differ, and the gradient of each counts by its rows. Advantages are standardized within each minibatch if
        ``advantage_normalization`` is ``minibatch``.
        """
        drawn, sequences = rollout.draw(self.hyperparameters.batch_size, self._minibatch_generator)
        own, mine = zip(*(rollout.own(places) for places in drawn), strict=True)
        order = torch.from_numpy(np.concatenate(own)).to(self.device)
        # One gather serves the whole pass: the minibatches are views of it.
        shuffled = rollout.minibatch(advantages, returns).map(lambda x: x.index_select(0, order))
        mean_rows = sum(map(len, drawn)) / len(drawn)
        standardized: Sequence[Tensor | None] = [None] * len(drawn)
        if self.hyperparameters.advantage_normalization == "minibatch":
            everyone = shuffled.advantage
            if rollout.own_slot is not None:
                (of_all,) = self._of_all(to_numpy(advantages))
                everyone = self._on_device(of_all.reshape(-1)[np.concatenate(drawn)])
            standardized = standardized_parts(everyone, [len(places) for places in drawn])
        for k, batch in enumerate(shuffled.split(map(len, own))):
            batch.share = len(own[k]) / len(drawn[k])
            if (advantage := standardized[k]) is not None:
                batch.advantage = advantage if rollout.own_slot is None else advantage[torch.from_numpy(mine[k])]
            if sequences:
                batch.sequences = rollout.sequences(sequences[k], self.model.memory_size)
                batch.weight = torch.tensor(len(drawn[k]) / mean_rows, device=self.device)
            yield batch

    def minimize(self, loss: LossFunction, batch: Minibatch) -> Loss:
        """Move the parameters along the clipped gradient of ``loss`` of ``batch``, of all ranks; return the loss.

        With ``target_kl``, no step is taken if the minibatch's KL divergence exceeds 1.5 times ``target_kl``.
        A GPU repeats a recorded :meth:`gradient_step` where it can.
        """
        found = (self._recorded or self.gradient_step)(loss, batch)
        found.share = batch.share
        found.weight = batch.weight
        return found

    def gradient_step(self, loss: LossFunction, batch: Minibatch) -> Loss:
        """Compute the gradient, sum it over the ranks, clip it, and step unless the KL divergence is too large.

        Without ``target_kl``, nothing in it depends on the values of tensors or waits for a device, so it can be
        compiled, or captured in a CUDA graph.
        """
        self.optimizer.zero_grad()
        found = self._backward(loss, batch)
        if self.ranks.size > 1:
            sum_gradients(self.ranks, self.optimizer.parameters, batch.share)
        if batch.weight is not None:
            gradients = [each.grad for each in self.optimizer.parameters if each.grad is not None]
            torch._foreach_mul_(gradients, batch.weight)
        found.norm = self.optimizer.clip_grad_norm(self.hyperparameters.max_grad_norm)
        if (target := self.hyperparameters.target_kl) is not None:
            found.stepped = float(approximate_kl(gather_rows(self.ranks, found.log_ratio))) <= 1.5 * target
        if found.stepped:
            self.optimizer.step()
        return found

    def finish(self, rollout: Rollout, losses: Sequence[Loss]) -> Mapping[str, Statistic]:
        """Add the rollout to the statistics of the observation normalizer, and begin another rollout.

        The first rollout has been added step by step.
        Returns the statistics of the update, means over its ``losses`` among them.
        Raises TrainingDiverged if a loss is not finite.
        """
        learned = self._means(losses)
        if self.model.learner_inputs.normalizer is not None and not self.begins_statistics:
            places = torch.from_numpy(np.flatnonzero(rollout.valid)).to(self.device)
            self.model.learner_inputs.update_normalizer(
                tuple(x.index_select(0, places) for x in rollout.raw_inputs), self.ranks
            )
            self.policy.refresh()
        elif self.behavior.continuous:
            self.policy.refresh_distribution()
        self.begins_statistics = False
        self.buffer.restart()
        self.rollout_start = self.step_count.steps
        return {**learned, **rollout.stats}

    # ------------------------------------------------------------ values

    def value(self, inputs: Inputs, seen: Mapping[str, NDArray[Any]]) -> Tensor:
        """Return the values [B, R] of B rows; a subclass whose critic reads more than ``inputs`` overrides it.

        ``inputs`` are normalized observations, and ``seen`` all that the rollout stores of these rows by name, each
        [B, *shape].
        """
        if self._values_by_hand is not None:
            return torch.from_numpy(self._values_by_hand(inputs[0].numpy()))
        if not self.model.memory_size:
            return self.model.value(inputs)
        return self.model.value_step(inputs, self._on_device(seen[MEMORY][:, -self.model.memory_size :]))

    def in_pieces(
        self,
        function: Callable[[Inputs, Mapping[str, NDArray[Any]]], Tensor],
        inputs: Inputs,
        seen: Mapping[str, NDArray[Any]],
    ) -> Tensor:
        """Return ``function`` [B, ...] of B rows, in pieces so small that images fit in memory, and any in a cache."""
        size = max(self.hyperparameters.batch_size, 256) if self.model.learner_inputs.images else MOST_ROWS

        def piece(start: int) -> Tensor:
            part = slice(start, start + size)
            return function(tuple(x[part] for x in inputs), {name: array[part] for name, array in seen.items()})

        starts = range(0, len(inputs[0]), size)
        return torch.cat(list(map(piece, starts)) if self._threads is None else self._threads.map(piece, starts))

    # ------------------------------------------------------------ inside

    def _backward(self, loss: LossFunction, batch: Minibatch) -> Loss:
        """Leave the gradient of the loss in the parameters. Threads take a minibatch in pieces if the loss allows."""
        rows = len(batch.advantage)
        threads = self._threads
        if not rows:  # all of the minibatch's are of other ranks
            zero = torch.zeros((), device=self.device)
            return Loss(zero, zero, zero, zero, batch.advantage)
        if self._by_hand is not None and getattr(loss, "by_hand", None) is not None:
            return self._by_hand(batch)
        if threads is None or not _is_mean_over_rows(loss):
            found = loss(batch)
            found.total.backward()  # type: ignore[no-untyped-call]
            return found.detached()
        size = -(-rows // threads.count)
        pieces = list(batch.split(min(size, rows - start) for start in range(0, rows, size)))
        shares = [len(piece.advantage) / rows for piece in pieces]

        def part(piece: Minibatch) -> tuple[Tensor, Loss]:
            found = loss(piece)
            return found.total * (len(piece.advantage) / rows), found.detached()

        return Loss.of_pieces(threads.gradients(part, pieces, self.optimizer.parameters), shares)

    def _means(self, losses: Sequence[Loss]) -> dict[str, float]:
        """Means over all minibatches of an update, each with its share in all ranks.

        Raises TrainingDiverged if one is not finite.
        """
        parts = [torch.stack([getattr(loss, name) for loss in losses]) for name in ("policy", "value", "entropy")]
        tags = next((tuple(loss.reported) for loss in losses if loss.reported), ())
        zero = torch.zeros((), device=self.device)  # of a minibatch without a row of this rank
        parts += [torch.stack([loss.reported.get(tag, zero) for loss in losses]) for tag in tags]
        weights = [loss.weight for loss in losses if loss.weight is not None]
        if weights:
            parts = [part * torch.stack(weights) for part in parts]
        norms = torch.stack([loss.norm for loss in losses if loss.norm is not None])
        log_ratio = torch.cat([loss.log_ratio for loss in losses])
        if self.ranks.size > 1:
            shares = torch.tensor([loss.share for loss in losses], device=self.device)
            ranks = self.ranks.all_gather((to_numpy(torch.stack(parts) * shares), to_numpy(log_ratio)))
            parts = list(self._on_device(np.sum([of_rank for of_rank, _ in ranks], axis=0)))
            log_ratio = self._on_device(np.concatenate([of_rank for _, of_rank in ranks]))
        policy, value, entropy, *reported, norm = torch.stack([*parts, norms]).mean(1).tolist()
        if not np.isfinite(policy + value + norm):
            advice = remedy(self.buffer, self.model.learner_inputs.normalizer is not None)
            raise TrainingDiverged(
                f"behavior {self.behavior.name!r}: the loss became NaN or infinite in the update at step {self.steps} "
                f"(policy {policy:g}, value {value:g}, gradient norm {norm:g}); {advice}"
            )
        return {
            "Losses/Policy Loss": policy,
            "Losses/Value Loss": value,
            **dict(zip(tags, reported, strict=True)),
            "Losses/Gradient Norm": norm,
            "Policy/Entropy": entropy,
            **self.diagnostics(log_ratio),
        }

    def _values(
        self, inputs: Inputs, seen: Mapping[str, NDArray[Any]]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Values of the observations acted on and of those that followed, both [T, S, R].

        After the end of an episode, its final observation follows. For a reward with ``ignore_done``, the first one of
        the next episode does, as in the code of RND (Burda et al. 2018, arXiv:1810.12894, section 2.3), whether the
        episode terminated or was truncated; the final one only where the agent has not seen the next yet.
        """
        if self.buffer.values_on_device:
            return tensor_values(self, inputs, seen)
        shape = (-1, self.behavior.slots, len(self.providers))
        values = to_numpy(self.in_pieces(self.value, inputs, seen)).reshape(shape)
        next_values = values[1:].copy()
        finals, final_seen = self.buffer.finals()
        if len(finals):
            final_inputs = self.model.learner_inputs(self._to_device(self.model.learner_inputs.raw(final_seen)))
            final_values = to_numpy(self.in_pieces(self.value, final_inputs, final_seen))
            ended = finals[:, 0], finals[:, 1]
            goes_on = np.array([provider.ignore_done for provider in self.providers])  # [R]
            goes_on = goes_on & self.buffer.followed(*ended)[:, None]  # [K, R]
            next_values[ended] = np.where(goes_on, next_values[ended], final_values)
        return values[:-1], next_values

    def _of_all(self, *arrays: NDArray[Any], lists: Sequence[list[float]] = ()) -> list[NDArray[Any]]:
        """Arrays [T, S, ...] of this rank as [T*, S*, ...] of all ranks, zero where a rank has fewer rows.

        Each of ``lists`` gets the numbers that the other ranks have in theirs. It is one exchange.
        """
        if self.ranks.size == 1:
            return list(arrays)
        parts = self.ranks.all_gather({"slots": self.share.numbers, "arrays": arrays, "lists": lists})
        for k, numbers in enumerate(lists):
            numbers[:] = [number for part in parts for number in part["lists"][k]]
        longest = max(len(part["arrays"][0]) for part in parts)
        of_all = []
        for k, array in enumerate(arrays):
            of_all.append(np.zeros((longest, self.share.total, *array.shape[2:]), array.dtype))
            for part in parts:
                of_all[k][: len(part["arrays"][k]), part["slots"]] = part["arrays"][k]
        return of_all

    def _at(self, rollout: Rollout) -> Any:
        """Where an array [T*, S*, ...] of all ranks has transitions."""
        return slice(None) if rollout.own_slot is None and not self.buffer.ragged else rollout.valid_of_all

    def _flat(self, array: NDArray[Any] | Tensor) -> Tensor | None:
        """An array or a tensor [T, S, ...] as a tensor [T * S, ...] on the device; None if it holds nothing."""
        return self._on_device(array.reshape(-1, *array.shape[2:])) if array.shape[-1] else None

    def _on_device(self, array: NDArray[Any] | Tensor) -> Tensor:
        return torch.as_tensor(array).to(self.device)

    def _to_device(self, inputs: Inputs) -> Inputs:
        return tuple(x.to(self.device) for x in inputs)


def mean_over_rows(loss: LossMethod) -> LossMethod:
    """Decorate a method ``loss`` whose results are means over the rows of the minibatch.

    A minibatch may then be taken in pieces. A method that overrides a decorated one is not decorated by that.
    """
    loss.is_mean_over_rows = True  # type: ignore[attr-defined]
    return loss


def with_gradient_by_hand(make: Callable[[Any], LossFunction | None]) -> Callable[[LossMethod], LossMethod]:
    """Decorate a method ``loss`` whose gradient a CPU computes without autograd, with ``torch_settings.fast_cpu``.

    ``make`` gets the trainer. It returns a function of a minibatch that returns the loss, detached, and leaves its
    gradient in the parameters; None where the method itself is to be used. A method that overrides a decorated one is
    not decorated by that.
    """

    def decorate(loss: LossMethod) -> LossMethod:
        loss.by_hand = make  # type: ignore[attr-defined]
        return loss

    return decorate


def _is_mean_over_rows(loss: Any) -> bool:
    return getattr(loss, "is_mean_over_rows", False)
