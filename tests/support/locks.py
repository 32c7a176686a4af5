"""Locks: environments whose only reward comes after a row of secret actions that were all right.

Random actions do not open them, so nothing is learned without a curriculum. As a local plugin::

    plugins: {local: [locks]}
    environment: {type: lock, id: combination, num_envs: 16}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    EnvironmentSettings,
    EnvironmentSpec,
    EpisodeSeeds,
    ObservationSpec,
    Parameters,
    RunContext,
    hookimpl,
    refuse_unknown_parameters,
)

SECRET = 20  # seeds the right actions, which are always the same


class Lock:
    """N locks with an action at each of L positions; 1 is paid at the end if all were right.

    What the agent sees is its position, one-hot, all 0 once it did wrong: then the episode goes on to its end in vain,
    unless the lock is ``hasty``, and the first wrong action ends it. Nothing is random.
    """

    def __init__(
        self, name: str, num_envs: int, length: int, hasty: bool, parameters: Mapping[str, float], **actions: Any
    ) -> None:
        self.num_envs = num_envs
        self.hasty = hasty
        self.length = length
        self.episodes: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N]
        # What the next episodes begin with, and what the open ones did; each [N].
        self.staged = {key: np.full(num_envs, value) for key, value in parameters.items()}
        self.parameters = {key: values.copy() for key, values in self.staged.items()}
        self.position: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N]
        self.intact: NDArray[np.bool_] = np.ones(num_envs, np.bool_)  # [N] whether all actions were right
        position = ObservationSpec("position", (length,), np.float32, "one_hot")
        self.behaviors = {name: BehaviorSpec(name, (position,), env_index=np.arange(num_envs), **actions)}
        self._name = name
        self._seen = np.vstack([np.eye(length, dtype=np.float32), np.zeros((1, length), np.float32)])  # [L + 1, L]

    def begins(self, env_index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where these copies [K] begin, by their parameters."""
        raise NotImplementedError

    def right(self, actions: Actions) -> NDArray[np.bool_]:
        """Whether each of N environments got the right action for its place, [N]."""
        raise NotImplementedError

    def _observe(self) -> dict[str, NDArray[Any]]:
        return {"position": self._seen[np.where(self.intact, self.position, self.length)]}

    def set_parameters(self, parameters: Parameters) -> None:
        refuse_unknown_parameters(parameters, self.parameters, "the lock")
        for name, values in parameters.items():
            self.staged[name][:] = values

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        self.episodes = episodes.copy()
        self._begin(np.arange(self.num_envs))
        nothing = np.zeros(self.num_envs, np.bool_)
        reward = np.zeros(self.num_envs, np.float32)
        return {self._name: AgentBatch(self._observe(), reward, nothing, nothing.copy())}

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        self.intact &= self.right(actions[self._name])
        self.position += 1
        at_end = self.position == self.length
        opened = at_end & self.intact
        terminated = at_end | ~self.intact if self.hasty else at_end
        ended = terminated.nonzero()[0]
        final = {name: seen[ended] for name, seen in self._observe().items()}
        self.episodes[ended] += 1
        self._begin(ended)
        truncated = np.zeros(self.num_envs, np.bool_)
        batch = AgentBatch(self._observe(), opened.astype(np.float32), terminated, truncated, ended, final)
        return {self._name: batch}

    def close(self) -> None:
        """Nothing is held open."""

    def _begin(self, env_index: NDArray[np.int64]) -> None:
        for name, values in self.staged.items():
            self.parameters[name][env_index] = values[env_index]
        self.position[env_index] = self.begins(env_index)
        self.intact[env_index] = True


class CombinationLock(Lock):
    """Twelve positions with one right action of four each: by chance one episode in 16.8 million opens it. It is hasty.

    Parameter ``start``, 1 to 12: how far from the end an episode begins; 12 is the whole lock.
    """

    def __init__(self, name: str, num_envs: int) -> None:
        super().__init__(name, num_envs, 12, True, {"start": 12.0}, discrete=(4,))
        self.code: NDArray[np.int64] = np.random.default_rng(SECRET).integers(4, size=12)  # [L]

    def begins(self, env_index: NDArray[np.int64]) -> NDArray[np.int64]:
        start = self.parameters["start"][env_index]
        assert np.isin(start, np.arange(1, 13)).all(), f"start must be 1 to 12, not {start}"
        return self.length - start.astype(np.int64)

    def right(self, actions: Actions) -> NDArray[np.bool_]:
        assert actions.discrete is not None
        return np.asarray(actions.discrete[:, 0] == self.code[self.position])


class DialLock(Lock):
    """Three dials, each turned to a number in [-1, 1]: right is what is ``tolerance`` or less away from the secret one.

    Parameter ``tolerance``, 0.01 for the lock as it is: by chance one episode in a million opens that. It is not hasty:
    SAC's objective pays for entropy, so that an episode which goes on is a reward, and gives right actions away.
    """

    def __init__(self, name: str, num_envs: int) -> None:
        bounds = {"low": -np.ones(1, np.float32), "high": np.ones(1, np.float32)}
        super().__init__(name, num_envs, 3, False, {"tolerance": 0.01}, continuous=1, **bounds)
        self.code: NDArray[np.float64] = np.random.default_rng(SECRET).uniform(-0.8, 0.8, 3)  # [L]

    def begins(self, env_index: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.zeros(len(env_index), np.int64)

    def right(self, actions: Actions) -> NDArray[np.bool_]:
        assert actions.continuous is not None
        return np.asarray(np.abs(actions.continuous[:, 0] - self.code[self.position]) <= self.parameters["tolerance"])


LOCKS = {"combination": CombinationLock, "dials": DialLock}


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [EnvironmentSpec(name="lock", target="locks:make_environment", summary="locks that open by no chance")]


def make_environment(settings: EnvironmentSettings, run: RunContext) -> Lock:
    return LOCKS[settings.id or ""](run.behavior_names[0], run.num_envs)
