"""Stored transitions as tensors: what one gradient step of an off-policy or offline trainer sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.rewards import RewardProvider, Transitions
from rlcore.torch.actions import ActionLayout
from rlcore.torch.networks import Inputs, ObservationInputs
from rlcore.torch.replay import ReplayBuffer, Rows, Steps

FloatArray = NDArray[np.float32]


@attrs.define(eq=False)
class ActionBatch:
    """Observations and actions of agents in B steps: the input of imitation."""

    inputs: Inputs  # normalized observations, each [B, ...]
    raw: Tensor | None  # [B, continuous] the action's continuous parts, as a policy draws them
    choices: Tensor | None  # [B, branches] its choices
    mask: Tensor | None  # [B, logits] True = allowed


@attrs.define(eq=False)
class TransitionBatch(ActionBatch):
    """B stretches of n steps (n is 1 unless ``n_steps`` says otherwise) and R rewards: first what was seen and done at
    the start of each, then what it led to.

    The target of a value that ``n_steps`` later is worth ``next_value`` [B, R] is ``reward + discount * next_value``.
    """

    next_inputs: Inputs  # normalized observations at the end, each [B, ...]
    next_mask: Tensor | None  # [B, logits]
    reward: Tensor  # [B, R] discounted sum over the stretch, strength included
    discount: Tensor  # [B, R] gamma^n, and 0 where the episode terminated (unless the reward ignores that)
    weight: Tensor | None = None  # [B] of importance, under prioritized replay


class BatchReader:
    """Makes batches from rows of a replay buffer."""

    def __init__(
        self,
        buffer: ReplayBuffer,
        inputs: ObservationInputs,
        layout: ActionLayout,
        providers: Sequence[RewardProvider],
        device: torch.device,
        n_steps: int = 1,
    ) -> None:
        self.buffer = buffer
        self.inputs = inputs
        self.layout = layout
        self.providers = providers
        self.device = device
        self.n_steps = n_steps

    def read(self, rows: Rows, weight: FloatArray | None = None) -> TransitionBatch:
        """The transitions that start at ``rows`` [B] of the buffer."""
        indices, valid, last = self.buffer.stretches(rows, self.n_steps)
        steps = self.buffer.transitions(rows, last)
        reward, discount = self._rewards(indices, valid, steps)
        return TransitionBatch(
            inputs=self._inputs(steps.observations),
            next_inputs=self._inputs(steps.next_observations),
            raw=self._tensor(steps.raw) if self.layout.continuous else None,
            choices=self._tensor(steps.choices) if self.layout.branches else None,
            mask=None if steps.masks is None else self._tensor(steps.masks),
            next_mask=None if steps.next_masks is None else self._tensor(steps.next_masks),
            reward=self._tensor(reward),
            discount=self._tensor(discount),
            weight=None if weight is None else self._tensor(weight),
        )

    def actions(self, rows: Rows) -> ActionBatch:
        """Return the observations and actions of ``rows`` [B], without the next observations."""
        buffer, layout = self.buffer, self.layout
        return ActionBatch(
            inputs=self._inputs({name: array.take(rows, 0) for name, array in buffer.observations.items()}),
            raw=self._tensor(buffer.raw.take(rows, 0)) if layout.continuous else None,
            choices=self._tensor(buffer.choices.take(rows, 0).astype(np.int64)) if layout.branches else None,
            mask=None if buffer.masks is None else self._tensor(buffer.masks.take(rows, 0)),
        )

    def transitions(self, rows: Rows) -> Transitions:
        """Single steps, as reward providers are shown them."""
        return self._shown(self.buffer.transitions(rows))

    def _shown(self, steps: Steps) -> Transitions:
        layout = self.layout
        return Transitions(
            observations=steps.observations,
            actions=layout.actions(
                steps.raw if layout.continuous else None, steps.choices if layout.branches else None
            ),
            reward=steps.reward,
            terminated=steps.terminated,
            truncated=steps.truncated,
            group_reward=steps.group_reward,
            following=lambda: steps.next_observations,
        )

    def _rewards(self, indices: Rows, valid: NDArray[np.bool_], steps: Steps) -> tuple[FloatArray, FloatArray]:
        """Rewards and discounts, each [B, R]."""
        n = len(indices)
        shown = self._shown(steps if n == 1 else self.buffer.transitions(indices.ravel()))
        power = np.arange(n, dtype=np.float32)[:, None]  # [n, 1]
        taken = valid.sum(0) if n > 1 else 1
        rewards, discounts = [], []
        for provider in self.providers:
            gamma = np.float32(provider.gamma)
            given = provider.evaluate(shown) * np.float32(provider.strength)
            if n > 1:
                given = (given.reshape(n, -1) * np.where(valid, gamma**power, np.float32(0))).sum(0)
            discount = np.broadcast_to(gamma**taken, given.shape)
            rewards.append(given)
            discounts.append(discount if provider.ignore_done else discount * ~steps.terminated)
        return _columns(rewards), _columns(discounts)

    def _inputs(self, observations: dict[str, NDArray[Any]]) -> Inputs:
        inputs: Inputs = self.inputs(tuple(x.to(self.device) for x in self.inputs.raw(observations)))
        return inputs

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)


def _columns(arrays: list[NDArray[Any]]) -> FloatArray:
    """[B, R] from R arrays [B]."""
    return np.stack(arrays, axis=1, dtype=np.float32, casting="same_kind")
