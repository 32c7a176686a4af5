"""The part that the rewards for what is new share: rewards in units of the spread of their sums."""

from __future__ import annotations

import numpy as np
import torch
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

    Nothing is rewarded before the first update, which measures what to normalize by. Shapes: N transitions, B rows of
    them.
    """

    settings: ExplorationSettings
    model: ExplorationModel

    def __init__(self, settings: ExplorationSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        self.ignore_done = not settings.episodic

    def rows(self, transitions: Transitions) -> tuple[Tensor, ...]:
        """Return what errors are computed from, each [N, ...]: inputs to normalize first. A subclass implements it."""
        raise NotImplementedError

    def row_errors(self, *rows: Tensor) -> Tensor:
        """Return the errors [B] of rows of :meth:`rows`, each [B, ...]. A subclass implements it."""
        raise NotImplementedError

    def errors(self, rows: tuple[Tensor, ...]) -> Tensor:
        """Return the errors [N] of all ``rows``, each [N, ...]."""
        return self.in_parts(self.row_errors, *rows)

    def measure(self, transitions: Transitions, rows: tuple[Tensor, ...]) -> None:
        """Add what was collected to the statistics that normalize inputs and rewards; call it first in an update.

        ``rows`` are those of ``transitions``. A minibatch is not what was collected: it has no order, and shows a
        transition often or never.
        """
        collected = transitions.collected
        if collected is None:
            return
        new = rows if collected is transitions else self.rows(collected)
        self.model.inputs.update_normalizer(new)
        with torch.no_grad():
            self.model.scale.update(self.errors(new), collected)

    def unscaled(self, errors: Tensor) -> Tensor:
        """Return the rewards of ``errors`` [N] with ``normalize_rewards: false``. A subclass may limit them."""
        return errors

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        """Implement :meth:`rlcore.RewardProvider.evaluate`."""
        if not self.model.scale.measured:
            return np.zeros(transitions.reward.shape, np.float32)
        errors = self.errors(self.rows(transitions))
        scaled = self.settings.normalize_rewards
        rewards = errors * self.model.scale.factor if scaled else self.unscaled(errors)
        return rewards.cpu().numpy().reshape(transitions.reward.shape)
