"""Games against an opponent: which team of each environment plays the learned policies, and how its episodes ended.

A team has all agents with the same number in :attr:`BehaviorSpec.team`, of every behavior; agents without a number are
in team 0. In every episode, one team plays the learned policies, and all others play the opponent. The team changes
from episode to episode, so that every team has its turn equally often, up to one episode.

Shapes: S slots of a behavior, N environments, T teams.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import AgentBatch, BehaviorSpec
from rlcore.contracts.policy import Policy
from rlcore.contracts.results import OpponentEvaluation

LEARNED, OPPONENT = 0, 1


def teams_in(behaviors: Mapping[str, BehaviorSpec]) -> tuple[NDArray[np.int64], bool]:
    """Return the numbers of all teams [T], ascending, and whether every environment has all of them."""
    pairs = [np.stack([spec.env_index, _teams(spec)], axis=1) for spec in behaviors.values()]
    envs, teams = np.unique(np.concatenate(pairs), axis=0).T
    numbers = np.unique(teams)
    return numbers, len(teams) == len(numbers) * len(np.unique(envs))


def _teams(spec: BehaviorSpec) -> NDArray[np.int64]:
    return np.zeros(spec.slots, np.int64) if spec.team is None else np.asarray(spec.team, np.int64)


@attrs.frozen
class Opponent:
    """An opponent of an evaluation: its name in the configuration, and the policy of each behavior by name."""

    name: str
    policies: Mapping[str, Policy]


class Match:
    """The episodes of the learned policies against one opponent.

    The episode of an environment ends when its number in ``Environment.episodes`` changes. The return of an episode is
    that of the learned team: the mean over its agents of their own rewards and those that their group shares.

    Attributes:
        players: [S] for each behavior, ``LEARNED`` or ``OPPONENT``: who plays the open episode of each slot.
        unfinished: Whether an episode is still to be counted.
        playing: Whether an episode to be counted is open.
    """

    def __init__(self, behaviors: Mapping[str, BehaviorSpec], share: NDArray[np.int64]) -> None:
        """``share`` [N] is the number of episodes of each environment that count."""
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
        return bool((self._left > 0).any())

    @property
    def playing(self) -> bool:
        return bool(((self._left > 0) & ~self._waiting).any())

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
