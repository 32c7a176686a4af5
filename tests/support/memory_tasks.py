"""Tasks that no policy without memory can solve: a cue to remember, and a pole whose velocities are hidden."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

SHOWN = 2  # steps in which the cue can be seen
SIDE = 20  # pixels


class Cue(gymnasium.Env[Any, Any]):
    """One of two cues is shown in the first two steps. The action of the last step earns 1 if it names it, else -1.

    An episode has 6 to 12 steps; only the last one shows the question. Without memory the best mean return is 0.
    """

    action_space = spaces.Discrete(2)

    def __init__(self, image: bool = False) -> None:
        self.image = image
        self.observation_space = (
            spaces.Box(0, 255, (SIDE, SIDE, 1), np.uint8) if image else spaces.Box(-1.0, 1.0, (2,), np.float32)
        )
        self.cue = self.step_number = self.length = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cue = int(self.np_random.integers(2))
        self.length = int(self.np_random.integers(6, 13))
        self.step_number = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.step_number += 1
        ended = self.step_number == self.length
        reward = (1.0 if action == self.cue else -1.0) if ended else 0.0
        return self._observation(), reward, ended, False, {}

    def _observation(self) -> Any:
        cue = 2 * self.cue - 1 if self.step_number < SHOWN else 0
        asked = self.step_number == self.length - 1
        if not self.image:
            return np.array([cue, asked], np.float32)
        picture = np.zeros((SIDE, SIDE, 1), np.uint8)
        if cue:
            half = slice(0, SIDE // 2) if cue > 0 else slice(SIDE // 2, SIDE)
            picture[:, half] = 255
        if asked:
            picture[SIDE // 2 :] = 128
        return picture


class HiddenVelocities(gymnasium.ObservationWrapper[Any, Any, Any]):
    """CartPole of which only positions are seen: that of the cart, and the angle of the pole."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        low = self.env.observation_space.low
        high = self.env.observation_space.high
        self.observation_space = spaces.Box(low[::2], high[::2], dtype=np.float32)

    def observation(self, observation: Any) -> Any:
        return observation[::2]


TASKS: dict[str, Callable[..., gymnasium.Env[Any, Any]]] = {
    "Cue-v0": Cue,
    "CueImage-v0": partial(Cue, image=True),
    "HiddenVelocities-v0": HiddenVelocities,
}
