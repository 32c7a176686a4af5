"""Reward providers that learn, for tests of trainers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import BehaviorSpec, RewardProviderSpec, RewardSettings, RunContext, Transitions, hookimpl

TORCH_REWARD, TORCH_TAG = "prediction", "Losses/Prediction Loss"  # its name and its statistic


class LearningReward:
    """The environment's reward, weighted by the number of updates of this provider."""

    name = "learning"
    ignore_done = False
    TAG = "Losses/Learning Reward"

    def __init__(self, gamma: float, strength: float) -> None:
        self.gamma = gamma
        self.strength = strength
        self.rewarded = 0
        self.updates = 0

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        self.rewarded += transitions.reward.size
        return transitions.reward * np.float32(1 + self.updates / 10)

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        assert transitions.reward.size, "update() received no transitions"
        self.updates += 1
        return {self.TAG: float(self.updates)}

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.updates = int(state["updates"])


class LearningRewards:
    """A plugin with rewards that learn, of which it keeps the created objects."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    @hookimpl
    def rlcore_reward_providers(self) -> list[RewardProviderSpec]:
        return [
            RewardProviderSpec(
                name=LearningReward.name,
                target="rlcore_devkit.conformance.learning_rewards:LearningReward",
                settings="rlcore.settings:RewardSettings",
                summary="A reward that changes with every update",
            ),
            RewardProviderSpec(
                name=TORCH_REWARD,
                target="rlcore_torch.prediction_reward:PredictionReward",
                settings="rlcore.settings:RewardSettings",
                summary="A reward that learns with PyTorch",
            ),
        ]

    @hookimpl
    def rlcore_create_reward_provider(
        self, spec: RewardProviderSpec, settings: RewardSettings, behavior: BehaviorSpec, run: RunContext
    ) -> Any:
        if spec.name == LearningReward.name:
            self.made.append(LearningReward(settings.gamma, settings.strength))
        elif spec.name == TORCH_REWARD:
            self.made.append(spec.resolve()(settings, behavior, run))
        else:
            return None
        return self.made[-1]
