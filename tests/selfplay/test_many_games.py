"""Environments that hold several games, which nothing tells apart: what is rated, against whom, and what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray
from worlds_of_games import Recorder

from rlcore import Actions, AgentBatch, BehaviorSpec, ObservationSpec
from rlcore_ghost.selfplay.controller import Controller
from rlcore_ghost.selfplay.ghosts import Ghosts
from rlcore_ghost.selfplay.samplers import UniformSampler
from rlcore_ghost.selfplay.seats import Seats
from rlcore_ghost.selfplay.trainer import GhostTrainer
from rlcore_ghost.settings import NoParameters, SelfPlaySettings

NEVER = 10**9
BLOCK = {"save_steps": 40, "swap_steps": 30, "team_change": 100}
ONE = {"Agent": (0, 1)}
TWO = {"Goalie": (1,), "Striker": (0,)}
Game = tuple[tuple[str, str], tuple[int, int]]  # players and ranks of both teams


class Fields:
    """One environment with fields of two agents in each of two teams. A field's episodes take ``lengths`` steps.

    Slots are field by field. The winner is drawn; the goal counts 1 and -1, for the groups where there are some.
    """

    def __init__(self, lengths: tuple[int, ...], behaviors: Mapping[str, tuple[int, ...]], grouped: bool) -> None:
        self.lengths, self.random = np.array(lengths), np.random.default_rng(0)
        fields = len(lengths)
        self.field = np.repeat(np.arange(fields), 4)
        self.team = np.tile([0, 0, 1, 1], fields)
        self.steps = np.zeros(fields, np.int64)
        self.slots = {name: np.flatnonzero(np.isin(self.team, teams)) for name, teams in behaviors.items()}
        whole = BehaviorSpec(
            "", (ObservationSpec("seen", (1,), np.float32),), discrete=(1_000_000,),
            env_index=np.zeros(4 * fields, np.int64), team=self.team,
            group=2 * self.field + self.team if grouped else None, many_games=True,
        )  # fmt: skip
        self.specs = {name: attrs.evolve(whole.take(slots), name=name) for name, slots in self.slots.items()}
        self.grouped = grouped

    def begin(self) -> dict[str, AgentBatch]:
        self.steps[:] = 0
        return self._batches(np.zeros(len(self.field), np.bool_), np.zeros(len(self.field)))

    def step(self) -> tuple[dict[str, AgentBatch], dict[int, int]]:
        """The batches, and the winner of each field whose episode ended."""
        self.steps += 1
        over = self.steps >= self.lengths
        winners = {int(field): int(self.random.integers(2)) for field in np.flatnonzero(over)}
        self.steps[over] = 0
        ended = over[self.field]
        won = np.array([winners.get(int(field), -1) for field in self.field])
        return self._batches(ended, np.where(ended, np.where(won == self.team, 1.0, -1.0), 0.0)), winners

    def _batches(self, ended: NDArray[np.bool_], reward: NDArray[np.float64]) -> dict[str, AgentBatch]:
        made = {}
        for name, slots in self.slots.items():
            seen = np.zeros((len(slots), 1), np.float32)
            none = np.zeros(len(slots), np.bool_)
            own = ended[slots]
            of_them = reward[slots].astype(np.float32)
            made[name] = AgentBatch(
                {"seen": seen}, np.zeros_like(of_them) if self.grouped else of_them, own, none,
                final_observations={"seen": seen[own]} if own.any() else None,
                group_reward=of_them if self.grouped else None,
            )  # fmt: skip
        return made


class Match:
    """Self-play in fields. ``expected`` are the games as one who knows the fields counts them."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.controller = Controller([0, 1], np.array([len(fields.field)]), 1200.0, 16.0, many_games=True)
        self.trainers: dict[str, GhostTrainer] = {}
        self.expected: Counter[Game] = Counter()
        self.learned: set[tuple[int, int]] = set()  # fields and teams of which someone learned
        block = SelfPlaySettings(**BLOCK)
        for name, spec in fields.specs.items():
            seats = Seats(spec, False)
            inner: Any = Recorder(seats.behavior(spec).slots)
            sampler = UniformSampler(NoParameters())
            self.trainers[name] = GhostTrainer(
                spec, seats, Ghosts(inner, block, spec, sampler, {}, self.controller, 1, False)
            )
        self.batches = fields.begin()
        for name, trainer in self.trainers.items():
            trainer.begin(self.batches[name])

    def play(self, steps: int) -> None:
        for number in range(1, steps + 1):
            acted = {name: trainer.act(self.batches[name]) for name, trainer in self.trainers.items()}
            players = self._players(acted)
            self.batches, winners = self.fields.step()
            for field, winner in winners.items():
                self._expect(field, winner, players)
            for name, trainer in self.trainers.items():
                trainer.observe(acted[name], self.batches[name])
            if number % 25 == 0:
                for trainer in self.trainers.values():
                    trainer.update()

    def _players(self, acted: Mapping[str, Actions]) -> list[str]:
        """Who plays in each slot, by the number that a policy chooses."""
        players = [""] * len(self.fields.field)
        for name, slots in self.fields.slots.items():
            pool = self.trainers[name].ghosts.pool.members
            chosen = acted[name].discrete
            assert chosen is not None
            names = {each.policy.number: each.name for each in pool if each is not None}  # type: ignore[attr-defined]
            for slot, option in zip(slots, chosen[:, 0].tolist(), strict=True):
                players[slot] = name if option >= Recorder.LEARNS else names[option]
        return players

    def _expect(self, field: int, winner: int, players: list[str]) -> None:
        own = [{players[slot] for slot in 4 * field + 2 * team + np.arange(2)} for team in (0, 1)]
        assert all(len(each) == 1 for each in own)  # the agents of a team are one player
        first = own[0].pop()
        second = own[1].pop()
        learns = [each in self.trainers for each in (first, second)]
        self.learned |= {(field, team) for team in (0, 1) if learns[team]}
        if any(learns):
            ranks = (0, 1) if winner == 0 else (1, 0)
            self.expected[(first, second), ranks] += 1 if self.fields.grouped else 2

    def logged(self) -> Counter[Game]:
        self.controller.rate_games()
        rows = self.controller.log.rows
        names = self.controller.log.names
        found: Counter[Game] = Counter()
        for players, ranks, count in zip(rows["players"], rows["ranks"], rows["count"], strict=True):
            found[(names[players[0]], names[players[1]]), (int(ranks[0]), int(ranks[1]))] += int(count)
        return found


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("behaviors", [ONE, TWO])
def test_each_side_of_the_learning_team_is_rated_against_those_that_it_played(
    behaviors: Mapping[str, tuple[int, ...]], grouped: bool
) -> None:
    match = Match(Fields((2, 3, 5, 7, 7, 11), behaviors, grouped))
    match.play(600)
    assert match.logged() == match.expected
    assert match.controller.rated == sum(match.expected.values()) > 400
    assert match.controller.learning.changes >= 4 and len({players for players, _ in match.expected}) > 8


def test_no_field_waits_for_the_slowest_one() -> None:
    """One field never ends: in the others, teams change and opponents are swapped."""
    match = Match(Fields((4, 4, NEVER), ONE, True))
    match.play(400)
    assert match.logged() == match.expected and match.controller.rated >= 190
    assert match.learned == {(0, 0), (0, 1), (1, 0), (1, 1)} and match.controller.learning.changes >= 2


def test_a_side_is_over_when_its_last_agent_ends_and_that_one_decides() -> None:
    fields = Fields((NEVER,), ONE, True)
    match = Match(fields)
    trainer = match.trainers["Agent"]
    (batch,) = match.batches.values()
    for step, (ended, results) in enumerate([([True, False, False, False], -1.0), ([False, True, True, True], 1.0)]):
        actions = trainer.act(batch)
        over = np.array(ended)
        batch = attrs.evolve(
            batch, terminated=over, ended=np.flatnonzero(over),
            group_reward=np.where(over, np.float32(results), np.float32(0)),
            final_observations={"seen": np.zeros((int(over.sum()), 1), np.float32)},
            needs_action=np.array([step == 1, True, True, True]),
        )  # fmt: skip
        trainer.observe(actions, batch)
        assert match.logged() == ({} if step == 0 else {(("Agent", "Agent@0"), (0, 1)): 1})


def test_a_run_that_is_resumed_rates_the_same_games() -> None:
    first, second = (Match(Fields((2, 3, 5, 9), TWO, True)) for _ in range(2))
    first.play(203)
    for name, trainer in first.trainers.items():
        second.trainers[name].ghosts.trainer.steps = trainer.steps
        second.trainers[name].ghosts.trainer.snapshots = trainer.trainer.snapshots  # type: ignore[attr-defined]
    states = {name: trainer._self_play_state() for name, trainer in first.trainers.items()}
    for name, trainer in second.trainers.items():
        trainer._load(states[name])
        inner = trainer.trainer
        other = first.trainers[name].trainer
        inner.open, inner.acted = list(other.open), other.acted.copy()  # type: ignore[attr-defined]
    second.fields.steps, second.fields.random = first.fields.steps.copy(), np.random.default_rng(5)
    first.fields.random, second.batches = np.random.default_rng(5), dict(first.batches)
    for match in (first, second):
        match.play(150)
    assert first.logged() == second.logged()
    assert (
        first.controller.elo.state_dict()["ratings"].tolist() == second.controller.elo.state_dict()["ratings"].tolist()
    )
