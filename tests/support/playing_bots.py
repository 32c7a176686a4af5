"""Logs of simulated players, for tests of ratings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore_ghost.selfplay.elo import EloTable
from rlcore_ghost.selfplay.match_log import MatchLog

WINS = (0, 1)
DRAWS = (0, 0)
LOSSES = (1, 0)


def chance(one: Any, other: Any) -> Any:
    """The closed form of Elo: the chance that a player rated ``one`` beats one rated ``other``."""
    return 1 / (1 + 10 ** ((other - one) / 400))


def rows(*values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def play(log: MatchLog, one: str, other: str, wins: int, losses: int, draws: int = 0, step: int = 1) -> None:
    """Add matches of two players by name; the players sit on both sides by turns."""
    players = [log.player(one), log.player(other)]
    for count, ranks in ((wins, WINS), (losses, LOSSES), (draws, DRAWS)):
        matches = np.tile(players, (count, 1)), np.tile(ranks, (count, 1))
        for seat in (0, 1):
            log.add(step, *(each[seat::2, :: -1 if seat else 1] for each in matches))


def self_play(gains: Sequence[float], games: int = 200, window: int = 10, seed: int = 0) -> tuple[MatchLog, EloTable]:
    """A log of self-play: before each gain, a snapshot is taken; then the learner plays against the newest ones.

    ``gains`` are the rating points that the learner is above the snapshot while it plays.
    """
    rng = np.random.default_rng(seed)
    log = MatchLog(2)
    elo = EloTable()
    log.player("Player")
    elo.add()
    pool: list[tuple[int, float]] = []
    strength = 0.0
    for number, gain in enumerate(gains):
        pool.append((log.player(f"Player@{number * 1000}"), strength))
        elo.add(elo.rating(0))
        strength += gain
        index, strengths = (np.array(each) for each in zip(*pool[-window:], strict=True))
        for batch in range(games // 10):
            drawn = rng.integers(0, len(index), 10)
            players = np.stack((np.zeros(10, np.int64), index[drawn]), 1)
            ranks = np.where((rng.random(10) < chance(strength, strengths[drawn]))[:, None], WINS, LOSSES)
            log.add(number * 1000 + batch, players, ranks)
            elo.update(players, ranks)
    return log, elo
