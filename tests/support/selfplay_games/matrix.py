"""One-step games: matrix games, and a sealed contest for two to four teams.

All seats act at once and see nothing but a constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, ObservationSpec
from selfplay_games.base import Array, Game, Role, roles

__all__ = ["BIASED_RPS", "SKEWED_PENNIES", "Contest", "Matrix", "biased_rps", "skewed_pennies"]

# Payoffs of the row player; rock, paper, scissors. Nash (1/16, 10/16, 5/16), value 0. OpenSpiel's matrix_brps / 50.
BIASED_RPS: NDArray[np.float64] = np.array([[0.0, -25.0, 50.0], [25.0, 0.0, -5.0], [-50.0, 5.0, 0.0]]) / 50.0
# Payoffs of the row player. Nash: both play their first action with probability 0.4; value 0.2.
SKEWED_PENNIES: NDArray[np.float64] = np.array([[2.0, -1.0], [-1.0, 1.0]])

CONSTANT = ObservationSpec("constant", (1,), np.float32, low=0.0, high=1.0)


class OneStep(Game):
    """Games of one step, in which all seats act at once."""

    def observe(self, role: Role) -> Array:
        return np.ones((self.num_envs, len(role.seats), 1), np.float32)


class Matrix(OneStep):
    """A two-player zero-sum matrix game: seat 0 chooses a row, seat 1 a column.

    Attributes:
        payoffs: [A, A'] reward of seat 0; that of seat 1 is the negative.
    """

    def __init__(self, num_envs: int, payoffs: NDArray[np.float64], names: Sequence[str] = ("Player",)) -> None:
        """One name is one behavior with teams 0 and 1, for square ``payoffs``; two names are two behaviors."""
        self.payoffs = payoffs
        made = [
            Role(role.name, role.seats, role.teams, CONSTANT, discrete=(payoffs.shape[role.seats[0]],))
            for role in roles(tuple(names), 2, CONSTANT)
        ]
        super().__init__(num_envs, *made)

    def advance(self, actions: Mapping[str, Actions]) -> tuple[Array, Array]:
        row, column = self.choices(actions).T
        reward = self.payoffs[row, column]
        return np.stack([reward, -reward], axis=1), np.True_


def biased_rps(num_envs: int) -> Matrix:
    """Biased rock-paper-scissors: behavior ``Player``, teams 0 and 1, payoffs 25/50/5 divided by 50."""
    return Matrix(num_envs, BIASED_RPS)


def skewed_pennies(num_envs: int) -> Matrix:
    """Skewed matching pennies: behaviors ``Row`` and ``Column``, payoffs as they stand, in [-2, 2]."""
    return Matrix(num_envs, SKEWED_PENNIES, ("Row", "Column"))


class Contest(OneStep):
    """A zero-sum contest of T teams, one behavior: the team that bids most takes the prize.

    Each agent bids 0, 1 or 2. One of the n highest bidders gets 1 / n - 1 / T, any other one -1 / T. So rewards sum to
    zero, and bidding 2 is dominant.
    """

    def __init__(self, num_envs: int, teams: int = 2, name: str = "Player") -> None:
        super().__init__(num_envs, *roles((name,), teams, CONSTANT, discrete=(3,)))

    def advance(self, actions: Mapping[str, Actions]) -> tuple[Array, Array]:
        bids = self.choices(actions)
        best = bids == bids.max(1, keepdims=True)
        return best / best.sum(1, keepdims=True) - 1 / self.seats, np.True_
