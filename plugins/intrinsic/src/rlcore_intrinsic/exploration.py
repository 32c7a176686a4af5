"""The part that the rewards for what is new share: rewards in units of the spread of their sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlcore import BehaviorSpec, RunContext, Transitions
from rlcore_intrinsic.network_reward import NetworkReward, RewardModel
from rlcore_intrinsic.reward_scale import RewardScale
from rlcore_intrinsic.settings import ExplorationSettings


class ExplorationModel(RewardModel):
    """A model with the scale of its rewards. A subclass adds networks.

    Attributes:
        scale: The spread of discounted sums of errors.
    """

    def __init__(self, behavior: BehaviorSpec, settings: ExplorationSettings) -> None:
        super().__init__(behavior, settings)
        self.scale = RewardScale(behavior.slots, settings.gamma)


class ExplorationReward(NetworkReward):
    """A base of rewards that are errors of a prediction. A subclass computes the errors and learns to predict.

    Nothing is rewarded before the first update, which measures what to normalize by.
    """

    settings: ExplorationSettings
    model: ExplorationModel

    def __init__(self, settings: ExplorationSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        self.ignore_done = not settings.episodic

    def errors(self, transitions: Transitions) -> Tensor:
        """Return the error of each transition, [N]. A subclass implements it."""
        raise NotImplementedError

    def unscaled(self, errors: Tensor) -> Tensor:
        """Return the rewards of ``errors`` [N] with ``normalize_rewards: false``. A subclass may limit them."""
        return errors

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        """Implement :meth:`rlcore.RewardProvider.evaluate`."""
        if not self.model.scale.measured:
            return np.zeros(transitions.reward.shape, np.float32)
        errors = self.errors(transitions)
        rewards = errors * self.model.scale.factor if self.settings.normalize_rewards else self.unscaled(errors)
        return rewards.cpu().numpy().reshape(transitions.reward.shape)
