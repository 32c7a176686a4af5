"""The rules of goal environments: their own ``compute_reward`` and ``compute_terminated``, for many rows at once.

The methods are those of an environment of their own, which is made when they are first needed, in whichever process
that is. They cannot disturb an episode there: ``compute_terminated`` of gymnasium-robotics' mazes of version 3 draws
another goal for its environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import EnvironmentFailed
from rlcore_gymnasium.failures import failing_as
from rlcore_gymnasium.saved_wrappers import Env
from rlcore_gymnasium.spaces import ObservationCodec, ObservationPart
from rlcore_gymnasium.spaces.values import REAL_KINDS

ACHIEVED = "achieved_goal"
DESIRED = "desired_goal"
REWARD = "compute_reward"
TERMINATED = "compute_terminated"

MakeEnv = Callable[[], Env]
"""Makes an environment; it can be pickled if environments of the run are in other processes."""


def goal_rules(env: Env, observing: ObservationCodec, make: MakeEnv, env_id: str) -> GoalMethods | None:
    """Return the rules of ``env`` if it is a goal environment; ``make`` makes another one.

    A goal environment has a method ``compute_reward(achieved_goal, desired_goal, info)``, and observations with the
    names of its first two arguments.
    """
    parts = {part.spec.name: part for part in observing.parts if isinstance(part, ObservationPart)}
    if not {ACHIEVED, DESIRED} <= parts.keys() or not env.has_wrapper_attr(REWARD):
        return None
    return GoalMethods(env_id, parts[ACHIEVED], parts[DESIRED], make)


@attrs.define(eq=False)
class GoalMethods:
    """``compute_reward`` and ``compute_terminated`` of one environment, as :class:`rlcore.GoalRules`.

    ``info`` is empty. A method that does not take many rows at once, and returns one number for all of them or fails,
    is called for each row.
    """

    _env_id: str
    _achieved: ObservationPart
    _desired: ObservationPart
    _make: MakeEnv
    _env: Env | None = attrs.field(default=None, init=False)

    def __getstate__(self) -> Mapping[str, Any]:
        # Another process makes its environment itself: few of them can be pickled.
        state = {}
        for field in attrs.fields(GoalMethods):
            if field.name != "_env":
                state[field.name] = getattr(self, field.name)
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._env = None

    def reward(self, achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.float32]:
        """Return what ``compute_reward`` returns for B goals, each [B, *shape] as stored: [B]."""
        return self._rows(REWARD, achieved, desired, REAL_KINDS).astype(np.float32)

    def terminated(self, achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Return what ``compute_terminated`` returns, [B]; None if the environment has no such method."""
        if not self._goal_env.has_wrapper_attr(TERMINATED):
            return None
        return self._rows(TERMINATED, achieved, desired, "b").astype(np.bool_)

    @property
    def _goal_env(self) -> Env:
        """The environment of these methods; some need a reset before."""
        if self._env is None:
            with failing_as(f"{self._env_id}: another environment, for the rewards of other goals, cannot be made"):
                env = self._make()
                env.reset(seed=0)
            self._env = env
        return self._env

    def _rows(self, name: str, achieved: NDArray[Any], desired: NDArray[Any], kinds: str) -> NDArray[Any]:
        """What the method ``name`` returns for each row, [B], of numbers of ``kinds``."""
        method = partial(self._goal_env.get_wrapper_attr(name), info={})
        achieved_goals = self._achieved.values(achieved)
        desired_goals = self._desired.values(desired)
        try:
            results = np.asarray(method(achieved_goals, desired_goals))
        except Exception:  # a method for single goals may fail with many, as `if distance < 0.1` does
            results = np.empty(0)
        rows = (len(achieved),)
        # A wrong shape is not yet an error either: a method for single goals reduces all rows to one number.
        if results.shape == rows and results.dtype.kind in kinds:
            return results
        with failing_as(f"{self._env_id}: {name} failed"):
            pairs = zip(achieved_goals, desired_goals, strict=True)
            results = np.array([method(*pair) for pair in pairs])
        if results.shape != rows or results.dtype.kind not in kinds:
            one = "a number" if name == REWARD else "True or False"
            first = results[:1].tolist()
            raise EnvironmentFailed(f"{self._env_id}: {name} must return {one} for a goal, not {first}")
        return results
