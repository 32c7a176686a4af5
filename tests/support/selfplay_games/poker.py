"""Kuhn poker for two or three players, with the observations of OpenSpiel's ``kuhn_poker``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, ObservationSpec
from selfplay_games.base import Array, Game, Role, roles

__all__ = ["Kuhn"]


class Kuhn(Game):
    """Kuhn poker: P players put 1 into the pot and get one card each of a deck of P + 1; the highest one wins.

    In turn each player passes (0) or bets 1 (1). If there is no bet within one round, the cards are shown. After the
    first bet each other player, in turn, passes (folds) or bets (calls) once, then those who bet show their cards.
    Rewards are won or lost chips.

    The observation is OpenSpiel's information state tensor: seat (P), own card (P + 1), and pass or bet of each
    move so far (2 for each of 2 P - 1 moves).
    """

    state = ("cards", "history", "moves", "first_bet")

    def __init__(self, num_envs: int, players: int = 2, names: Sequence[str] = ("Player",)) -> None:
        """One name is one behavior with a team for each player; as many names as players are a behavior each."""
        self.players = players
        self.most_moves = 2 * players - 1
        size = players + (players + 1) + 2 * self.most_moves
        observation = ObservationSpec("information", (size,), np.float32, low=0.0, high=1.0)
        self.cards: NDArray[np.int64] = np.zeros((num_envs, players), np.int64)  # [N, P]
        self.history: NDArray[np.int64] = np.full((num_envs, self.most_moves), -1)  # [N, moves] 0, 1; -1: not yet
        self.moves: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N] moves so far
        self.first_bet: NDArray[np.int64] = np.full(num_envs, -1)  # [N] move of the first bet; -1: none
        super().__init__(num_envs, *roles(tuple(names), players, observation, discrete=(2,)))

    @property
    def draws(self) -> int:  # type: ignore[override]
        """One number for each card of the deck."""
        return self.players + 1

    def begin(self, envs: NDArray[np.bool_], uniforms: NDArray[np.float64]) -> None:
        self.cards[envs] = uniforms[envs].argsort(axis=1)[:, : self.players]
        self.history[envs], self.moves[envs], self.first_bet[envs] = -1, 0, -1

    def advance(self, actions: Mapping[str, Actions]) -> tuple[Array, Array]:
        envs = np.arange(self.num_envs)
        move = self.choices(actions)[envs, self.moves % self.players]
        self.history[envs, self.moves] = move
        self.first_bet = np.where((move == 1) & (self.first_bet < 0), self.moves, self.first_bet)
        self.moves += 1
        quiet = self.first_bet < 0
        over = self.moves == np.where(quiet, self.players, self.first_bet + self.players)
        bets = np.zeros((self.num_envs, self.players), np.bool_)
        for number in range(self.most_moves):  # at most 5
            bets[:, number % self.players] |= self.history[:, number] == 1
        contribution = 1.0 + bets
        contenders = bets | quiet[:, None]
        winner = np.where(contenders, self.cards, -1).argmax(axis=1)
        reward = -contribution
        reward[envs, winner] += contribution.sum(axis=1)
        return np.where(over[:, None], reward, 0.0), over

    def observe(self, role: Role) -> Array:
        seats = np.array(role.seats)
        seen = np.zeros((self.num_envs, len(seats), *role.observation.shape), np.float32)
        seen[:, :, : self.players] = np.eye(self.players)[seats]
        seen[:, :, self.players : 2 * self.players + 1] = np.eye(self.players + 1)[self.cards[:, seats]]
        moves = self.history[:, :, None] == np.arange(2)
        seen[:, :, 2 * self.players + 1 :] = moves.reshape(self.num_envs, 1, -1)
        return seen

    def acts(self) -> NDArray[np.bool_]:
        return np.arange(self.players) == (self.moves % self.players)[:, None]

    def allowed(self, role: Role) -> NDArray[np.bool_]:
        return np.ones((self.num_envs, len(role.seats), 2), np.bool_)
