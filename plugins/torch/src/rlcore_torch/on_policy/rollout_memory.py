"""Memory in an on-policy trainer: what agents remember while they act, and a rollout as sequences to learn from.

The network of the policy remembers while it acts: the rollout buffer stores the memory that led to each action. The
network of the values never acts. Its memory is computed when the rollout is complete, step by step under the weights
that acted, from the memory at the end of the rollout before.

Shapes: T rows, S slots, N transitions, M numbers of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import AgentBatch, saved_array
from rlcore_torch.networks.networks import ActorCritic, Inputs, to_numpy
from rlcore_torch.on_policy.minibatch import Minibatch, minibatches, rollout_rows
from rlcore_torch.on_policy.rollout import RolloutBuffer, valid_rows
from rlcore_torch.on_policy.sequences import SequenceTable, sequence_starts

FloatArray = NDArray[np.float32]


@attrs.frozen(eq=False)
class RolloutSequences:
    """The sequences of a rollout, and what the networks remember at the start of each, [Q, M]."""

    table: SequenceTable
    starts: NDArray[np.bool_]  # [T, S] the first step of each
    actor_memory: Tensor
    critic_memory: Tensor

    def policy_parameters(
        self, model: ActorCritic, inputs: Inputs, most_rows: int | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """The output of :meth:`rlcore_torch.Actor.policy` for all N rows, about ``most_rows`` at a time."""
        count = len(inputs[0])
        pieces = 1 if most_rows is None else -(-count // most_rows)
        means, logits, order = [], [], []
        for chosen in np.array_split(np.arange(len(self.table)), min(pieces, len(self.table))):
            rows, sequences = self.table.select(chosen, self.actor_memory, self.critic_memory)
            at = torch.from_numpy(rows).to(inputs[0].device)
            mean, logit = model.policy_of(tuple(x.index_select(0, at) for x in inputs), sequences)
            means.append(mean)
            logits.append(logit)
            order.append(at)
        back = torch.cat(order).argsort()

        def joined(parts: list[Tensor | None]) -> Tensor | None:
            there = [part for part in parts if part is not None]
            return torch.cat(there).index_select(0, back) if there else None

        return joined(means), joined(logits)

    def minibatches(
        self, rollout: Minibatch, batch_size: int, generator: np.random.Generator, standardized: bool
    ) -> Iterator[Minibatch]:
        """All transitions in random order of their sequences, in minibatches of about ``batch_size``."""
        parts = max(1, round(len(rollout.advantage) / batch_size))
        for chosen in self.table.shuffled(generator, parts):
            rows, sequences = self.table.select(chosen, self.actor_memory, self.critic_memory)
            (minibatch,) = minibatches(rollout, rows.reshape(1, -1), standardized)
            yield attrs.evolve(minibatch, sequences=sequences)


class RolloutMemory:
    """The memory of the agents of one trainer. Rows of :attr:`acting` are zero where an episode begins."""

    def __init__(self, memory_size: int, sequence_length: int, slots: int) -> None:
        self.sequence_length = sequence_length
        self.acting = np.zeros((slots, memory_size), np.float32)  # [S, M] before the next action
        self.critic = np.zeros((slots, memory_size), np.float32)  # [S, M] before the first row of the rollout

    # ------------------------------------------------------------ acting

    def keep_idle(self, before: FloatArray, batch: AgentBatch) -> None:
        """After acting: slots that needed no action remember what they did ``before``."""
        if batch.needs_action is not None:
            idle = ~batch.needs_action
            self.acting[idle] = before[idle]

    def observe(self, batch: AgentBatch) -> None:
        """Forget where an episode ended."""
        self.acting[batch.ended] = 0.0

    def forget(self, cut: NDArray[np.bool_], lengths: NDArray[np.int64]) -> None:
        """Forget where an episode was ``cut`` [S]. ``lengths`` [S] are the transitions of each slot in the rollout.

        With transitions, the last of them is marked as cut, and :meth:`values` ends there.
        """
        self.acting[cut] = 0.0
        self.critic[cut & (lengths == 0)] = 0.0

    # ------------------------------------------------------------ learning

    def values(
        self, model: ActorCritic, features: Tensor, final_features: Tensor | None, buffer: RolloutBuffer
    ) -> tuple[Tensor, Tensor, RolloutSequences]:
        """Values [T + 1, S, R] of all observations and [K, R] of the K final ones, and the sequences of the rollout.

        ``features`` [T + 1, S, F] and ``final_features`` [K, F] are those of the critic before its recurrent layer.
        Afterwards, the critic remembers what it does at the end of the rollout.
        """
        recurrent = model.critic.recurrent
        assert recurrent is not None and buffer.memory is not None
        device, lengths, num_rows = features.device, buffer.lengths(), len(features) - 1
        valid = valid_rows(num_rows, lengths)
        ended = (buffer.terminated[:num_rows] | buffer.truncated[:num_rows]) & valid
        carry = torch.from_numpy(np.append(~ended, np.ones((1, len(lengths)), np.bool_), 0)).to(device, torch.float32)
        start = torch.from_numpy(self.critic).to(device)
        outputs, after = recurrent.through(features, start, carry)
        before = torch.cat([start.unsqueeze(0), after[:-1] * carry[:-1].unsqueeze(2)])  # [T + 1, S, M]
        final_values = model.value_head(features.new_zeros(0, model.critic.features))
        if final_features is not None:
            rows, slots = torch.from_numpy(buffer.finals()[0].T).to(device)
            final_outputs, _ = recurrent.step(final_features, after[rows, slots])
            final_values = model.value_head(final_outputs)
        self.critic = to_numpy(before[torch.from_numpy(lengths), torch.arange(len(lengths))]).copy()

        starts = sequence_starts(ended, self.sequence_length)
        starts[1:2, buffer.kept] = True  # what was remembered after the first row is of the weights before the update
        table = SequenceTable(starts & valid, valid)
        stored = torch.from_numpy(np.flatnonzero(valid)).to(device) if buffer.ragged else None
        first = torch.from_numpy(table.first_rows).to(device)
        sequences = RolloutSequences(
            table,
            starts & valid,
            rollout_rows(buffer.memory[:num_rows], stored, device).index_select(0, first),
            (before[:-1].flatten(0, 1) if stored is None else before[:-1].flatten(0, 1)[stored]).index_select(0, first),
        )
        return model.value_head(outputs), final_values, sequences

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        return {"acting": self.acting.copy(), "critic": self.critic.copy()}

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raise RunStateError unless the state is of as many slots, and of as large a memory."""
        for name, own in (("acting", self.acting), ("critic", self.critic)):
            saved_array(state, name, np.float32, own.shape)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.require_fit(state)
        self.acting, self.critic = state["acting"].copy(), state["critic"].copy()
