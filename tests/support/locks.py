"""Locks: environments whose only reward comes after a row of secret actions that were all right.

Random actions do not open them, so nothing is learned without a curriculum. As a local plugin::

    plugins: {local: [locks]}
    environment: {type: lock, id: combination, num_envs: 16}
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, BehaviorSpec, EnvironmentSettings, EnvironmentSpec, ObservationSpec, RunContext, hookimpl
from rlcore_devkit.environments import ArrayEnvironment

SECRET = 20  # seeds the right actions, which are always the same


class Lock(ArrayEnvironment):
    """N locks with an action at each of L positions; 1 is paid at the end if all were right.

    What the agent sees is its position, one-hot, all 0 once it did wrong: then the episode goes on to its end in vain,
    unless the lock is ``hasty``, and the first wrong action ends it. Nothing is random.
    """

    length: int
    hasty: bool

    def __init__(self, name: str, num_envs: int, parameters: dict[str, float], **actions: Any) -> None:
        position = ObservationSpec("position", (self.length,), np.float32, "one_hot")
        super().__init__(BehaviorSpec(name, (position,), env_index=np.arange(num_envs), **actions), None, parameters)
        self.position: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N]
        self.intact: NDArray[np.bool_] = np.ones(num_envs, np.bool_)  # [N] whether all actions were right

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self.position[env], self.intact[env] = 0, True

    def right(self, actions: Actions) -> NDArray[np.bool_]:
        """Whether each of N environments got the right action for its place, [N]."""
        raise NotImplementedError

    def advance(self, actions: Actions) -> tuple[NDArray[Any], NDArray[Any]]:
        self.intact &= self.right(actions)
        self.position += 1
        at_end = self.position == self.length
        return at_end & self.intact, at_end | ~self.intact if self.hasty else at_end

    def observe(self) -> dict[str, NDArray[Any]]:
        seen = np.vstack([np.eye(self.length, dtype=np.float32), np.zeros((1, self.length), np.float32)])  # [L + 1, L]
        return {"position": seen[np.where(self.intact, self.position, self.length)]}


class CombinationLock(Lock):
    """Twelve positions with one right action of four each: by chance one episode in 16.8 million opens it. It is hasty.

    Parameter ``start``, 1 to 12: how far from the end an episode begins; 12 is the whole lock.
    """

    length = 12
    hasty = True

    def __init__(self, name: str, num_envs: int) -> None:
        super().__init__(name, num_envs, {"start": 12.0}, discrete=(4,))
        self.code: NDArray[np.int64] = np.random.default_rng(SECRET).integers(4, size=12)  # [L]

    def begin(self, env: int, generator: np.random.Generator) -> None:
        super().begin(env, generator)
        start = self.parameters["start"][env]
        assert start in range(1, 13), f"start must be 1 to 12, not {start}"
        self.position[env] = self.length - int(start)

    def right(self, actions: Actions) -> NDArray[np.bool_]:
        assert actions.discrete is not None
        return np.asarray(actions.discrete[:, 0] == self.code[self.position])


class DialLock(Lock):
    """Three dials, each turned to a number in [-1, 1]: right is what is ``tolerance`` or less away from the secret one.

    Parameter ``tolerance``, 0.01 for the lock as it is: by chance one episode in a million opens that. It is not hasty:
    SAC's objective pays for entropy, so that an episode which goes on is a reward, and gives right actions away.
    """

    length = 3
    hasty = False

    def __init__(self, name: str, num_envs: int) -> None:
        bounds = {"low": -np.ones(1, np.float32), "high": np.ones(1, np.float32)}
        super().__init__(name, num_envs, {"tolerance": 0.01}, continuous=1, **bounds)
        self.code: NDArray[np.float64] = np.random.default_rng(SECRET).uniform(-0.8, 0.8, 3)  # [L]

    def right(self, actions: Actions) -> NDArray[np.bool_]:
        assert actions.continuous is not None
        return np.asarray(np.abs(actions.continuous[:, 0] - self.code[self.position]) <= self.parameters["tolerance"])


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [EnvironmentSpec(name="lock", target="locks:make_environment", summary="locks that open by no chance")]


def make_environment(settings: EnvironmentSettings, run: RunContext) -> Lock:
    kind = {"combination": CombinationLock, "dials": DialLock}[settings.id or ""]
    return kind(run.behavior_names[0], run.num_envs)
