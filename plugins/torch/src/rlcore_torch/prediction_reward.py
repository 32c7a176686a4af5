"""A reward provider in torch that learns; :class:`rlcore_devkit.TrainerConformance` trains with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore import BehaviorSpec, RewardSettings, Transitions, derive_seed, saved_array

if TYPE_CHECKING:
    from rlcore import RunContext

OUTPUTS = 4
LEARNING_RATE = 0.1


class PredictionReward:
    """The error of a linear prediction of random features of the next observation (Burda et al. 2018).

    ``evaluate`` and ``update`` rely on the mode of recording gradients that :class:`rlcore.RewardProvider`
    promises. See arXiv:1810.12894.
    """

    name = "prediction"
    ignore_done = True
    TAG = "Losses/Prediction Loss"

    def __init__(self, settings: RewardSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        self.gamma, self.strength = settings.gamma, settings.strength
        width = sum(observation.size for observation in behavior.observations)
        generator = torch.Generator().manual_seed(derive_seed(run.seed, f"{behavior.name}/prediction"))
        self.features = torch.randn((width, OUTPUTS), generator=generator) / width**0.5
        self.predictor = nn.Parameter(torch.zeros(width, OUTPUTS))
        self.optimizer = torch.optim.SGD([self.predictor], LEARNING_RATE)

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        assert not torch.is_grad_enabled(), "evaluate() is called with torch.no_grad; see rlcore.contracts.rewards"
        rewards: NDArray[np.float32] = self._errors(transitions).numpy()
        return rewards

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        assert torch.is_grad_enabled(), "update() is called with torch.enable_grad; see rlcore.contracts.rewards"
        loss = self._errors(transitions).mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return {self.TAG: loss.item()}

    def state_dict(self) -> dict[str, Any]:
        return {"predictor": self.predictor.detach().numpy().copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        saved = saved_array(state, "predictor", np.float32, tuple(self.predictor.shape))
        with torch.no_grad():
            self.predictor.copy_(torch.from_numpy(saved))

    def _errors(self, transitions: Transitions) -> Tensor:
        """Mean squared error of each transition, [*L]."""
        lead = transitions.reward.shape
        seen = [np.asarray(array, np.float32).reshape(*lead, -1) for array in transitions.next_observations.values()]
        inputs = torch.from_numpy(np.concatenate(seen, axis=-1))  # [*L, width]
        error: Tensor = inputs @ self.predictor - inputs @ self.features
        return error.square().mean(-1)
