"""Divide the slots of an evaluation into games: a game is a whole environment, or one side of it.

In most environments, each is one game, whose episode ends when its number in ``Environment.episodes`` changes. In one
with :attr:`BehaviorSpec.many_games`, such as a Unity player with eight fields, nothing tells one game from another, so
each *side* is a game of its own, as in training (:mod:`rlcore_ghost.selfplay.sides`): the agents of one group, or one
agent in no group, until none of them is left.

Shapes: S slots of a behavior, N environments, T teams, G games that go on side by side.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlcore import AgentBatch, BehaviorSpec
from rlcore_ghost.arrays import Bools, Ints
from rlcore_ghost.selfplay.sides import sides_of

__all__ = ["EnvironmentGames", "SideGames", "teams_in", "teams_of"]

# Steps without an action, after which a side is not waited for: its places may stay empty. It is the number after which
# an evaluation does not wait for an agent.
AWAY = 1_000


def teams_of(spec: BehaviorSpec) -> Ints:
    """Return the number of the team [S] of each slot; 0 without teams."""
    if spec.team is None:
        return np.zeros(spec.slots, np.int64)
    return np.asarray(spec.team, np.int64)


def teams_in(behaviors: Mapping[str, BehaviorSpec]) -> tuple[Ints, bool]:
    """Return the numbers of all teams [T], ascending, and whether every environment has all of them."""
    specs = behaviors.values()
    env = np.concatenate([spec.env_index for spec in specs])
    team = np.concatenate([teams_of(spec) for spec in specs])
    in_env = np.stack([env, team], axis=1)
    pairs = np.unique(in_env, axis=0)
    numbers = np.unique(team)
    everywhere = len(numbers) * len(np.unique(env))
    return numbers, len(pairs) == everywhere


class EnvironmentGames:
    """N games, each of which is an environment. The learned team changes from episode to episode.

    Attributes:
        of: [S] for each behavior, the game of each slot.
        share: [G] episodes of each game that count.
        open: [G] whether a game has agents.
        away: [G] whether a game is not waited for.
    """

    def __init__(self, behaviors: Mapping[str, BehaviorSpec], share: Ints) -> None:
        """Divide the slots of ``behaviors``. ``share`` [N] episodes of each environment count."""
        self.of: dict[str, Ints] = {}
        for name, spec in behaviors.items():
            self.of[name] = np.asarray(spec.env_index, np.int64)
        self.share = share
        games = len(share)
        self.open = np.ones(games, np.bool_)
        self.away = np.zeros(games, np.bool_)
        self._teams, _ = teams_in(behaviors)  # [T]
        self._first = np.cumsum(share) - share  # [N] number of the first episode among all that count
        self._episodes = np.zeros(games, np.int64)  # [N] numbers of the open episodes

    def seats(self, played: Ints) -> Ints:
        """Return the team [G] that plays the learned policies after ``played`` [G] episodes."""
        number = self._first + played
        return self._teams.take(number % len(self._teams))

    def takes_part(self, name: str) -> Bools:
        """Return which slots [S] of a behavior have had an agent in the open episode."""
        slots = len(self.of[name])
        return np.ones(slots, np.bool_)

    def begin(self, batches: Mapping[str, AgentBatch], episodes: Ints) -> None:
        """All environments were reset with these ``batches``, to these ``episodes`` [N]."""
        self._episodes[:] = episodes

    def over(self, batches: Mapping[str, AgentBatch], episodes: Ints) -> tuple[Bools, Bools]:
        """Return the games [G] whose episode is over with this step, and those of them [G] that were lost."""
        lost = np.zeros(len(episodes), np.bool_)
        for name, batch in batches.items():
            if batch.aborted is not None:
                games = self.of[name][batch.aborted]
                lost[games] = True
        over = (episodes != self._episodes) | lost
        self._episodes[:] = episodes
        return over, lost


class SideGames:
    """G games, each of which is a side. Each side plays the learned policies in its turn, and the opponent else.

    All fields of an environment begin together, with the same team, and nothing tells which sides play with one
    another. A side therefore plays all of its episodes as the learned team in a row: sides whose counts have come
    apart, because one had an episode more, play learned policies against learned ones only where the turns change.

    Attributes:
        of: [S] for each behavior, the game of each slot.
        share: [G] episodes of each game that are part of the share, against the opponent or as the opponent.
    """

    def __init__(self, behaviors: Mapping[str, BehaviorSpec], share: Ints) -> None:
        """Divide the slots of ``behaviors``. Each side plays the ``share`` [N] of episodes of its environment."""
        self.of: dict[str, Ints] = {}
        envs: list[Ints] = []  # of the sides of each behavior
        first = 0
        for name, spec in behaviors.items():
            side = sides_of(spec)
            sides = int(side.max()) + 1
            env = np.zeros(sides, np.int64)
            env[side] = spec.env_index
            envs.append(env)
            self.of[name] = first + side
            first += sides
        self._env = np.concatenate(envs)  # [G]
        self.share = share[self._env]
        self._numbers, _ = teams_in(behaviors)  # [T]
        turns = _turns(share, len(self._numbers))
        self._turns_end = np.cumsum(turns, axis=1)  # [N, T]
        self._acts: dict[str, Bools] = {}  # [S] by behavior, who has acted in its episode
        self._acted: dict[str, Bools] = {}  # [S] by behavior, who has acted in the open episode of its side
        for name, spec in behaviors.items():
            none = np.zeros(spec.slots, np.bool_)
            self._acts[name] = none
            self._acted[name] = none.copy()
        self._ended = np.zeros(first, np.bool_)  # [G] in the last step
        self._idle = np.zeros(first, np.int64)  # [G] steps since an agent waited for an action

    @property
    def open(self) -> Bools:
        """[G] whether a side has agents."""
        is_open = np.zeros(len(self._env), np.bool_)
        for name, acts in self._acts.items():
            sides = self.of[name][acts]
            is_open[sides] = True
        return is_open

    @property
    def away(self) -> Bools:
        """[G] whether a side is not waited for."""
        away: Bools = self._idle >= AWAY
        return away

    def seats(self, played: Ints) -> Ints:
        """Return the team [G] that plays the learned policies after ``played`` [G] episodes of each side."""
        ends = self._turns_end[self._env]  # [G, T]
        turn = (played[:, None] >= ends).sum(1)
        last = len(self._numbers) - 1
        turn = np.minimum(turn, last)  # episodes after the share do not count
        teams: Ints = self._numbers[turn]
        return teams

    def takes_part(self, name: str) -> Bools:
        """Return which slots [S] of a behavior have had an agent in the open episode of their side."""
        return self._acted[name]

    def begin(self, batches: Mapping[str, AgentBatch], episodes: Ints) -> None:
        """All environments were reset with these ``batches``."""
        for name in self.of:
            self._acts[name][:] = False
            self._acted[name][:] = False
        self._ended[:] = False
        self._idle[:] = 0
        self._wait(batches)

    def over(self, batches: Mapping[str, AgentBatch], episodes: Ints) -> tuple[Bools, Bools]:
        """Return the sides [G] of which no agent is left after this step, and those of them [G] that were lost."""
        ended = np.zeros_like(self._ended)
        lost = np.zeros_like(self._ended)
        for name, batch in batches.items():
            side = self.of[name]
            acts = self._acts[name]
            acted = self._acted[name]
            # Cleared one step after the end of a game, whose result is read with this step.
            acted &= ~self._ended[side]
            acted |= acts
            acts[batch.ended] = False
            ended[side[batch.ended]] = True
            if batch.aborted is not None:
                acts[batch.aborted] = False
                lost[side[batch.aborted]] = True
        self._ended = (ended & ~self.open) | lost
        self._wait(batches)
        return self._ended, lost

    def _wait(self, batches: Mapping[str, AgentBatch]) -> None:
        """Note who waits for an action, and acts with the next step."""
        self._idle += 1
        for name, batch in batches.items():
            waits = slice(None) if batch.needs_action is None else batch.needs_action
            self._acts[name][waits] = True
            sides = self.of[name][waits]
            self._idle[sides] = 0


def _turns(share: Ints, teams: int) -> Ints:
    """Return how many of its ``share`` [N] of episodes each environment plays with each team [N, T] as the learned one.

    Episodes of all environments take turns, so a share that the teams do not divide favors none of them.
    """
    end = np.cumsum(share)[:, None]
    first = end - share[:, None]
    team = np.arange(teams)
    # Episode n among all of them is for team n % T: ceil((n - t) / T) with lower numbers are for team t.
    before_end = -((team - end) // teams)
    before_first = -((team - first) // teams)
    turns: Ints = before_end - before_first
    return turns
