"""Passes environment parameters to environments that are stepped in this process, one episode at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore import ConfigError, Parameters, SavedValueError, saved_array, saved_entry, saved_float, saved_mapping
from rlcore_gymnasium.attribute_path import read, write
from rlcore_gymnasium.cartpole_physics import derive
from rlcore_gymnasium.numbers import as_number
from rlcore_gymnasium.video import behind_camera
from rlcore_gymnasium.ways import Way, WayFinder

Env = gymnasium.Env[Any, Any]


class ParameterDelivery:
    """Holds the values of the next episode of each environment, and sets them when the episode starts."""

    def __init__(self, finder: WayFinder, envs: list[Env], remake: Callable[[int, Mapping[str, Any]], None]) -> None:
        """``remake(index, arguments)`` replaces ``envs[index]`` by an environment with these arguments.

        :class:`~rlcore_gymnasium.in_process.InProcessEnvironment` provides it, and raises ConfigError in it if the
        spaces change.
        """
        self._finder = finder
        self._envs = envs
        self._remake = remake
        self._ways: dict[str, Way] = {}
        self._next_values: dict[str, NDArray[np.float64]] = {}  # by name, [N]
        self._made_with: list[dict[str, Any]] = [{} for _ in envs]

    def require(self, names: Iterable[str]) -> None:
        """Raise ConfigError unless the environment has all of these parameters."""
        new = {name: self._finder.find(name, behind_camera(self._envs[0])) for name in names if name not in self._ways}
        known = {way: name for name, way in self._ways.items()}
        for name, way in new.items():
            if known.setdefault(way, name) != name:
                raise ConfigError(
                    f"is {way} of {self._finder.env_id}, and so is {known[way]!r}; keep one of the two",
                    key=("environment_parameters", name),
                )
        self._ways |= new

    def set(self, parameters: Parameters) -> None:
        """Set the values of the next episode of each environment, ``parameters[name]`` [N]."""
        self.require(parameters)
        self._next_values |= parameters

    def begin(self, index: int) -> dict[str, Any]:
        """Prepare an environment for the episode that it starts; return the options of its reset."""
        if not self._next_values:
            return {}
        brought: dict[str, dict[str, Any]] = {"constructor": {}, "attribute": {}, "reset_option": {}}
        for name, values in self._next_values.items():
            way = self._ways[name]
            brought[way.how][way.target] = self._number(name, way, float(values[index]))
        if brought["constructor"] != self._made_with[index]:
            self._remake(index, brought["constructor"])
            self._made_with[index] = brought["constructor"]
        env = behind_camera(self._envs[index])
        for path, value in brought["attribute"].items():
            write(env, path, value)
        if brought["attribute"]:
            derive(env.unwrapped)
        return brought["reset_option"]

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The values of open episodes and of the next ones; JSON values and arrays [N] by name."""
        ways = {name: self._ways[name] for name in self._next_values}
        envs = [behind_camera(env) for env in self._envs]
        return {
            "next": {name: values.copy() for name, values in self._next_values.items()},
            "made_with": [{name: float(value) for name, value in made.items()} for made in self._made_with],
            "attributes": {
                name: np.array([read(env, way.target) for env in envs], np.float64)
                for name, way in ways.items()
                if way.how == "attribute"
            },
        }

    def remake(self, state: Mapping[str, Any]) -> None:
        """Make the environments again that :meth:`state_dict` had made with other arguments. Raises SavedValueError."""
        try:
            self.require(saved_mapping(state, "next"))
        except ConfigError as error:
            raise SavedValueError(f"the entry 'parameters' is not of this environment: {error}") from error
        kinds = {way.target: way for way in self._ways.values() if way.how == "constructor"}
        made_with = saved_entry(state, "made_with")
        if not isinstance(made_with, list) or len(made_with) != len(self._envs):
            raise SavedValueError(f"the entry 'made_with' has not one entry for each of {len(self._envs)} environments")
        for index, saved in enumerate(made_with):
            if not isinstance(saved, Mapping) or not saved.keys() <= kinds.keys():
                raise SavedValueError("the entry 'made_with' has arguments that are not parameters of this run")
            made = {name: self._number(name, kinds[name], saved_float(saved, name)) for name in saved}
            if made != self._made_with[index]:
                self._remake(index, made)
                self._made_with[index] = made

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Give open episodes their values, after :meth:`remake` and the resets. Raises SavedValueError."""
        upcoming, saved = saved_mapping(state, "next"), saved_mapping(state, "attributes")
        arrays = {
            section: {name: saved_array(values, name, np.float64, (len(self._envs),)).copy() for name in values}
            for section, values in (("next", upcoming), ("attributes", saved))
        }
        for name in {*upcoming, *saved}:
            if name not in self._ways or (name in saved and self._ways[name].how != "attribute"):
                raise SavedValueError(f"the entry 'parameters' has {name!r}, which is not a parameter of this run")
        for name, values in arrays["attributes"].items():
            way = self._ways[name]
            for index, env in enumerate(self._envs):
                write(behind_camera(env), way.target, self._number(name, way, float(values[index])))
        self._next_values = arrays["next"]

    # ------------------------------------------------------------ inside

    def _number(self, name: str, way: Way, value: float) -> Any:
        try:
            return as_number(value, way.kind)
        except ValueError:
            raise ConfigError(
                f"{value:g} is not a whole number, but {way} of {self._finder.env_id} "
                f"is; use whole numbers, or set whole: false in environment.parameters.{name}",
                key=("environment_parameters", name),
            ) from None
