"""Makes minibatches from rows of a replay buffer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import RewardProvider, Transitions
from rlcore_torch.arrays import Array, Arrays, BoolArray, FloatArray
from rlcore_torch.networks.actions import ActionLayout
from rlcore_torch.networks.inputs import AnyInputs
from rlcore_torch.networks.sequence_inputs import Inputs, SequenceInputs, SequenceLayout, SequenceStarts, steps_within
from rlcore_torch.off_policy.replay import ReplayBuffer
from rlcore_torch.off_policy.replay_rings import GatheredRows, Rows, Steps
from rlcore_torch.off_policy.replay_sequences import SequenceRows
from rlcore_torch.off_policy.transition_batch import ActionBatch, AfterEnds, StepsBetween, TransitionBatch
from rlcore_torch.reward_scaling import RewardScaling

__all__ = ["BatchReader"]


@attrs.define(eq=False, slots=False)
class BatchReader:
    """Makes batches from rows of a replay buffer.

    Attributes:
        buffer: The replay buffer.
        inputs: Makes inputs of networks from observations, normalized.
        layout: The parts of an action.
        providers: The reward providers, R of them.
        device: The device of the tensors.
        n_steps: n, the steps of a stretch.
        between: Whether batches of more than one step have :class:`StepsBetween`.
        scaling: How the environment's reward is learned from; None: as it is.

    Rows that form sequences, for networks with memory, become :class:`SequenceInputs`: at the first steps of the
    stretches, between them, and at their ends, which are one unrolled sequence each. A reward with ``ignore_done`` goes
    on from the final observation then, with what the agent remembers there.
    """

    buffer: ReplayBuffer
    inputs: AnyInputs
    layout: ActionLayout
    providers: Sequence[RewardProvider]
    device: torch.device
    n_steps: int = 1
    between: bool = False
    scaling: RewardScaling | None = None

    def read(
        self, rows: Rows | SequenceRows, weight: FloatArray | None = None, steps: Steps | None = None
    ) -> TransitionBatch:
        """Return the stretches that start at ``rows`` [B] of the buffer.

        ``weight`` [B] are importance weights; of sequences, one of each, [Q] or more. ``steps`` replace the stored
        transitions, which needs n = 1.
        """
        unrolled = None
        if isinstance(rows, SequenceRows):
            unrolled = _Unrolled(self, rows)
            if weight is not None:
                weight = weight[rows.sequence]
            rows = rows.rows
        indices, valid, last = self.buffer.stretches(rows, self.n_steps)
        after_ends = None
        if steps is None:
            steps = self.buffer.view(rows, last)
            if unrolled is None:
                after_ends = self._after_ends(last)
        reward, discount = self._rewards(indices, valid, steps)
        if unrolled is None:
            next_inputs = self._inputs(steps.next_observations)
        else:
            next_inputs = unrolled.inputs(self.buffer.next_rows(last))
        between = None
        if self.between and self.n_steps > 1:
            between = self._between(indices[1:], valid[1:], unrolled)
        batch = TransitionBatch(
            *self._acted(steps, rows, unrolled),
            next_inputs=next_inputs,
            next_mask=self._optional(steps.next_masks),
            reward=self._tensor(reward),
            discount=self._tensor(discount),
            weight=self._optional(weight),
            between=between,
            after_ends=after_ends,
        )
        batch.starts = rows
        return batch

    def actions(self, rows: Rows | SequenceRows) -> ActionBatch:
        """Return the observations and actions of ``rows`` [B], without the next observations."""
        unrolled = None
        if isinstance(rows, SequenceRows):
            unrolled = _Unrolled(self, rows)
            rows = rows.rows
        steps = self.buffer.view(rows)
        return ActionBatch(*self._acted(steps, rows, unrolled))

    def _acted(
        self, steps: Steps, rows: Rows, unrolled: _Unrolled | None
    ) -> tuple[Inputs, Tensor | None, Tensor | None, Tensor | None]:
        """Return the inputs, raw actions, choices and masks of ``steps``."""
        inputs = self._inputs(steps.observations) if unrolled is None else unrolled.inputs(rows)
        raw = self._tensor(steps.raw) if self.layout.continuous else None
        choices = self._tensor(steps.choices) if self.layout.branches else None
        return inputs, raw, choices, self._optional(steps.masks)

    def transitions(self, rows: Rows, collected: Rows | None = None) -> Transitions:
        """Return single steps as reward providers see them; what the provider does not read is not gathered.

        ``collected`` [N] are the rows of what was collected since the last update of the providers, step after step;
        None where nothing is to be learned.
        """
        transitions = self._as_transitions(self.buffer.view(rows))
        if collected is not None:
            transitions.collecting = partial(self._in_order, collected)
        return transitions

    def _in_order(self, rows: Rows) -> Transitions | None:
        """Return the transitions of ``rows`` [N], step after step, with their slots; None if there are none."""
        if not len(rows):
            return None
        transitions = self._as_transitions(self.buffer.view(rows))
        transitions.slot = rows % self.buffer.slots
        return transitions

    def rewards(self, rows: Rows) -> list[FloatArray]:
        """Return the rewards of single steps as they were given, without strength: [B] for each provider."""
        return self._evaluate(self.transitions(rows))

    def _evaluate(self, transitions: Transitions) -> list[FloatArray]:
        with torch.no_grad():
            return [provider.evaluate(transitions) for provider in self.providers]

    def _as_transitions(self, steps: Steps) -> Transitions:
        """Return steps that are gathered already as reward providers see them."""
        raw = steps.raw if self.layout.continuous else None
        choices = steps.choices if self.layout.branches else None
        return Transitions(
            observations=steps.observations,
            actions=self.layout.actions(raw, choices),
            reward=steps.reward,
            terminated=steps.terminated,
            truncated=steps.truncated,
            group_reward=steps.group_reward,
            following=lambda: steps.next_observations,
        )

    def _after_ends(self, last: Rows) -> AfterEnds | None:
        ignores_done = np.array([provider.ignore_done for provider in self.providers])  # [R]
        if not ignores_done.any() or not self.buffer.ends(last).any():
            return None
        rows = self.buffer.rows_after_ends(last)
        return AfterEnds(self.at(rows), self._masks_at(rows), self._tensor(ignores_done))

    def _masks_at(self, rows: Rows) -> Tensor | None:
        masks = self.buffer.masks
        if masks is None:
            return None
        return self._tensor(masks.take(rows, 0))

    def _between(self, indices: Rows, valid: BoolArray, unrolled: _Unrolled | None) -> StepsBetween:
        """Return the steps after the first one; ``indices`` and ``valid`` are [n - 1, B]."""
        rows = indices.ravel()  # [(n - 1) * B]
        gamma = np.array([provider.gamma for provider in self.providers], np.float32)  # [R]
        power = np.arange(1, len(indices) + 1, dtype=np.float32)
        discounts = gamma ** power[:, None, None]
        discount = np.where(valid[:, :, None], discounts, np.float32(0))  # [n - 1, B, R]
        inputs = self.at(rows) if unrolled is None else unrolled.inputs(rows)
        return StepsBetween(inputs, self._masks_at(rows), self._tensor(discount))

    def _rewards(self, indices: Rows, valid: BoolArray, steps: Steps) -> tuple[FloatArray, FloatArray]:
        """Return rewards and discounts, each [B, R].

        A stretch of m steps is worth r_0 + gamma r_1 + ... + gamma^(m - 1) r_(m - 1), and then gamma^m times the value
        of what follows (Sutton and Barto 2018, eq. 12.1).
        """
        n = len(indices)
        if n == 1:
            transitions = self._as_transitions(steps)
            length = 1
        else:
            transitions = self.transitions(indices.ravel())
            length = valid.sum(0)
        power = np.arange(n, dtype=np.float32)[:, None]  # [n, 1]
        evaluated = self._evaluate(transitions)  # of each provider, [n * B]
        rewards = []
        discounts = []
        for k, provider in enumerate(self.providers):
            reward = evaluated[k]
            if self.scaling is not None and k == self.scaling.place:
                reward = self.scaling.scaled(reward)
            reward = reward * np.float32(provider.strength)
            gamma = np.float32(provider.gamma)
            if n > 1:
                weights = np.where(valid, gamma**power, np.float32(0))  # [n, B]
                weighted = reward.reshape(n, -1) * weights
                reward = weighted.sum(0)
            discount = np.broadcast_to(gamma**length, reward.shape)  # [B]
            if not provider.ignore_done:
                discount = discount * ~steps.terminated
            rewards.append(reward)
            discounts.append(discount)
        return _columns(rewards), _columns(discounts)

    def at(self, rows: Rows) -> Inputs:
        """Return the observations of ``rows`` [B], which need not hold a transition."""
        return self._inputs(GatheredRows(self.buffer.observations, rows))

    def _inputs(self, observations: Arrays) -> Inputs:
        raw = self.inputs.raw(observations)
        inputs: Inputs = self.inputs(tuple(x.to(self.device) for x in raw))
        return inputs

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _optional(self, array: Array | None) -> Tensor | None:
        if array is None:
            return None
        return self._tensor(array)


class _Unrolled:
    """Sequences of stored steps as inputs of networks with memory."""

    def __init__(self, reader: BatchReader, rows: SequenceRows) -> None:
        self.reader = reader
        self.rows = rows
        self._buffer = reader.buffer
        self._starts = self._sequence_starts()

    def inputs(self, rows: Rows) -> SequenceInputs:
        """Return the observations at ``rows``, [k * B] for the rows of k steps of each of the B stretches.

        Each sequence is unrolled from its start to the last of these rows.
        """
        buffer = self._buffer
        starts = self.rows.starts
        sequence = np.resize(self.rows.sequence, len(rows))
        distance = (rows - starts[sequence]) % buffer.capacity
        steps = distance // buffer.slots  # [k * B] within the sequence
        lengths = np.zeros(len(starts), np.int64)
        np.maximum.at(lengths, sequence, steps + 1)
        first = np.cumsum(lengths) - lengths  # [Q]
        chosen = first[sequence] + steps
        layout = SequenceLayout.of(lengths, self.reader.device)
        observed = self._steps(starts, lengths)
        return SequenceInputs.of(observed, layout, self.reader._tensor(chosen), self._starts)

    def _sequence_starts(self) -> SequenceStarts:
        """Return the memory before each sequence, and the burn-in that brings it up to date with the weights of now."""
        buffer = self._buffer
        starts = self.rows.starts
        leads = self.rows.leads
        begins = (starts - buffer.slots * leads) % buffer.capacity  # [Q]
        stored = self.reader._tensor(buffer.memory.take(begins, 0))
        led = np.flatnonzero(leads)
        led_indices = self.reader._tensor(led)
        if not len(led):
            return SequenceStarts(stored, led_indices, (), None)
        lengths = leads[led]
        lead = self._steps(begins[led], lengths)
        layout = SequenceLayout.packed(lengths, self.reader.device)
        return SequenceStarts(stored, led_indices, lead, layout)

    def _steps(self, starts: Rows, lengths: NDArray[np.int64]) -> Inputs:
        """Return the normalized observations of as many steps as ``lengths`` say from each of ``starts`` on."""
        buffer = self._buffer
        rows = np.repeat(starts, lengths) + buffer.slots * steps_within(lengths)
        return self.reader.at(rows % buffer.capacity)


def _columns(arrays: list[Array]) -> FloatArray:
    """Return [B, R] from R arrays [B]."""
    return np.stack(arrays, axis=1, dtype=np.float32, casting="same_kind")
