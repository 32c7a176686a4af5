"""Cart poles as tensors, with real actions and with masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor

from rlcore_torch import TensorActions, TensorBatch
from rlcore_torch.tensors.cartpole import TorchCartPole


class ContinuousCart(TorchCartPole):
    """A cart that is pushed by a real number, within bounds that are not -1 and 1."""

    def __init__(self, num_envs: int, **more: Any) -> None:
        super().__init__(num_envs, **more)
        low = np.array([-0.3], np.float32)
        high = np.array([1.3], np.float32)
        (spec,) = self.behaviors.values()
        self.behaviors = {spec.name: attrs.evolve(spec, discrete=(), continuous=1, low=low, high=high)}

    def step(self, actions: Mapping[str, TensorActions]) -> dict[str, TensorBatch]:
        [(name, chosen)] = actions.items()
        assert chosen.continuous is not None
        return super().step({name: TensorActions(discrete=chosen.continuous)})


class MaskedCart(TorchCartPole):
    """A cart that is not pushed further where it is already fast, and never at the first step of an episode."""

    def _masks(self, state: Tensor) -> Tensor:
        return torch.stack((state[:, 1] > -0.3, (state[:, 1] < 0.3) | (state[:, 1] <= -0.3)), 1)

    def _first_batch(self) -> dict[str, TensorBatch]:
        return self._masked(super()._first_batch())

    def step(self, actions: Mapping[str, TensorActions]) -> dict[str, TensorBatch]:
        return self._masked(super().step(actions))

    def _masked(self, batches: dict[str, TensorBatch]) -> dict[str, TensorBatch]:
        (batch,) = batches.values()
        batch.action_mask = self._masks(batch.observations["state"])
        if batch.final_observations is not None:
            batch.final_action_mask = self._masks(batch.final_observations["state"])
        return batches
