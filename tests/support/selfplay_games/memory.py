"""A game of hidden information in which memory decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, ObservationSpec
from selfplay_games.base import Array, Game, Role, roles

__all__ = ["Remember"]


class Remember(Game):
    """Two teams each see one of two cues in the first of four steps, and must name it in the last one.

    Actions before the last step do nothing. Whoever names its own cue scores 1, and a seat's reward is its score
    less that of the other seat. Each seat has a cue of its own, so a seat that remembers wins 0.5 on average
    against one without memory, which is right half the time; two alike get 0. NashConv of two seats without memory,
    if the best response may remember, is 1.

    The observation is the cue's indicator (2, all zero after the first step) and the step's indicator (4).
    """

    state = ("cues", "moves")
    draws = 2
    steps = 4

    def __init__(self, num_envs: int, names: Sequence[str] = ("Player",)) -> None:
        """One name is one behavior with teams 0 and 1; two names are two behaviors."""
        self.cues: NDArray[np.int64] = np.zeros((num_envs, 2), np.int64)  # [N, 2]
        self.moves: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N] steps so far
        observation = ObservationSpec("cue", (2 + self.steps,), np.float32, low=0.0, high=1.0)
        super().__init__(num_envs, *roles(tuple(names), 2, observation, discrete=(2,)))

    def begin(self, envs: NDArray[np.bool_], uniforms: NDArray[np.float64]) -> None:
        self.cues[envs], self.moves[envs] = uniforms[envs] < 0.5, 0

    def advance(self, actions: Mapping[str, Actions]) -> tuple[Array, Array]:
        self.moves += 1
        over = self.moves == self.steps
        right = (self.choices(actions) == self.cues).astype(np.float64)
        return np.where(over[:, None], right - right[:, ::-1], 0.0), over

    def observe(self, role: Role) -> Array:
        seats = np.array(role.seats)
        seen = np.zeros((self.num_envs, len(seats), 2 + self.steps), np.float32)
        seen[:, :, :2] = np.eye(2)[self.cues[:, seats]] * (self.moves == 0)[:, None, None]
        seen[:, :, 2:] = np.eye(self.steps)[np.minimum(self.moves, self.steps - 1)][:, None]
        return seen
