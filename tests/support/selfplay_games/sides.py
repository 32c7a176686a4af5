"""Two sides that do not meet: each one walks to a goal of its own, as in ML-Agents' tests of its ghost trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, EpisodeSeeds, EpisodeTable, ObservationSpec
from selfplay_games.base import Array, Game, Role, roles

__all__ = ["TwoSides"]


class TwoSides(Game):
    """ML-Agents' ``SimpleEnvironment`` for two sides: each has a position, a goal of -1 or 1, and its own episodes.

    A position starts at 0 and moves by at most ``step_size`` a step, within [-1, 1]. A side's episode ends at -1 or 1
    with the reward 1.06 if that is the goal and -1.06 if not; every other step costs 0.01. The observation is the
    goal. The action is one real number, or with ``discrete`` one of two options: 0 moves left, 1 moves right.

    Since nothing that one side does changes the other, a side whose policy is frozen keeps its return, and each side
    is measured apart. As a whole, a game is never over: its own episode number stays, and sides that begin again count
    on from it. The best return is 1.06 - 0.01 for each step but the last: 1.02 with the default step size.
    """

    state = ("position", "goal", "numbers")

    def __init__(
        self, num_envs: int, names: Sequence[str] = ("Player",), discrete: bool = True, step_size: float = 0.2
    ) -> None:
        """One name is one behavior with teams 0 and 1; two names are two behaviors."""
        self.step_size, self.discrete = step_size, discrete
        self.position: NDArray[np.float64] = np.zeros((num_envs, 2))  # [N, 2]
        self.numbers: NDArray[np.int64] = np.zeros((num_envs, 2), np.int64)  # [N, 2] of each side's episode
        self.goal: NDArray[np.float64] = np.ones((num_envs, 2))  # [N, 2] -1 or 1
        observation = ObservationSpec("goal", (1,), np.float32, low=-1.0, high=1.0)
        acts = {"discrete": (2,)} if discrete else {"continuous": 1}
        super().__init__(num_envs, *roles(tuple(names), 2, observation, **acts))

    def begin(self, begins: NDArray[np.bool_], uniforms: NDArray[np.float64]) -> None:
        self.position[begins] = 0.0
        sides = np.flatnonzero(begins)
        drawn = self._goals(sides, self.numbers.ravel()[sides])[:, 0]
        self.goal[begins] = np.where(drawn < 0.5, -1.0, 1.0)

    def remember_seeds(self, seeds: EpisodeSeeds) -> None:
        super().remember_seeds(seeds)
        self._goals = EpisodeTable(2 * self.num_envs, (1,), self._draw_goals)

    def _draw_goals(self, sides: NDArray[np.int64], blocks: NDArray[np.int64]) -> NDArray[np.float64]:
        firsts = blocks * EpisodeTable.BLOCK
        seeds = [(self.seeds(s // 2, first), s % 2) for s, first in zip(sides.tolist(), firsts.tolist(), strict=True)]
        return np.stack([np.random.default_rng(seed).random((EpisodeTable.BLOCK, 1)) for seed in seeds])

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        self.numbers[:] = episodes[:, None]
        return super().reset(seeds, episodes)

    def over(self, ended: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.zeros(self.num_envs, np.bool_)

    def advance(self, actions: Mapping[str, Actions]) -> tuple[Array, Array]:
        wanted = 2.0 * self.choices(actions) - 1.0 if self.discrete else self.reals(actions)
        moved = self.position + np.clip(wanted, -self.step_size, self.step_size)
        # Steps of 0.2 do not add up to 1 in binary numbers.
        self.position = np.clip(np.round(moved, 6), -1.0, 1.0)
        over = np.abs(self.position) == 1.0
        self.numbers += over
        return np.where(over, 1.06 * self.position * self.goal, -0.01), over

    def observe(self, role: Role) -> Array:
        return self.goal[:, list(role.seats)].astype(np.float32)[..., None]
