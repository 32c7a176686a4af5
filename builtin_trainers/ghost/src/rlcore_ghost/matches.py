"""Games against an opponent: which team of each environment plays the learned policies, and how its episodes ended.

A team has all agents with the same number in :attr:`BehaviorSpec.team`, of every behavior; agents without a number are
in team 0. In every episode, one team plays the learned policies, and all others play the opponent. The team changes
from episode to episode, so that every team has its turn equally often, up to one episode.

Shapes: S slots of a behavior, N environments, T teams.
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
from rlcore_ghost.opponents import create_opponents
from rlcore_ghost.policy_mix import PolicyMix
from rlcore_ghost.settings import AgainstSettings

__all__ = ["AgainstOpponents", "Match", "teams_in"]

LEARNED, OPPONENT = 0, 1


def teams_in(behaviors: Mapping[str, BehaviorSpec]) -> tuple[NDArray[np.int64], bool]:
    """Return the numbers of all teams [T], ascending, and whether every environment has all of them."""
    pairs = [np.stack([spec.env_index, _teams(spec)], axis=1) for spec in behaviors.values()]
    envs, teams = np.unique(np.concatenate(pairs), axis=0).T
    numbers = np.unique(teams)
    return numbers, len(teams) == len(numbers) * len(np.unique(envs))


def _teams(spec: BehaviorSpec) -> NDArray[np.int64]:
    return np.zeros(spec.slots, np.int64) if spec.team is None else np.asarray(spec.team, np.int64)


class AgainstOpponents:
    """Evaluations against the opponents of ``evaluation.opponents``; a :class:`rlcore.EvaluationPlan`."""

    def __init__(self, settings: AgainstSettings, run: RunContext) -> None:
        """The opponents are created for the first behaviors that are played, and kept."""
        self._settings, self._run = settings, run
        self._policies: dict[str, dict[str, Policy]] = {}  # by behavior and opponent

    def lineups(self, behaviors: Mapping[str, BehaviorSpec], share: NDArray[np.int64]) -> list[Match]:
        """Return a match against each opponent; ``share`` [N] is the number of episodes of each environment that count.

        Raises ConfigError if there are no teams, or more teams than episodes.
        """
        if not self._settings.opponents:
            return []
        _require_teams(behaviors, int(share.sum()))
        self._policies = self._policies or {
            name: create_opponents(self._settings.opponents, spec, self._run, ("evaluation", "opponents"))
            for name, spec in behaviors.items()
        }
        return [
            Match(name, {behavior: policies[name] for behavior, policies in self._policies.items()}, behaviors, share)
            for name in self._settings.opponents
        ]

    def result(self, lineups: Sequence[Match], measured: Sequence[EvaluationResult]) -> EvaluationResult:
        """The result of each behavior against all opponents, and that of each opponent."""
        names = dict.fromkeys(name for result in measured for name in result.behaviors)
        behaviors = {
            name: BehaviorEvaluation.joined([part.behaviors[name] for part in measured if name in part.behaviors])
            for name in names
        }
        opponents = {match.opponent: match.result() for match in lineups}
        return EvaluationResult(behaviors, opponents, self._settings.score_against)


def _require_teams(behaviors: Mapping[str, BehaviorSpec], episodes: int) -> None:
    """Raise ConfigError unless every environment has the same two teams or more, and each its turn in ``episodes``."""
    teams, everywhere = teams_in(behaviors)
    if len(teams) < 2 or not everywhere:
        names = ", ".join(map(str, teams))
        found = f"not every environment has the teams {names}" if len(teams) > 1 else f"all agents are in team {names}"
        raise ConfigError(
            f"{found}, so no opponent can play against the policies; an environment with teams has "
            "BehaviorSpec.team; delete this block",
            key=("evaluation", "opponents"),
        )
    if episodes < len(teams):
        problem = f"must be at least {len(teams)}, the number of teams that play the opponents in turn"
        raise ConfigError(f"{problem}, not {episodes}", key=("evaluation", "episodes"))


class Match:
    """The episodes of the learned policies against one opponent; a :class:`rlcore.Lineup`.

    The episode of an environment ends when its number in ``Environment.episodes`` changes. The return of an episode is
    that of the learned team: the mean over its agents of their own rewards and those that their group shares.

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
        """``others`` are the opponent's policies by behavior; of each environment, ``share`` [N] episodes count."""
        self.opponent = opponent
        self._others = others
        self._env_index = {name: spec.env_index for name, spec in behaviors.items()}
        self._team = {name: _teams(spec) for name, spec in behaviors.items()}
        self._numbers, _ = teams_in(behaviors)  # [T]
        self._left = share.copy()  # [N]
        self._next = np.cumsum(share) - share  # [N] number of the open episode, or the next, among all that count
        self._waiting = np.zeros(len(share), np.bool_)  # [N] the open episode was cut and still runs
        self._steps = np.zeros(len(share), np.int64)  # [N] of the open episode
        self._rewards = {name: np.zeros(spec.slots) for name, spec in behaviors.items()}  # [S] of the open episode
        self._episodes = np.zeros(len(share), np.int64)  # [N] numbers of the open episodes
        self.players = {name: np.zeros(spec.slots, np.int64) for name, spec in behaviors.items()}
        self._returns: list[float] = []
        self._teams: list[int] = []
        self._cut = 0

    @property
    def unfinished(self) -> bool:
        """Whether an episode is still to be counted."""
        return bool((self._left > 0).any())

    @property
    def playing(self) -> bool:
        """Whether an episode to be counted is open."""
        return bool(((self._left > 0) & ~self._waiting).any())

    def policies(self, measured: Mapping[str, Policy]) -> dict[str, PolicyMix]:
        """The measured policies and the opponent's, as one policy for each behavior."""
        return {name: PolicyMix([policy, self._others[name]], self.players[name]) for name, policy in measured.items()}

    def begin(self, episodes: NDArray[np.int64]) -> None:
        """All environments were reset, to these ``episodes`` [N]."""
        self._episodes[:] = episodes
        self._begin(np.ones(len(episodes), np.bool_))

    def observe(
        self, batches: Mapping[str, AgentBatch], episodes: NDArray[np.int64], max_steps: int | None = None
    ) -> None:
        """Add a step. ``episodes`` [N] are the numbers after it; an episode is cut after ``max_steps`` steps."""
        self._steps += 1
        lost = np.zeros(len(episodes), np.bool_)
        for name, batch in batches.items():
            closed, rewards = batch.transition_closed, self._rewards[name]
            for part in (batch.reward, batch.group_reward):
                if part is not None:
                    np.add(rewards, part, out=rewards, where=True if closed is None else closed)
            if batch.aborted is not None:
                lost[self._env_index[name][batch.aborted]] = True
        over = (episodes != self._episodes) | lost
        late = ~over & (self._steps >= max_steps) & ~self._waiting if max_steps is not None else np.zeros_like(over)
        counted = ((over & ~lost) | late) & (self._left > 0) & ~self._waiting
        if counted.any():
            self._count(counted)
            self._cut += int((counted & late).sum())
            self._waiting |= counted & late
        if over.any():
            self._episodes[:] = episodes
            self._begin(over)

    def _count(self, envs: NDArray[np.bool_]) -> None:
        """Note the results of the open episodes of ``envs`` [N]."""
        total, agents = np.zeros(len(envs)), np.zeros(len(envs))
        for name, players in self.players.items():
            learned = players == LEARNED
            index = self._env_index[name][learned]
            total += np.bincount(index, self._rewards[name][learned], len(envs))
            agents += np.bincount(index, minlength=len(envs))
        self._returns += (total[envs] / agents[envs]).tolist()
        self._teams += self._seats()[envs].tolist()
        self._left -= envs
        self._next += envs

    def _seats(self) -> NDArray[np.int64]:
        """[N] the team that plays the learned policies in the episode that is open, or next to be counted."""
        return self._numbers.take(self._next % len(self._numbers))

    def _begin(self, envs: NDArray[np.bool_]) -> None:
        """Begin an episode in ``envs`` [N]."""
        self._steps[envs] = 0
        self._waiting &= ~envs
        seats = self._seats()
        for name, env_index in self._env_index.items():
            rows = envs[env_index]
            self._rewards[name][rows] = 0.0
            self.players[name][rows] = np.where(self._team[name] == seats[env_index], LEARNED, OPPONENT)[rows]

    def result(self) -> OpponentEvaluation:
        """The result of all episodes that were counted."""
        return OpponentEvaluation.of(self._returns, self._teams, self._cut)
