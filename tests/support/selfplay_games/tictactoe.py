"""Tic-tac-toe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, ObservationSpec
from selfplay_games.base import Array, Game, Role, roles

__all__ = ["LINES", "TicTacToe", "seen_by"]

# [8, 9] the cells of each line
LINES: NDArray[np.bool_] = np.zeros((8, 9), np.bool_)
for _line, _cells in enumerate(
    [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
):
    LINES[_line, list(_cells)] = True


def seen_by(board: Array, seat: Array) -> Array:
    """Return what ``seat`` [...] sees of ``board`` [..., 9], 1 for X and -1 for O: [..., 27].

    These are 9 numbers each for own, other and empty cells.
    """
    own = np.where(np.asarray(seat)[..., None] == 0, 1, -1)
    return np.concatenate([board == own, board == -own, board == 0], axis=-1).astype(np.float32)


class TicTacToe(Game):
    """Tic-tac-toe: seat 0 plays X and begins, seat 1 plays O; 1 for three in a line, -1 for the other, 0 for a draw.

    An action is a cell, row by row. An agent sees its own, the other's and the empty cells, so one behavior can play
    both seats.
    """

    state = ("board", "moves")

    def __init__(self, num_envs: int, names: Sequence[str] = ("Player",)) -> None:
        """One name is one behavior with teams 0 and 1; two names are two behaviors."""
        self.board: NDArray[np.int64] = np.zeros((num_envs, 9), np.int64)  # [N, 9] 1 is X, -1 is O
        self.moves: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N] moves so far
        observation = ObservationSpec("board", (27,), np.float32, low=0.0, high=1.0)
        super().__init__(num_envs, *roles(tuple(names), 2, observation, discrete=(9,)))

    def begin(self, envs: NDArray[np.bool_], uniforms: NDArray[np.float64]) -> None:
        self.board[envs], self.moves[envs] = 0, 0

    def advance(self, actions: Mapping[str, Actions]) -> tuple[Array, Array]:
        envs, mover = np.arange(self.num_envs), self.moves % 2
        mark = 1 - 2 * mover
        self.board[envs, self.choices(actions)[envs, mover]] = mark
        self.moves += 1
        won = ((self.board == mark[:, None]) @ LINES.T.astype(np.int64) == 3).any(axis=1)
        score = np.where(won, mark, 0)
        return np.stack([score, -score], axis=1), won | (self.moves == 9)

    def observe(self, role: Role) -> Array:
        seats = np.array(role.seats)
        boards = np.repeat(self.board[:, None], len(seats), axis=1)
        return seen_by(boards, np.broadcast_to(seats, boards.shape[:2]))

    def acts(self) -> NDArray[np.bool_]:
        return np.arange(2) == (self.moves % 2)[:, None]

    def allowed(self, role: Role) -> NDArray[np.bool_]:
        return np.repeat((self.board == 0)[:, None], len(role.seats), axis=1)
