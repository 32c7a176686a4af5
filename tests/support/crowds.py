"""Environments that start together, for tests of curricula: short episodes end first."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlcore import Curriculum, EndedEpisodes

NUM_ENVS = 256


def ended_episodes(rows: Any, returns: Any, numbers: Any, settled: int, draw_id: Any, **more: Any) -> EndedEpisodes:
    """Episodes of the environments ``rows`` [K] that ended in one step, of a length of 1 and without group rewards."""
    others = {"values": np.zeros(draw_id.shape), "group_returns": np.zeros(len(rows)), "behavior": "Walker", **more}
    lengths = np.array(others.pop("lengths", np.ones(len(rows))), np.int64)
    told = {"numbers": numbers, "settled": settled, "returns": returns, "draw_id": draw_id}
    return EndedEpisodes(slots=rows, env_index=rows, lengths=lengths, **told, **others)


class Crowd:
    """Environments that start together: a success takes 15 to 30 steps and returns 1, a failure takes 500."""

    def __init__(self, curriculum: Curriculum, success_rate: float, seed: int, behavior: str = "Walker") -> None:
        self.curriculum, self.success_rate, self.behavior = curriculum, success_rate, behavior
        self.random = np.random.default_rng(seed)
        self.env_index = np.arange(NUM_ENVS)
        self.episodes, self.numbers, self.begun = np.zeros(NUM_ENVS, np.int64), self.env_index.copy(), NUM_ENVS
        self.draw_id = curriculum.draw(self.env_index, self.episodes).draw_id
        self.next_draw_id = curriculum.draw(self.env_index, self.episodes + 1).draw_id
        self.success, self.left = self._begin(NUM_ENVS)

    def _begin(self, count: int) -> tuple[Any, Any]:
        success = self.random.random(count) < self.success_rate
        return success, np.where(success, self.random.integers(15, 31, count), 500)

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.left -= 1
            rows = np.flatnonzero(self.left == 0)
            if rows.size:
                self._end(rows)

    def _end(self, rows: Any) -> None:
        told = self.numbers[rows]
        self.numbers[rows] = np.arange(self.begun, self.begun + rows.size)
        self.begun += rows.size
        returns = self.success[rows].astype(float)
        settled = int(self.numbers.min())
        ended = ended_episodes(rows, returns, told, settled, self.draw_id[rows], behavior=self.behavior)
        self.curriculum.episodes_ended(ended)
        self.episodes[rows] += 1
        self.draw_id[rows] = self.next_draw_id[rows]
        self.success[rows], self.left[rows] = self._begin(rows.size)
        env_index = self.env_index if self.curriculum.advance({self.behavior: 0}).redraw else rows
        self.next_draw_id[env_index] = self.curriculum.draw(env_index, self.episodes[env_index] + 1).draw_id
