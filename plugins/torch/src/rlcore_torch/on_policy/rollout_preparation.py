"""A full rollout, prepared for learning: with values, advantages and old log-probabilities.

Everything here is computed once for each update, under the weights that acted, and needs no gradient.

Shapes: T rows, S slots, R reward providers; N transitions, which are T * S while all slots act together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import BehaviorSettings, OneRank, Ranks, RewardProvider, SlotShare, Transitions, recording_gradients
from rlcore_torch.networks.actions import joint_log_prob_entropy, mask_logits
from rlcore_torch.networks.networks import ActorCritic, Inputs, to_numpy
from rlcore_torch.on_policy.advantages import explained_variances, generalized_advantages, trajectory_cuts
from rlcore_torch.on_policy.joined_rollout import JoinedRollout
from rlcore_torch.on_policy.minibatch import Minibatch, minibatch_rows, minibatches, rollout_rows, standardize
from rlcore_torch.on_policy.reward_stats import EpisodeRewards
from rlcore_torch.on_policy.rollout import RolloutBuffer, valid_rows
from rlcore_torch.on_policy.rollout_memory import RolloutMemory, RolloutSequences
from rlcore_torch.policy.policy import ActorPolicy
from rlcore_torch.settings import OnPolicySettings

Statistic = float | Sequence[float]  # of an update, or one for each of several episodes


@attrs.frozen(eq=False)
class PreparedRollout:
    """A rollout as one large minibatch, and how it came about."""

    transitions: Minibatch  # all N
    sequences: RolloutSequences | None  # with memory
    raw_inputs: Inputs  # inputs of all N before they are normalized
    stats: Mapping[str, Statistic]
    joined: JoinedRollout | None = None  # with those of other ranks

    def minibatches(self, settings: OnPolicySettings, generator: np.random.Generator) -> Iterator[Minibatch]:
        """Minibatches of one pass over the rollout, in random order.

        All have the same size, except with memory, where they consist of whole sequences.
        """
        standardized = settings.advantage_normalization == "minibatch"
        if self.joined is not None:
            if self.sequences is None:
                return self.joined.minibatches(self.transitions, settings.batch_size, generator, standardized)
            return self.joined.sequence_minibatches(
                self.transitions, self.sequences, settings.batch_size, generator, standardized
            )
        if self.sequences is not None:
            return self.sequences.minibatches(self.transitions, settings.batch_size, generator, standardized)
        rows = minibatch_rows(generator.permutation(len(self.transitions.advantage)), settings.batch_size)
        return minibatches(self.transitions, rows, standardized)


class RolloutPreparation:
    """Prepares the rollouts of one trainer. ``rewards`` has the open sums of each of the ``providers``, by name."""

    def __init__(
        self,
        settings: BehaviorSettings,
        model: ActorCritic,
        policy: ActorPolicy,
        buffer: RolloutBuffer,
        memory: RolloutMemory | None,
        providers: Mapping[str, RewardProvider],
        rewards: Sequence[EpisodeRewards],
        ranks: Ranks | None = None,
        share: SlotShare | None = None,
    ) -> None:
        self._settings = settings
        self._hyperparameters: OnPolicySettings = settings.hyperparameters
        self._behavior = policy.behavior
        self._policy = policy
        self._model = model
        self._device = policy.backend.device
        self._buffer = buffer
        self._memory = memory
        self._providers = providers
        self._rewards = rewards
        self._ranks = ranks or OneRank()
        self._share = share

    @torch.no_grad()
    def prepare(self) -> PreparedRollout:
        """The rollout in the buffer. Reward providers that learn do so now."""
        lengths = self._buffer.lengths()
        num_rows = int(lengths.max())
        stored = None
        if self._buffer.ragged:
            stored = torch.from_numpy(np.flatnonzero(valid_rows(num_rows, lengths))).to(self._device)
        inputs, raw_inputs = self._network_inputs(num_rows, stored)
        values, next_values, sequences = self._value_estimates(inputs, num_rows)
        advantages, returns, stats = self._advantages(values, next_values, lengths)
        joined = None
        if self._share is not None and self._ranks.size > 1:
            joined = JoinedRollout.gather(
                self._ranks, self._share, lengths, advantages, values, returns, sequences, tuple(self._providers),
                stats, self._device,
            )  # fmt: skip
            stats = dict(joined.stats)
        rollout = self._whole_minibatch(inputs, stored, values, advantages, returns, sequences, joined)
        if self._buffer.ragged:
            rows, log_probs = self._buffer.kept_log_probs()
            rollout.old_log_prob[torch.from_numpy(rows)] = torch.from_numpy(log_probs).to(self._device)
        return PreparedRollout(rollout, sequences, raw_inputs, stats, joined)

    def _network_inputs(self, num_rows: int, stored: Tensor | None) -> tuple[Inputs, Inputs]:
        """Normalized observations [(T + 1) * S, ...], and those acted on as they were, [N, ...].

        The last S rows are the observations after the rollout. ``stored`` [N] has the indices of the transitions in an
        array [T * S, ...]; None if every index holds one.
        """
        observations = {name: array[: num_rows + 1] for name, array in self._buffer.observations.items()}
        raw_inputs = self._to_device(self._model.inputs.raw(observations, lead=2))
        return self._model.inputs(raw_inputs), _transition_rows(raw_inputs, num_rows * self._behavior.slots, stored)

    def _value_estimates(
        self, inputs: Inputs, num_rows: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], RolloutSequences | None]:
        """Values of the observations acted on and of those that followed, both [T, S, R].

        After the end of an episode, its final observation follows. For a reward with ``ignore_done``, the first one of
        the next episode does, as in the code of RND (Burda et al. 2018, arXiv:1810.12894, section 2.3), whether the
        episode terminated or was truncated; the final one only where the agent has not seen the next yet.

        With memory, also the sequences of the rollout.
        """
        finals, final_observations = self._buffer.finals()
        final_inputs = None
        if len(finals):
            final_inputs = self._model.inputs(self._to_device(self._model.inputs.raw(final_observations)))
        if self._memory is None:
            sequences = None
            values = self._in_parts(self._model.value, inputs)
            final_values = None if final_inputs is None else self._in_parts(self._model.value, final_inputs)
        else:
            features = self._in_parts(self._model.critic, inputs).view(num_rows + 1, self._behavior.slots, -1)
            final_features = None if final_inputs is None else self._in_parts(self._model.critic, final_inputs)
            values, final_values, sequences = self._memory.values(self._model, features, final_features, self._buffer)
        all_values = to_numpy(values).reshape(num_rows + 1, self._behavior.slots, -1)
        next_values = all_values[1:].copy()
        if final_values is not None and len(finals):
            ended = finals[:, 0], finals[:, 1]
            goes_on = np.array([provider.ignore_done for provider in self._providers.values()])  # [R]
            goes_on = goes_on & self._buffer.followed(*ended)[:, None]  # [K, R]
            next_values[ended] = np.where(goes_on, next_values[ended], to_numpy(final_values))
        return all_values[:-1], next_values, sequences

    def _whole_minibatch(
        self,
        inputs: Inputs,
        stored: Tensor | None,
        values: NDArray[np.float32],
        advantages: NDArray[np.float32],
        returns: NDArray[np.float32],
        sequences: RolloutSequences | None,
        joined: JoinedRollout | None,
    ) -> Minibatch:
        """All N transitions, with the log-probabilities of their actions under the weights that acted."""
        buffer, behavior, num_rows = self._buffer, self._behavior, len(values)

        def flat(array: NDArray[Any]) -> Tensor:
            return rollout_rows(array[:num_rows], stored, self._device)

        inputs = _transition_rows(inputs, num_rows * behavior.slots, stored)
        raw = flat(buffer.raw) if behavior.continuous else None
        choices = flat(buffer.choices) if behavior.discrete else None
        mask = flat(buffer.masks) if buffer.masks is not None else None
        if sequences is None:
            columns, logits = self._policy_parameters(inputs)
        else:
            most_rows = self._piece if self._model.inputs.images else None
            columns, logits = sequences.policy_parameters(self._model, inputs, most_rows)
        if mask is not None and logits is not None:
            logits = mask_logits(logits, mask)
        distribution = self._model.policy_head.distribution
        log_prob, _ = joint_log_prob_entropy(self._policy.layout, distribution, columns, logits, raw, choices)
        advantage = flat(advantages)
        if self._hyperparameters.advantage_normalization == "rollout":
            advantage = standardize(advantage) if joined is None else joined.standardized()
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
    def open_log_probs(self) -> NDArray[np.float32]:
        """Log-probabilities [S] of the latest action of each slot, under the weights that acted."""
        buffer, behavior, at = self._buffer, self._behavior, self._buffer.lengths()
        slots = np.flatnonzero(buffer.open)
        log_probs = np.zeros(behavior.slots, np.float32)
        if len(slots):
            seen = {name: array[at[slots], slots] for name, array in buffer.observations.items()}
            mask = None if buffer.masks is None else buffer.masks[at[slots], slots]
            memory = None if buffer.memory is None else buffer.memory[at[slots], slots]
            columns, logits = self._policy.parameters(seen, mask, memory)
            raw = buffer.raw[at[slots], slots] if behavior.continuous else None
            choices = buffer.choices[at[slots], slots] if behavior.discrete else None

            def tensor(array: NDArray[Any] | None) -> Tensor | None:
                return None if array is None else torch.from_numpy(array).to(self._device)

            log_prob, _ = joint_log_prob_entropy(
                self._policy.layout,
                self._model.policy_head.distribution,
                tensor(columns),
                tensor(logits),
                tensor(raw),
                tensor(choices),
            )
            log_probs[slots] = to_numpy(log_prob)
        return log_probs

    def _advantages(
        self, values: NDArray[np.float32], next_values: NDArray[np.float32], lengths: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], dict[str, Statistic]]:
        """Advantages [T, S] over all providers, value targets [T, S, R], and statistics.

        ``values`` and ``next_values`` are [T, S, R]; ``lengths`` [S] is the number of transitions of each slot.
        """
        buffer, num_rows = self._buffer, len(values)
        # Rows past a slot's length hold what an earlier rollout left there.
        valid = valid_rows(num_rows, lengths) if buffer.ragged else np.ones((num_rows, len(lengths)), np.bool_)
        rows = valid if buffer.ragged else slice(None)
        terminated, truncated = buffer.terminated[:num_rows], buffer.truncated[:num_rows]
        ended = (terminated | truncated) & valid
        carry = ~ended
        if self._settings.time_horizon < num_rows:
            carry &= ~trajectory_cuts(ended, np.zeros(len(lengths), np.int64), self._settings.time_horizon)
        across = ended.copy()  # rows that end an episode before another row
        if buffer.ragged:
            carry[lengths[lengths > 0] - 1, np.flatnonzero(lengths > 0)] = False
            across[lengths[lengths > 0] - 1, np.flatnonzero(lengths > 0)] = False
        transitions = self._transitions(num_rows, rows)
        advantages = np.zeros_like(values[..., 0])
        returns = np.empty_like(values)
        stats: dict[str, Statistic] = {}
        for k, (name, provider) in enumerate(self._providers.items()):
            reward = np.zeros_like(advantages)
            reward[rows] = provider.evaluate(transitions) * np.float32(provider.strength)
            value, next_value = values[..., k], next_values[..., k]
            if provider.ignore_done:
                carried = carry | across  # one trajectory goes through all episodes
            else:
                # Truncated episodes bootstrap from their final observation, terminated ones have no future.
                carried, next_value = carry, np.where(terminated, np.float32(0), next_value)
            advantage = generalized_advantages(
                reward, value, next_value, carried, provider.gamma, self._hyperparameters.lambd
            )
            advantages += advantage
            returns[..., k] = advantage + value
            title = name.capitalize()
            stats[f"Policy/{title} Value Estimate"] = float(value[rows].mean())
            episode_rewards = self._rewards[k].record(reward, ended, buffer.cut_rows())
            if episode_rewards:
                stats[f"Policy/{title} Reward"] = episode_rewards
            with recording_gradients(True):
                stats.update(provider.update(transitions))
        stats |= explained_variances(values[rows], returns[rows], tuple(self._providers))
        return advantages, returns, stats

    def _transitions(self, num_rows: int, rows: NDArray[np.bool_] | slice) -> Transitions:
        """The rollout for reward providers: [T, S] while all slots act together, else [N]."""
        buffer, behavior = self._buffer, self._behavior

        def selected(array: NDArray[Any]) -> NDArray[Any]:
            part: NDArray[Any] = array[:num_rows][rows]
            return part

        return Transitions(
            observations={name: selected(array) for name, array in buffer.observations.items()},
            actions=self._policy.layout.actions(
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
        parts = [self._model.policy(part) for part in self._parts(inputs)]
        columns = [column for column, _ in parts if column is not None]
        logits = [logit for _, logit in parts if logit is not None]
        return torch.cat(columns) if columns else None, torch.cat(logits) if logits else None

    def _parts(self, inputs: Inputs) -> list[Inputs]:
        """Pieces small enough that a forward pass over images fits in memory, and any pass in a CPU's cache."""
        size = self._piece if self._model.inputs.images else self._policy.backend.most_rows(self._model)
        if size is None:
            return [inputs]
        return [tuple(x[i : i + size] for x in inputs) for i in range(0, len(inputs[0]), size)]

    @property
    def _piece(self) -> int:
        """Rows of images that pass through a network at once."""
        return max(self._hyperparameters.batch_size, 256)

    def _to_device(self, inputs: Inputs) -> Inputs:
        return tuple(x.to(self._device) for x in inputs)


def _transition_rows(inputs: Inputs, count: int, stored: Tensor | None) -> Inputs:
    """The inputs of transitions: those at the indices ``stored``, or the first ``count`` if it is None."""
    return tuple(x[:count] if stored is None else x.index_select(0, stored) for x in inputs)
