"""The team that learns, and the teams whose turn comes next.

One team of a run learns at a time, as in ML-Agents (``GhostController``). A game keeps the learning team that it began
with, so a change concerns later games only.

Shapes: N environments, T teams.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rlcore import IdleGroups, Ranks, SavedValueError, fill, saved_count, saved_entry, saved_mapping
from rlcore_ghost.arrays import Bools, Ints

__all__ = ["LearningTeam"]

NO_TEAM = -1  # when all trainers have reached max_steps
ARRAYS = ("team", "game")  # attributes [N] of the state
COUNTS = ("changes", "resets")  # attributes of the state that are whole numbers


class LearningTeam:
    """The team that learns in each game, as an index of :attr:`numbers`.

    Attributes:
        numbers: The numbers of the T teams in the environment, ascending.
        current: Index of the team that learns in games that begin from now on; -1: none of them.
        changes: How often the learning team changed.
        retired: Indices of teams whose trainers have reached ``max_steps``.
        acting: Which teams act. A team that is idle does not learn while another one can.
        team: [N] index of the team that learns in the latest game of each environment.
        game: [N] number of the latest game of each environment.
        resets: How often all environments were reset at once.
    """

    def __init__(self, numbers: Iterable[int], envs: int, exchange: Ranks) -> None:
        """``numbers`` are those of the teams, ``envs`` is N, and ``exchange`` has the processes of the run."""
        self.numbers = tuple(sorted(numbers))
        self.current = 0
        self.changes = 0
        self.retired: set[int] = set()
        self.acting = IdleGroups(exchange, len(self.numbers))
        self.team = np.zeros(envs, np.int64)
        self.game = np.zeros(envs, np.int64)
        self.resets = 0

    # ------------------------------------------------------------ which team

    def change(self) -> None:
        """Let the next team that acts learn, in games that begin from now on."""
        remaining = [team for team in range(len(self.numbers)) if team not in self.retired]
        active = [team for team in remaining if not self.acting.idle[team]]
        # A team that is idle now may act later; without any other, it is the one to wait for.
        choices = active or remaining or [NO_TEAM]
        later = [team for team in choices if team > self.current]
        self.current = later[0] if later else choices[0]
        self.changes += 1

    def retire(self, teams: Iterable[int]) -> None:
        """Leave out the teams with these indices, which learn nothing any more."""
        self.retired.update(teams)
        if self.current in self.retired:
            self.change()

    def after_step(self) -> list[int]:
        """Change the team if it has become idle. Return the idle teams each time that they are looked for."""
        if not self.acting.after_step():
            return []
        idle = self.acting.idle
        if self.current != NO_TEAM and idle[self.current] and not idle.all():
            self.change()
        return sorted(set(np.flatnonzero(idle).tolist()) - self.retired)

    # ------------------------------------------------------------ in which game

    def reset(self, resets: int, game: Ints) -> bool:
        """All environments were reset, for the time ``resets`` as one of the behaviors counts.

        ``game`` [N], the number of the game that the behavior is in, is overwritten. Returns whether this is the first
        behavior to report the reset.
        """
        first = resets > self.resets
        if first:
            self.resets = resets
            self.game += 1
            self.team[:] = self.current
        game[:] = self.game
        return first

    def next_game(self, over: Bools, game: Ints) -> None:
        """All agents of one behavior have ended their game in the environments ``over`` [N].

        ``game`` [N], the number of the game that the behavior is in, is counted up. The first behavior that begins the
        next game decides, for all, which team learns in it.
        """
        game[over] += 1
        begun = game > self.game
        self.game[begun] = game[begun]
        self.team[begun] = self.current

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The team, whose turn comes next, and the games. Who is retired is not saved: ``max_steps`` may be raised."""
        return {
            "teams": list(self.numbers),
            "learning_team": self.current + 1,  # whole numbers of a state are not negative
            **{name: getattr(self, name) for name in COUNTS},
            **{name: getattr(self, name).copy() for name in ARRAYS},
            "acting": self.acting.state_dict(),
        }

    def require_teams(self, state: Mapping[str, Any]) -> None:
        """Raise SavedValueError unless the ``state`` is that of a run with the same teams."""
        numbers = saved_entry(state, "teams")
        if numbers != list(self.numbers):
            raise SavedValueError(
                f"the games of the run have the teams {numbers}, and those of this environment {list(self.numbers)}"
            )

    def load_learned(self, state: Mapping[str, Any]) -> None:
        """Load of a :meth:`state_dict` what does not belong to environments. Raises SavedValueError if it is wrong."""
        saved_number = saved_count(state, "learning_team")
        if saved_number > len(self.numbers):
            raise SavedValueError(f"the entry 'learning_team' names team {saved_number} of {len(self.numbers)}")
        self.current = saved_number - 1
        for name in COUNTS:
            setattr(self, name, saved_count(state, name))

    def load_games(self, state: Mapping[str, Any]) -> None:
        """Load the rest, after :meth:`load_learned`."""
        for name in ARRAYS:
            fill(getattr(self, name), state, name)
        self.acting.load_state_dict(saved_mapping(state, "acting"))
