"""Atari games of ale-py: their scores as they are, and films of what the vectorized form plays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

SCREEN = {"img_height": 210, "img_width": 160, "grayscale": False, "stack_num": 1}


def is_atari(spec: EnvSpec) -> bool:
    return spec.vector_entry_point == "ale_py.vector_env:AtariVectorEnv"


def scored(spec: EnvSpec, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with which rewards are a game's score; ale-py clips them to [-1, 1] by default."""
    return {"reward_clipping": False, **options} if is_atari(spec) else dict(options)


class AtariOnFilm(gymnasium.Env[Any, Any]):
    """One game of the vectorized form, which can be rendered.

    ale-py's single form has other observations, and its vectorized form cannot be rendered. Two vectorized games with
    one seed and the same actions are equal, so a second one shows the whole screen in color.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # every fourth of 60 pictures
    render_mode = "rgb_array"

    def __init__(self, make: Callable[..., Any], options: Mapping[str, Any]) -> None:
        """``make(**options)`` makes the vectorized form with one game."""
        self._game, self._screen = make(**options), make(**{**options, **SCREEN})
        self.observation_space = self._game.single_observation_space
        self.action_space = self._game.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._picture = self._screen.reset(seed=seed)[0]
        return self._game.reset(seed=seed)[0][0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        actions = np.array([action])
        self._picture = self._screen.step(actions)[0]
        observations, rewards, terminated, truncated, _ = self._game.step(actions)
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self) -> Any:
        return self._picture[0, 0].copy()

    def close(self) -> None:
        self._game.close()
        self._screen.close()
