"""Episodes against an opponent in environments that hold several games, which nothing tells apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from table_game import Always

from rlcore.contracts.batches import Actions, AgentBatch
from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationSpec
from rlcore.run.evaluation.episodes import PlayedEnvironment, play, shares
from rlcore_ghost import Match

# the options that the two policies always take
LEARNED = 1
OTHER = 0
NEVER = 10**9
ONE = {"Agent": (0, 1)}
TWO = {"Goalie": (1,), "Striker": (0,)}


class Fields:
    """N players with the same fields of two agents in each of two teams; a field's episodes take ``lengths`` steps.

    The team with more of option 1 gets 1 at the end, the other one -1, each agent or its group; an agent gets its
    option for each step beside. ``dies``: the second agent of each team ends after the first step, and waits for the
    next episode. ``empty`` fields have places and no agents. All agents of player 0 are lost in step ``lost``.
    ``games`` is the log: player, field, number, and the team that took option 1, or -1 for both or none.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        behaviors: Mapping[str, tuple[int, ...]] = ONE,
        grouped: bool = True,
        *,
        num_envs: int = 1,
        dies: bool = False,
        empty: Sequence[int] = (),
        lost: int = -1,
    ) -> None:
        fields = len(lengths)
        self.num_envs, self.grouped, self.dies, self.lost = num_envs, grouped, dies, lost
        self.lengths = np.tile(np.array(lengths), num_envs)  # [N * F]
        field = np.repeat(np.arange(num_envs * fields), 4)
        self.env, self.field = field // fields, field
        self.team = np.tile([0, 0, 1, 1], num_envs * fields)
        self.there = ~np.isin(field % fields, empty)
        self.slots = {name: np.flatnonzero(np.isin(self.team, teams)) for name, teams in behaviors.items()}
        seen = (ObservationSpec("seen", (1,), np.float32),)
        self.behaviors: Mapping[str, BehaviorSpec] = {
            name: BehaviorSpec(
                name, seen, discrete=(2,), env_index=self.env[slots], team=self.team[slots],
                group=(2 * field + self.team)[slots] if grouped else None, many_games=True,
            )
            for name, slots in self.slots.items()
        }  # fmt: skip
        self.episodes = np.zeros(num_envs, np.int64)
        self.steps = np.zeros(len(self.lengths), np.int64)
        self.number = np.zeros(len(self.lengths), np.int64)
        self.taken = 0
        self.games: dict[tuple[int, int, int], int] = {}

    def reset(self, seeds: Any, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        self.episodes = np.array(episodes, np.int64)
        self.steps[:] = 0
        none = np.zeros(len(self.field), np.bool_)
        return self.batches(np.zeros(len(none), np.float32), np.zeros(len(none), np.float32), none, none)

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        chosen = np.zeros(len(self.field), np.int64)
        for name, slots in self.slots.items():
            option = actions[name].discrete
            assert option is not None
            chosen[slots] = option[:, 0]
        acted = self.acts()
        chosen[~acted] = 0
        self.steps += 1
        self.taken += 1
        aborted = self.there & (self.env == 0) & (self.taken == self.lost)
        over = self.steps >= self.lengths
        over[self.field[aborted]] = False
        ended = self.there & over[self.field] & (~self.waits() | (self.steps[self.field] == 1))
        died = self.there & self.waits() & (self.steps[self.field] == 1) & ~aborted
        totals = np.zeros((len(self.lengths), 2), np.int64)
        np.add.at(totals, (self.field, self.team), chosen)
        lead = np.sign(totals[:, 0] - totals[:, 1])[self.field] * np.where(self.team == 0, 1, -1)
        for field in np.flatnonzero(over).tolist():
            team = -1 if (totals[field] > 0).sum() != 1 else int(totals[field].argmax())
            env, place = divmod(field, len(self.lengths) // self.num_envs)
            self.games[env, place, int(self.number[field])] = team
        self.steps[over] = 0
        self.number[over] += 1
        self.steps[self.field[aborted]] = 0
        began = np.unique(self.env[ended | died | aborted])
        self.episodes[began] += 1  # as a Unity player's: when any agent ends
        return self.batches(
            chosen.astype(np.float32), np.where(ended, lead, 0).astype(np.float32), ended | died, aborted
        )

    def waits(self) -> NDArray[np.bool_]:
        """[S] the agents that end after the first step."""
        return self.dies & (np.arange(len(self.field)) % 2 == 1)

    def acts(self) -> NDArray[np.bool_]:
        return self.there & ~(self.waits() & (self.steps[self.field] > 0))

    def batches(self, own: Any, result: Any, ended: Any, aborted: Any) -> dict[str, AgentBatch]:
        made = {}
        for name, slots in self.slots.items():
            seen = np.zeros((len(slots), 1), np.float32)
            over = ended[slots]
            made[name] = AgentBatch(
                {"seen": seen}, own[slots] if self.grouped else own[slots] + result[slots], over,
                np.zeros_like(over), np.flatnonzero(over), {"seen": seen[over]} if over.any() else None,
                group_reward=result[slots] if self.grouped else None, needs_action=self.acts()[slots],
                aborted=aborted[slots] if aborted.any() else None,
            )  # fmt: skip
        return made

    def set_parameters(self, parameters: Any) -> None:
        """There are none."""

    def close(self) -> None:
        """Nothing is held open."""


def measure(fields: Fields, episodes: int, **keywords: Any) -> Any:
    """The result of a policy that always takes option 1, against one that takes option 0."""
    learned = {name: Always(LEARNED) for name in fields.behaviors}
    others = {name: Always(OTHER) for name in fields.behaviors}
    match = Match("it", others, fields.behaviors, shares(fields.num_envs, episodes))
    play(learned, PlayedEnvironment(fields), episodes, 1, True, {}, lineup=match, **keywords)
    return match.result()


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("behaviors", [ONE, TWO])
@pytest.mark.parametrize(("num_envs", "episodes"), [(1, 6), (1, 7), (2, 5), (3, 3)])
def test_each_field_plays_the_share_of_its_player(
    num_envs: int, episodes: int, behaviors: Mapping[str, tuple[int, ...]], grouped: bool, dies: bool
) -> None:
    lengths = (2, 3, 5, 7)
    fields = Fields(lengths, behaviors, grouped, num_envs=num_envs, dies=dies)
    result = measure(fields, episodes)
    share = shares(num_envs, episodes)
    counted = {game: team for game, team in fields.games.items() if game[2] < share[game[0]]}
    assert len(counted) == len(lengths) * episodes
    # One team of each field plays the learned policy. All fields of a player are alike, and players take turns.
    assert set(counted.values()) <= {0, 1}
    seats = Counter(counted.values())
    assert abs(seats[0] - seats[1]) == (episodes % 2) * len(lengths)
    expected: Counter[tuple[int, float]] = Counter()
    for (_, place, _), team in counted.items():
        whole = lengths[place] + 1.0  # option 1 in each step, and the result
        agents = [whole, 1.0 if dies else whole]
        expected.update((team, value) for value in ([float(np.mean(agents))] if grouped else agents))
    assert Counter(zip(result.teams, result.returns, strict=True)) == expected
    assert result.win_rate == 1.0 and result.cut == 0


def test_an_endless_field_is_cut_and_the_others_are_not() -> None:
    result = measure(Fields((2, NEVER)), 4, max_episode_steps=9)
    assert Counter(zip(result.teams, result.returns, strict=True)) == {
        (0, 3.0): 2,
        (1, 3.0): 2,
        (0, 9.0): 2,
        (1, 9.0): 2,
    }
    assert result.cut == 4


def test_places_without_agents_are_not_waited_for() -> None:
    result = measure(Fields((2, 3), empty=(1,)), 4)
    assert result.returns == (3.0,) * 4 and result.teams == (0, 0, 1, 1)


def test_a_game_whose_player_was_lost_is_played_again_with_the_same_team() -> None:
    """The fields of the first player are lost in the second step of their first, and the middle of another game."""
    result = measure(Fields((2, 5), num_envs=2, lost=7), 8)
    assert Counter(zip(result.teams, result.returns, strict=True)) == {
        (0, 3.0): 4,
        (1, 3.0): 4,
        (0, 6.0): 4,
        (1, 6.0): 4,
    }
