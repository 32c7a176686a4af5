"""Reward providers that learn, for tests of trainers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import RewardProviderSpec, RewardSettings, Transitions, hookimpl


def recording() -> bool | None:
    """Whether PyTorch records gradients now; None without PyTorch."""
    torch = sys.modules.get("torch")
    return None if torch is None else bool(torch.is_grad_enabled())


class LearningReward:
    """The environment's reward, weighted by the number of updates of this provider.

    ``evaluate`` and ``update`` rely on the mode of recording gradients that :class:`rlcore.RewardProvider` promises.
    """

    name = "learning"
    ignore_done = False
    TAG = "Losses/Learning Reward"

    def __init__(self, gamma: float, strength: float) -> None:
        self.gamma = gamma
        self.strength = strength
        self.rewarded = 0
        self.updates = 0

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        assert recording() is not True, "evaluate() is called with torch.no_grad; see rlcore.RewardProvider"
        self.rewarded += transitions.reward.size
        return transitions.reward * np.float32(1 + self.updates / 10)

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        assert recording() is not False, "update() is called with torch.enable_grad; see rlcore.RewardProvider"
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
            )
        ]

    @hookimpl
    def rlcore_create_reward_provider(self, spec: RewardProviderSpec, settings: RewardSettings) -> Any:
        if spec.name != LearningReward.name:
            return None
        self.made.append(LearningReward(settings.gamma, settings.strength))
        return self.made[-1]
