"""Gymnasium's vectorized CartPole, changed to reset in the step that ends an episode.

Gymnasium's own class resets one step later and ignores an action for it. Here, the ended rows start a new episode at
once, with the same generator and bounds, so no step is lost and every row acts at every step.

Environment parameters are arrays [N]: Gymnasium's equations also work with an array in place of a number, and give
equal results bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    AgentBatch,
    EpisodeSeeds,
    Parameters,
    SavedValueError,
    generator_state,
    refuse_unknown_parameters,
    restore_generator,
    saved_array,
    saved_mapping,
)
from rlcore_gymnasium.cartpole_physics import PARAMETERS, derive
from rlcore_gymnasium.native import NativeEnvironment
from rlcore_gymnasium.parameter_settings import ParameterRoute
from rlcore_gymnasium.spaces import OBSERVATION, Buffers, Observations


class PushLeftOrRight:
    """Replaces the action space, whose own check takes a sixth of the time of a step."""

    def contains(self, action: NDArray[np.int64]) -> bool:
        return not (action >> 1).any()  # any value except 0 and 1, including negative numbers, leaves a bit


def native_parameters(names: Iterable[str], routes: Mapping[str, ParameterRoute]) -> dict[str, str] | None:
    """Return the attribute of each parameter, and all possible attributes; None if arrays do not work."""
    # A parameter that has the name of an attribute may be routed to another one.
    attributes = {attribute: attribute for attribute in PARAMETERS if attribute not in routes}
    chosen: list[str] = []
    for name in names:
        attribute = name
        route = routes.get(name)
        if route is not None:
            if route.whole is not None:  # arrays are of real numbers
                return None
            attribute = (route.attribute or "").removeprefix("unwrapped.")
        if attribute not in PARAMETERS:
            return None
        attributes[name] = attribute
        chosen.append(attribute)
    if len(set(chosen)) != len(chosen):
        # Two parameters of one attribute are an error, which environments that are stepped one by one report.
        return None
    return attributes


class CartPoleEnvironment(NativeEnvironment):
    """CartPole with same-step reset that saves and restores its state.

    ``attributes`` maps each environment parameter to one of :data:`PARAMETERS`.
    """

    vector: Any  # a CartPoleVectorEnv, whose annotations declare its state as None and its gravity as a number

    def __init__(
        self,
        env_id: str,
        behavior: str,
        vector: Any,
        attributes: Mapping[str, str] | None = None,
        observations: Observations | None = None,
    ) -> None:
        super().__init__(env_id, behavior, vector, observations)
        vector.action_space = PushLeftOrRight()
        self._attributes = attributes or {name: name for name in PARAMETERS}
        # By attribute, [N] each: the values of open episodes and of the next episodes.
        self._values: dict[str, NDArray[np.float64]] = {}
        self._next_values: dict[str, NDArray[np.float64]] = {}
        self._source: Parameters | None = None  # the mapping from which the next values come

    def try_resets(self) -> None:
        """Do nothing: all that these environments draw from is saved."""

    def require_parameters(self, names: Iterable[str]) -> None:
        refuse_unknown_parameters(names, self._attributes, self.env_id)

    def set_parameters(self, parameters: Parameters) -> None:
        if parameters is self._source:  # equal arrays, which may contain other numbers now
            return
        super().set_parameters(parameters)
        self._source = parameters
        for name, values in parameters.items():
            attribute = self._attributes[name]
            self._next_values[attribute] = values
            if attribute not in self._values:  # open episodes keep the number that the constructor gave all of them
                default = getattr(self.vector, attribute)
                self._put(attribute, np.full(self.num_envs, default, np.float64))

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        self._start_episodes(slice(None))
        return super().reset(seeds, episodes)

    def _put(self, attribute: str, values: NDArray[np.float64]) -> None:
        self._values[attribute] = values
        setattr(self.vector, attribute, values)

    def _start_episodes(self, rows: Any) -> None:
        """Start the next episodes of ``rows``."""
        if self._next_values:
            for attribute, values in self._next_values.items():
                self._values[attribute][rows] = values[rows]
            derive(self.vector)

    def _step(self, action: Any) -> dict[str, AgentBatch]:
        vector = self.vector
        observations, self._reward, terminated, truncated, _ = vector.step(action)
        # prev_done marks rows that Gymnasium would reset at the next step; clearing it prevents this.
        ended = vector.prev_done.nonzero()[0]
        final: Buffers | None = None
        if ended.size:
            truncated &= ~terminated
            final = {OBSERVATION: observations[ended]}
            # As in Gymnasium's reset: the same bounds, from the same generator.
            shape = (4, len(ended))
            state = vector.np_random.uniform(low=vector.low, high=vector.high, size=shape)
            vector.state[:, ended] = state
            vector.steps[ended] = 0
            vector.prev_done[ended] = False
            first = ended[0]
            # Mostly one row has ended, and a slice is faster than an array of one index.
            self._start_episodes(ended if len(ended) > 1 else slice(first, first + 1))
            observations[ended] = state.T
            self.episodes[ended] += 1
        batch = AgentBatch({OBSERVATION: observations}, self._reward, terminated, truncated, ended, final)
        return {self._behavior: batch}

    def state_dict(self) -> dict[str, Any]:
        vector = self.vector
        return {
            "episodes": self.episodes.copy(),
            "state": vector.state.copy(),  # [4, N] float64
            "steps": vector.steps.copy(),
            "generator": generator_state(vector.np_random),
            "parameters": {name: values.copy() for name, values in self._values.items()},
            "next_parameters": {name: values.copy() for name, values in self._next_values.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        vector = self.vector
        rows = (self.num_envs,)
        vector.reset(seed=0)  # creates the arrays; the seed is replaced below
        self.episodes = saved_array(state, "episodes", np.int64, rows).copy()
        vector.state = saved_array(state, "state", np.float64, (4, *rows)).copy()
        vector.steps = saved_array(state, "steps", np.int32, rows).copy()
        restore_generator(vector.np_random, saved_mapping(state, "generator"))
        saved = saved_mapping(state, "parameters")
        upcoming = saved_mapping(state, "next_parameters")
        known = set(self._attributes.values())
        for attribute in {*saved, *upcoming}:
            if attribute not in known:
                raise SavedValueError(f"the entry 'parameters' has {attribute!r}, which is not a parameter of this run")
        for attribute in saved:
            values = saved_array(saved, attribute, np.float64, rows)
            self._put(attribute, values.copy())
        self._next_values = {}
        for attribute in upcoming:
            values = saved_array(upcoming, attribute, np.float64, rows)
            self._next_values[attribute] = values.copy()
        derive(vector)
        self._source = None
        self._reward = np.zeros(self.num_envs, np.float32)
        # The observation of CartPole is its state, in the precision of the space.
        observations = vector.state.T.astype(np.float32)
        return self._batch({OBSERVATION: observations})
