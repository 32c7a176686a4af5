"""A policy whose scores are linear, and a trainer that moves them toward the choices that were rewarded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import attrs
from numpy.typing import NDArray
from rlcore.config import BehaviorSettings, setting
from rlcore.environment import Actions, AgentBatch, BehaviorSpec
from rlcore.errors import RunStateError
from rlcore.rewards import Transitions

if TYPE_CHECKING:
    from rlcore.run import RunContext

Array = NDArray[np.float64]

@attrs.frozen(kw_only=True)
class OldTrainerSettings:
    buffer_size: int = setting(512, "Agent steps before an update.", minimum=1)


class LinearPolicy:
    def __init__(self, behavior: BehaviorSpec) -> None:
        self.name = behavior.observations[0].name
        self.weights = np.zeros((behavior.observations[0].size, behavior.mask_size))
        self.seed(0)

    def act(self, observations: Any, action_mask: Any = None, deterministic: bool = True) -> Actions:
        scores = observations[self.name] @ self.weights
        if not deterministic:
            scores += self._generator.gumbel(size=scores.shape)
        return Actions(discrete=scores.argmax(axis=1, keepdims=True))

    def seed(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)


class OldTrainer:
    def __init__(self, behavior: BehaviorSpec, settings: BehaviorSettings, run: RunContext) -> None:
        self.policy = LinearPolicy(behavior)
        self.buffer_size, self.slots = settings.hyperparameters.buffer_size, behavior.slots
        self.value = np.zeros(len(self.policy.weights))
        self.steps = self.open = 0
        self.rewards = run.create_reward_providers(behavior, settings)
        self.ahead: Array = np.zeros((self.slots, len(self.value)))  # [S, F] features after the last row

    # ------------------------------------------------------------ collecting

    def begin(self, batch: AgentBatch) -> None:
        self.open = 0

    def act(self, batch: AgentBatch) -> Actions:
        self.seen = {name: array.copy() for name, array in batch.observations.items()}
        return self.policy.act(self.seen, deterministic=False)

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        transitions = Transitions(
            self.seen, actions, batch.reward, batch.terminated, batch.truncated, batch.group_reward
        )
        reward = np.zeros(self.slots)
        for provider in self.rewards:
            reward += provider.strength * np.asarray(provider.evaluate(transitions), np.float64)
        chosen = np.eye(self.policy.weights.shape[1])[actions.discrete[:, 0]] * reward[:, None]
        self.policy.weights += 1e-3 * self.seen[self.policy.name].T @ chosen
        self.steps += self.slots
        self.open += self.slots

    def ready(self) -> bool:
        return self.open >= self.buffer_size

    def update(self) -> Mapping[str, float]:
        self.open = 0
        return {"Policy/Weight": float(np.abs(self.policy.weights).mean())}

    def state_dict(self) -> dict[str, Any]:
        return {"model": {"policy": self.policy.weights.copy()}, "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.load_model(state["model"])
        self.steps = state["steps"]

    def load_model(self, model: Mapping[str, Any]) -> None:
        if model["policy"].shape != self.policy.weights.shape:
            raise RunStateError("the saved policy has another shape")
        self.policy.weights = np.array(model["policy"])
