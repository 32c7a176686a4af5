"""A ball on a small pitch: games of the shape of ML-Agents' SoccerTwos and StrikersVsGoalie."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, ObservationSpec
from selfplay_games.base import Array, Game, Role

__all__ = ["Pitch", "soccer_twos", "strikers_vs_goalie"]

LENGTH, WIDTH, GOAL = 2.0, 1.0, 0.5  # half the length and width of the pitch, and half the width of a goal
SPEED, KICK, REACH, ROLL = 0.15, 0.35, 0.3, 0.9  # a step's run, a kick, how far a foot reaches, how a ball slows down
TURN = np.pi / 6


class Pitch(Game):
    """Two teams kick a ball into each other's goal. Each agent runs forward or back, sideways, and turns.

    An action has the three branches [3, 3, 3] of SoccerTwos: nothing, forward or back; nothing, right or left;
    nothing, turn left or right. An agent near the ball kicks it where it looks. A goal ends the game, and so does the
    last step, which the agents see coming: that is the rule of the game and no interruption.

    The group reward of a goal is 1 less the share of the time that has gone for the team that scored, and -1 for the
    other one. Without a goal it is 0 for both, or with ``goalie`` -1 for team 0 and 1 for team 1. Rewards of single
    agents are 0.

    An agent sees the pitch as if its team played to the right: its own place and direction, the ball and its speed, all
    other agents from the nearest mate to the opponents (as seats are numbered), and the time left.
    """

    state = ("place", "heading", "ball", "velocity", "moves")

    def __init__(
        self, num_envs: int, teams: tuple[str, ...], sizes: tuple[int, int], steps: int = 100, goalie: bool = False
    ) -> None:
        """``teams`` names one behavior for both teams, or one for each; ``sizes`` are the agents of a team."""
        self.sizes, self.steps, self.goalie = sizes, steps, goalie
        count = sum(sizes)
        self.team: NDArray[np.int64] = np.repeat([0, 1], sizes)  # [P]
        self.side: NDArray[np.float64] = np.where(self.team == 0, 1.0, -1.0)  # [P] where the team plays to
        self.place: NDArray[np.float64] = np.zeros((num_envs, count, 2))  # [N, P, 2]
        self.heading: NDArray[np.float64] = np.zeros((num_envs, count))  # [N, P] radians
        self.ball: NDArray[np.float64] = np.zeros((num_envs, 2))  # [N, 2]
        self.velocity: NDArray[np.float64] = np.zeros((num_envs, 2))  # [N, 2]
        self.moves: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N] steps so far
        self._shared: NDArray[np.float64] = np.zeros((num_envs, count))  # [N, P] of the last step
        self._order = np.array([self._seen_from(seat) for seat in range(count)])  # [P, P - 1]
        self.draws = 2 * count + 2  # type: ignore[misc]
        observation = ObservationSpec("pitch", (9 + 2 * (count - 1),), np.float32)
        parts = [(teams[0], np.arange(count))] if len(teams) == 1 else [
            (name, np.flatnonzero(self.team == team)) for team, name in enumerate(teams)
        ]  # fmt: skip
        made = [
            Role(
                name,
                tuple(seats.tolist()),
                tuple(self.team[seats].tolist()),
                observation,
                discrete=(3, 3, 3),
                shared=True,
            )
            for name, seats in parts
        ]
        super().__init__(num_envs, *made)

    def _seen_from(self, seat: int) -> list[int]:
        """The other seats, mates first."""
        others = [other for other in range(len(self.team)) if other != seat]
        return sorted(others, key=lambda other: self.team[other] != self.team[seat])

    def begin(self, begins: NDArray[np.bool_], uniforms: NDArray[np.float64]) -> None:
        envs = begins[:, 0]
        count = len(self.team)
        drawn = uniforms[envs]
        depth = 0.3 + 0.4 * drawn[:, :count]
        if self.goalie:
            depth = np.where(self.team == 1, 0.95, depth)
        self.place[envs, :, 0] = -self.side * LENGTH * depth
        self.place[envs, :, 1] = WIDTH * (2 * drawn[:, count : 2 * count] - 1) * 0.8
        self.heading[envs] = np.where(self.side > 0, 0.0, np.pi)
        self.ball[envs] = (2 * drawn[:, 2 * count :] - 1) * 0.2
        self.velocity[envs], self.moves[envs] = 0.0, 0

    def advance(self, actions: Mapping[str, Actions]) -> tuple[Array, Array]:
        chosen = self.branches(actions)
        signs = np.array([0.0, 1.0, -1.0])
        ahead, aside, turn = np.moveaxis(signs[chosen], 2, 0)
        self.heading = np.remainder(self.heading + TURN * turn + np.pi, 2 * np.pi) - np.pi
        forward = np.stack([np.cos(self.heading), np.sin(self.heading)], axis=2)
        right = np.stack([forward[..., 1], -forward[..., 0]], axis=2)
        self.place += SPEED * (ahead[..., None] * forward + aside[..., None] * right)
        np.clip(self.place, (-LENGTH, -WIDTH), (LENGTH, WIDTH), out=self.place)
        near = np.linalg.norm(self.place - self.ball[:, None], axis=2) < REACH
        kicks = (forward * near[..., None]).sum(1) / np.maximum(near.sum(1), 1)[:, None]
        self.velocity = ROLL * np.where(near.any(1)[:, None], KICK * kicks, self.velocity)
        self.ball += self.velocity
        wide = np.abs(self.ball[:, 1]) > WIDTH
        self.velocity[wide, 1] *= -1
        beyond = np.abs(self.ball[:, 0]) >= LENGTH
        scores = beyond & (np.abs(self.ball[:, 1]) <= GOAL)
        self.velocity[beyond & ~scores, 0] *= -1
        scorer = np.where(scores, np.sign(self.ball[:, 0]), 0.0)  # [N] 1: team 0 has scored
        np.clip(self.ball, (-LENGTH, -WIDTH), (LENGTH, WIDTH), out=self.ball)
        self.moves += 1
        late = self.moves >= self.steps
        wins = scorer[:, None] * self.side
        self._shared = np.where(wins > 0, 1.0 - (self.moves / self.steps)[:, None], np.where(wins < 0, -1.0, 0.0))
        if self.goalie:
            self._shared = np.where((late & ~scores)[:, None], -self.side, self._shared)
        return np.zeros(()), (scores | late)[:, None]

    def group_reward(self) -> Array:
        return self._shared

    def branches(self, actions: Mapping[str, Actions]) -> NDArray[np.int64]:
        """Return all branches of the actions of all seats, [N, P, 3]."""
        chosen = np.empty((self.num_envs, self.seats, 3), np.int64)
        for role in self.roles:
            discrete = actions[role.name].discrete
            assert discrete is not None
            chosen[:, list(role.seats)] = discrete.reshape(self.num_envs, len(role.seats), 3)
        return chosen

    def observe(self, role: Role) -> Array:
        seats = np.array(role.seats)
        side = self.side[seats][None, :, None]  # turned by half a circle for the team that plays to the left
        own = self.place[:, seats] * side
        looks = np.stack([np.cos(self.heading[:, seats]), np.sin(self.heading[:, seats])], axis=2) * side
        ball, speed = self.ball[:, None] * side - own, self.velocity[:, None] * side
        others = self.place[:, self._order[seats]] * side[..., None] - own[:, :, None]
        left = np.broadcast_to((1.0 - self.moves / self.steps)[:, None, None], (*own.shape[:2], 1))
        flat = others.reshape(*own.shape[:2], -1)
        return np.concatenate([own, looks, ball, speed, flat, left], axis=2).astype(np.float32)


def soccer_twos(num_envs: int, steps: int = 100) -> Pitch:
    """SoccerTwos' shape: behavior ``SoccerTwos``, two teams of two, group rewards."""
    return Pitch(num_envs, ("SoccerTwos",), (2, 2), steps)


def strikers_vs_goalie(num_envs: int, steps: int = 60) -> Pitch:
    """StrikersVsGoalie's shape: behaviors ``Striker`` (two agents, team 0) and ``Goalie`` (one, team 1)."""
    return Pitch(num_envs, ("Striker", "Goalie"), (2, 1), steps, goalie=True)
