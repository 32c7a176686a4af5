"""Live Elo with an estimated advantage of each team."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore import SavedValueError
from rlcore_ghost.selfplay.elo import EloTable, expected_score

ONE, OTHER = 0, 1
BETTER = 190.0  # points of the first team over the second one


def table(sides: tuple[int, ...], players: int = 2, k: float = 16.0) -> EloTable:
    made = EloTable(1200.0, k, sides)
    for player in range(players):
        made.add(player)
    return made


def block(elo: EloTable, seats: tuple[int, int], share: float, games: int, seed: int) -> None:
    """Games one by one of the players in ``seats``, of which the first team wins this share in the mean."""
    won = np.random.default_rng(seed).random(games) < share
    for first in won:
        elo.update(np.array([seats]), np.array([[0, 1] if first else [1, 0]]))


def swings(sides: tuple[int, ...]) -> tuple[EloTable, float]:
    """Two equal players that change teams every 200 games; the mean difference of their ratings before a change."""
    elo, found = table(sides), []
    for number in range(60):
        seats = (ONE, OTHER) if number % 2 == 0 else (OTHER, ONE)
        block(elo, seats, expected_score(BETTER), 200, number)
        if number >= 20:
            found.append(abs(elo.rating(ONE) - elo.rating(OTHER)))
    return elo, float(np.mean(found))


def test_equal_players_stay_equal_where_a_team_has_an_advantage() -> None:
    without, swing = swings(())
    assert swing > 0.8 * BETTER  # the rating follows the team
    assert not len(without.advantages)
    elo, swing = swings((0, 0))
    assert swing < 0.3 * BETTER  # that of single games, with K = 16
    assert elo.advantages[0] - elo.advantages[1] == pytest.approx(BETTER, abs=60)


def test_without_an_advantage_none_is_found() -> None:
    elo = table((0, 0))
    for number in range(60):
        block(elo, (ONE, OTHER) if number % 2 == 0 else (OTHER, ONE), expected_score(0.0), 100, number)
    assert abs(elo.advantages[0] - elo.advantages[1]) < 60


@pytest.mark.parametrize("sides", [(0, 0), (0, 0, 0), (0, 0, 1), (0, 1, 0, 1)])
@pytest.mark.parametrize("matches", [1, 500])
def test_ratings_and_the_advantages_of_each_side_keep_their_sums(sides: tuple[int, ...], matches: int) -> None:
    rng, elo = np.random.default_rng(0), table(sides, 5)
    for _ in range(20):
        players = rng.permuted(np.tile(np.arange(5), (matches, 1)), axis=1)[:, : len(sides)]
        elo.update(players, rng.integers(0, len(sides), players.shape))
    assert sum(elo.rating(player) for player in range(5)) == pytest.approx(5 * 1200)
    for side in set(sides):
        assert elo.advantages[np.array(sides) == side].sum() == pytest.approx(0, abs=1e-9)
    assert np.abs(elo.advantages).max() > 0


def test_one_match_moves_both_by_the_formula() -> None:
    """K = 16 and a quarter of it; the second match of the same seats expects what the first one taught."""
    elo, rating, advantage = table((0, 0)), 1200.0, 0.0
    for _ in range(3):
        surprise = 1 - 1 / (1 + 10 ** (-(2 * (rating - 1200.0) + 2 * advantage) / 400))
        rating, advantage = rating + 16 * surprise, advantage + 4 * surprise
        elo.update(np.array([[ONE, OTHER]]), np.array([[0, 1]]))
        assert elo.rating(ONE) == pytest.approx(rating) and elo.rating(OTHER) == pytest.approx(2400 - rating)
        assert elo.advantages == pytest.approx([advantage, -advantage])


def test_teams_of_different_sides_have_no_advantage_over_each_other() -> None:
    """Who is better, the striker or its team? Only the players can be rated."""
    apart, plain = table((0, 1)), table(())
    for elo in (apart, plain):
        block(elo, (ONE, OTHER), 0.8, 50, 1)
    assert apart.rating(ONE) == pytest.approx(plain.rating(ONE))
    assert apart.advantages.tolist() == [0.0, 0.0]


def test_a_player_against_itself_teaches_nothing() -> None:
    elo = table((0, 0))
    block(elo, (ONE, ONE), 1.0, 10, 1)
    assert (elo.rating(ONE), *elo.advantages) == (1200.0, 0.0, 0.0)


def test_advantages_are_part_of_the_state() -> None:
    elo, same = table((0, 0)), table((0, 0))
    block(elo, (ONE, OTHER), 0.8, 50, 1)
    same.load_state_dict(elo.state_dict())
    for each in (elo, same):
        block(each, (OTHER, ONE), 0.8, 50, 2)
    assert same.advantages.tolist() == elo.advantages.tolist() and same.rating(0) == elo.rating(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"advantages": np.zeros(3)}, "advantages of 3 teams, not of 2; resume with the elo_advantage"),
        ({"advantages": np.array([np.nan, 0.0])}, "'advantages' has a number that is not"),
        ({"ratings": np.array([np.nan, 0.0])}, "'ratings' has a number that is not"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change: Any, message: str) -> None:
    elo = table((0, 0))
    block(elo, (ONE, OTHER), 0.8, 50, 1)
    before = elo.advantages.copy(), elo.rating(0)
    with pytest.raises(SavedValueError, match=message):
        elo.load_state_dict({**table((0, 0)).state_dict(), **change})
    assert (elo.advantages == before[0]).all() and elo.rating(0) == before[1]
