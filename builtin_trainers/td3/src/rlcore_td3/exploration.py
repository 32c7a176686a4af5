"""The noise that TD3 and DDPG explore with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import saved_array
from rlcore_td3.settings import ORNSTEIN_UHLENBECK, TD3Settings

__all__ = ["ExplorationNoise"]

FloatArray = NDArray[np.float32]


class ExplorationNoise:
    """Noise on the actions of S agents with C continuous parts: Gaussian, or an Ornstein-Uhlenbeck process for each.

    The process x' = x - theta x dt + sigma sqrt(dt) N(0, 1) (Lillicrap et al. 2016, arXiv:1509.02971, section 7) starts
    at 0 in each episode. Gaussian noise is a process that keeps nothing: x' = sigma N(0, 1).
    """

    def __init__(self, settings: TD3Settings, agents: int, parts: int) -> None:
        keeps = 0.0
        scale = settings.exploration_noise
        if settings.exploration_noise_type == ORNSTEIN_UHLENBECK:
            keeps = 1.0 - settings.ou_theta * settings.ou_dt
            scale *= settings.ou_dt**0.5
        self._keeps = np.float32(keeps)
        self._scale = np.float32(scale)
        self._noise = np.zeros((agents, parts), np.float32)  # [S, C] of the latest step

    def next(self, normal: FloatArray) -> FloatArray:
        """Return the noise [S, C] of the next step, made of standard normal numbers [S, C]."""
        self._noise = self._keeps * self._noise + self._scale * normal
        return self._noise

    def start(self, agents: Any = slice(None)) -> None:
        """Begin a new episode of ``agents``, an index of rows; of all by default."""
        self._noise[agents] = 0.0

    def state_dict(self) -> dict[str, Any]:
        """Return the noise of the latest step."""
        return {"noise": self._noise.copy()}

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raise RunStateError unless the state is of as many agents and parts."""
        saved_array(state, "noise", np.float32, self._noise.shape)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        self._noise = saved_array(state, "noise", np.float32, self._noise.shape).copy()
