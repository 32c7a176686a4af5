"""A shaped reward that changes how fast a policy is learned, and not which policy is best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from acme_rl.plugin import REWARD
from rlcore import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from acme_rl.settings import CenteredSettings
    from rlcore import BehaviorSpec, ObservationSpec, RunContext, Transitions


class CenteredReward:
    """Potential-based shaping (Ng, Harada and Russell 1999): ``gamma * potential(next) - potential(now)``.

    The potential of an observation is minus the weighted distance of its elements from 0. A terminal state has
    potential 0, so the discounted sum of an episode depends on its first observation only. A truncated episode would
    have continued: the potential of its final observation counts.
    """

    name = REWARD
    ignore_done = False

    def __init__(self, settings: CenteredSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        self.gamma = settings.gamma
        self.strength = settings.strength
        self.weights = np.array(settings.weights, np.float32)
        self.observation = self.chosen(settings, behavior).name

    def chosen(self, settings: CenteredSettings, behavior: BehaviorSpec) -> ObservationSpec:
        """Return the observation of the settings, or the only vector."""
        key = ("behaviors", behavior.name, "reward_signals", REWARD)
        vectors = {spec.name: spec for spec in behavior.observations if spec.kind == "vector"}
        name = settings.observation
        if name is None and len(vectors) == 1:
            (name,) = vectors
        if name not in vectors:
            problem = f"must be one of {', '.join(vectors)}" if vectors else "there is no vector observation"
            raise ConfigError(problem, key=(*key, "observation"))
        (size,) = vectors[name].shape
        if len(settings.weights) != size:
            raise ConfigError(f"needs {size} numbers, one for each element of {name!r}", key=(*key, "weights"))
        return vectors[name]

    def potential(self, observations: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return minus the weighted distance from 0, [*L]."""
        distance: NDArray[np.float32] = np.abs(observations[self.observation]) @ self.weights
        return -distance

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        before = self.potential(transitions.observations)
        after = self.potential(transitions.next_observations)
        after = np.where(transitions.terminated, 0.0, after)
        return np.asarray(self.gamma * after - before, np.float32)

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Do nothing: the reward learns nothing."""
