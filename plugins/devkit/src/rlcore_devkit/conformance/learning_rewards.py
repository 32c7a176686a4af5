"""Reward providers that learn, for tests of trainers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import BehaviorSpec, RewardProviderSpec, RewardSettings, Transitions, hookimpl


def recording() -> bool | None:
    """Whether PyTorch records gradients now; None without PyTorch."""
    # Not imported: a trainer may need no PyTorch.
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    return bool(torch.is_grad_enabled())


class LearningReward:
    """The environment's reward, weighted by the number of updates of this provider.

    ``evaluate`` and ``update`` rely on the mode of recording gradients that :class:`rlcore.RewardProvider` promises.
    """

    name = "learning"
    ignore_done = False
    TAG = "Losses/Learning Reward"

    def __init__(self, gamma: float, strength: float, observations: Sequence[str]) -> None:
        self.gamma = gamma
        self.strength = strength
        self.observations = observations  # names of those of the agents, to which a trainer may add its own
        self.rewarded = 0
        self.updates = 0
        self.collected: list[tuple[int, bytes]] = []  # slot and observations of each transition, in the order of time

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        assert recording() is not True, "evaluate() is called with torch.no_grad; see rlcore.RewardProvider"
        self.rewarded += transitions.reward.size
        # A reward that changes with each update shows whether its state is restored.
        factor = np.float32(1 + self.updates / 10)
        return transitions.reward * factor

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        assert recording() is not False, "update() is called with torch.enable_grad; see rlcore.RewardProvider"
        assert transitions.reward.size, "update() received no transitions"
        self._remember(transitions.collected)
        self.updates += 1
        return {self.TAG: float(self.updates)}

    def _remember(self, collected: Transitions | None) -> None:
        if collected is None:
            return
        count = collected.reward.size
        columns = []
        for name in self.observations:
            observations = collected.observations[name]
            columns.append(observations.reshape(count, -1))
        for positions, slots in collected.by_time():
            for position, slot in zip(positions, slots, strict=True):
                parts = [column[position].tobytes() for column in columns]
                content = b"".join(parts)
                self.collected.append((int(slot), content))

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.updates = int(state["updates"])


class LearningRewards:
    """A plugin with one kind of reward, by default :class:`LearningReward`; ``made`` has the created objects."""

    def __init__(self, reward: type[Any] = LearningReward, **options: Any) -> None:
        self.reward = reward
        self.options = options
        self.made: list[Any] = []

    @hookimpl
    def rlcore_reward_providers(self) -> list[RewardProviderSpec]:
        return [
            RewardProviderSpec(
                name=self.reward.name,
                target=f"{self.reward.__module__}:{self.reward.__name__}",
                settings="rlcore.settings:RewardSettings",
                summary="A reward of a test",
            )
        ]

    @hookimpl
    def rlcore_create_reward_provider(
        self, spec: RewardProviderSpec, settings: RewardSettings, behavior: BehaviorSpec
    ) -> Any:
        if spec.name != self.reward.name:
            return None
        names = [observation.name for observation in behavior.observations]
        reward = self.reward(settings.gamma, settings.strength, names, **self.options)
        self.made.append(reward)
        return reward
