"""Games against an opponent: which team of each environment plays the learned policies, and how its episodes ended.

A team has all agents with the same number in :attr:`BehaviorSpec.team`, of every behavior; agents without a number are
in team 0. In every episode, one team plays the learned policies, and all others play the opponent. Every team has its
turn equally often, up to one episode. What an episode is: see :mod:`rlcore_ghost.match_games`.

Shapes: S slots of a behavior, N environments, T teams, G games that go on side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    AgentBatch,
    BehaviorEvaluation,
    BehaviorSpec,
    ConfigError,
    EvaluationResult,
    OpponentEvaluation,
    Policy,
    RunContext,
)
from rlcore_ghost.match_games import EnvironmentGames, SideGames, teams_in, teams_of
from rlcore_ghost.opponents import create_opponents
from rlcore_ghost.policy_mix import PolicyMix
from rlcore_ghost.settings import AgainstSettings

__all__ = ["AgainstOpponents", "Match"]

KEY = ("evaluation", "opponents")

LEARNED = 0
OPPONENT = 1


class AgainstOpponents:
    """Evaluations against the opponents of ``evaluation.opponents``; a :class:`rlcore.EvaluationPlan`."""

    def __init__(self, settings: AgainstSettings, run: RunContext) -> None:
        """The opponents are created for the first behaviors that are played, and kept."""
        self._settings = settings
        self._run = run
        self._policies: dict[str, dict[str, Policy]] = {}  # by behavior and opponent

    def lineups(self, behaviors: Mapping[str, BehaviorSpec], share: NDArray[np.int64]) -> list[Match]:
        """Return a match against each opponent; ``share`` [N] is the number of episodes of each environment that count.

        Raises ConfigError if there are no teams, or more teams than episodes.
        """
        if not self._settings.opponents:
            return []
        _require_teams(behaviors, int(share.sum()))
        opponents = self._settings.opponents
        # Kept, because opponents such as a run's policy are read from files.
        if not self._policies:
            for name, spec in behaviors.items():
                self._policies[name] = create_opponents(opponents, spec, self._run, KEY)
        matches = []
        for opponent in opponents:
            policies = {name: of_behavior[opponent] for name, of_behavior in self._policies.items()}
            match = Match(opponent, policies, behaviors, share)
            matches.append(match)
        return matches

    def result(self, lineups: Sequence[Match], measured: Sequence[EvaluationResult]) -> EvaluationResult:
        """The result of each behavior against all opponents, and that of each opponent."""
        parts: dict[str, list[BehaviorEvaluation]] = {}
        for evaluation in measured:
            for name, part in evaluation.behaviors.items():
                parts.setdefault(name, []).append(part)
        behaviors = {name: BehaviorEvaluation.joined(of_behavior) for name, of_behavior in parts.items()}
        opponents = {match.opponent: match.result() for match in lineups}
        return EvaluationResult(behaviors, opponents, self._settings.score_against)


def _require_teams(behaviors: Mapping[str, BehaviorSpec], episodes: int) -> None:
    """Raise ConfigError unless every environment has the same two teams or more, and each its turn in ``episodes``."""
    teams, everywhere = teams_in(behaviors)
    if len(teams) < 2 or not everywhere:
        names = ", ".join(map(str, teams))
        problem = f"all agents are in team {names}"
        if len(teams) > 1:
            problem = f"not every environment has the teams {names}"
        raise ConfigError(
            f"{problem}, so no opponent can play against the policies; an environment with teams has "
            "BehaviorSpec.team; delete this block",
            key=KEY,
        )
    if episodes < len(teams):
        problem = f"must be at least {len(teams)}, the number of teams that play the opponents in turn"
        raise ConfigError(f"{problem}, not {episodes}", key=("evaluation", "episodes"))


class Match:
    """The episodes of the learned policies against one opponent; a :class:`rlcore.Lineup`.

    The return of an episode is that of the learned team: the mean over its agents of their own rewards and those that
    their group shares.

    Attributes:
        opponent: The name of the opponent in the configuration.
        players: [S] for each behavior, ``LEARNED`` or ``OPPONENT``: who plays the open episode of each slot.
    """

    def __init__(
        self,
        opponent: str,
        others: Mapping[str, Policy],
        behaviors: Mapping[str, BehaviorSpec],
        share: NDArray[np.int64],
    ) -> None:
        """``others`` are the opponent's policies by behavior; of each environment, ``share`` [N] episodes count.

        In an environment with ``many_games``, as many of each side count.
        """
        self.opponent = opponent
        self._others = others
        many = any(spec.many_games for spec in behaviors.values())
        self._games = SideGames(behaviors, share) if many else EnvironmentGames(behaviors, share)
        games = len(self._games.share)
        self._left = self._games.share.copy()  # [G] episodes of the share that are not over
        self._played = np.zeros_like(self._left)  # [G] episodes of the share that are over
        self._waiting = np.zeros(games, np.bool_)  # [G] the open episode was cut and still runs
        self._steps = np.zeros_like(self._left)  # [G] of the open episode
        self.players = {name: np.zeros(spec.slots, np.int64) for name, spec in behaviors.items()}
        self._team: dict[str, NDArray[np.int64]] = {}  # [S]
        self._rewards: dict[str, NDArray[np.float64]] = {}  # [S] of the open episode
        for name, spec in behaviors.items():
            self._team[name] = teams_of(spec)
            self._rewards[name] = np.zeros(spec.slots)
        self._returns: list[float] = []
        self._teams: list[int] = []
        self._cut = 0

    @property
    def unfinished(self) -> bool:
        """Whether an episode is still to be counted."""
        return bool(self._awaited().any())

    @property
    def playing(self) -> bool:
        """Whether an episode to be counted is open."""
        open_ones = self._awaited() & ~self._waiting
        return bool(open_ones.any())

    def _awaited(self) -> NDArray[np.bool_]:
        """[G] whether an episode of a game is still to be counted; a game whose agents are away is not waited for."""
        awaited: NDArray[np.bool_] = (self._left > 0) & ~self._games.away
        return awaited

    def policies(self, measured: Mapping[str, Policy]) -> dict[str, PolicyMix]:
        """The measured policies and the opponent's, as one policy for each behavior."""
        mixes = {}
        for name, policy in measured.items():
            policies = [policy, self._others[name]]  # at LEARNED and OPPONENT
            mixes[name] = PolicyMix(policies, self.players[name])
        return mixes

    def begin(self, batches: Mapping[str, AgentBatch], episodes: NDArray[np.int64]) -> None:
        """All environments were reset with these ``batches``, to these ``episodes`` [N]."""
        self._games.begin(batches, episodes)
        every_game = np.ones(len(self._left), np.bool_)
        self._begin(every_game)

    def observe(
        self, batches: Mapping[str, AgentBatch], episodes: NDArray[np.int64], max_steps: int | None = None
    ) -> None:
        """Add a step. ``episodes`` [N] are the numbers after it; an episode is cut after ``max_steps`` steps."""
        self._steps += self._games.open
        for name, batch in batches.items():
            closed = True if batch.transition_closed is None else batch.transition_closed
            rewards = self._rewards[name]
            np.add(rewards, batch.reward, out=rewards, where=closed)
            if batch.group_reward is not None:
                np.add(rewards, batch.group_reward, out=rewards, where=closed)
        over, lost = self._games.over(batches, episodes)
        late = np.zeros_like(over)
        if max_steps is not None:
            late = ~over & (self._steps >= max_steps) & ~self._waiting
        # An episode that was cut is counted where it is cut, and not again where it ends.
        ended = (over & ~lost) | late
        counted = ended & (self._left > 0) & ~self._waiting
        if counted.any():
            self._count(counted, late)
            self._waiting |= counted & late
        # Last: results are those of the players and rewards before.
        if over.any():
            self._begin(over)

    def _count(self, games: NDArray[np.bool_], late: NDArray[np.bool_]) -> None:
        """Note the results of the open episodes of ``games`` [G]; those that are ``late`` are cut."""
        total = np.zeros(len(games))
        agents = np.zeros(len(games))
        for name, players in self.players.items():
            learned = (players == LEARNED) & self._games.takes_part(name)
            game = self._games.of[name][learned]
            rewards = self._rewards[name][learned]
            total += np.bincount(game, rewards, len(games))
            agents += np.bincount(game, minlength=len(games))
        measured = games & (agents > 0)  # a side that played the opponent has none that learned
        returns = total[measured] / agents[measured]
        teams = self._games.seats(self._played)[measured]
        self._returns += returns.tolist()
        self._teams += teams.tolist()
        self._cut += int((measured & late).sum())
        self._left -= games
        self._played += games

    def _begin(self, games: NDArray[np.bool_]) -> None:
        """Begin an episode in ``games`` [G]."""
        self._steps[games] = 0
        self._waiting &= ~games
        seats = self._games.seats(self._played)
        for name, of in self._games.of.items():
            rows = games[of]
            learns = self._team[name] == seats[of]
            players = np.where(learns, LEARNED, OPPONENT)
            self.players[name][rows] = players[rows]
            self._rewards[name][rows] = 0.0

    def result(self) -> OpponentEvaluation:
        """The result of all episodes that were counted."""
        return OpponentEvaluation.of(self._returns, self._teams, self._cut)
