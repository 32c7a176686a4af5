"""Brings the values of environment parameters to copies that are stepped in this process, one episode at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.environment import Parameters
from rlcore.errors import ConfigError
from rlcore_gymnasium.attribute_path import write
from rlcore_gymnasium.cartpole_physics import derive
from rlcore_gymnasium.numbers import as_number
from rlcore_gymnasium.video import behind_camera
from rlcore_gymnasium.ways import Way, WayFinder

Env = gymnasium.Env[Any, Any]


class ParameterDelivery:
    """Knows what each copy's next episode begins with, and brings it there."""

    def __init__(self, finder: WayFinder, envs: list[Env], remake: Callable[[int, Mapping[str, Any]], None]) -> None:
        """``remake(copy, arguments)`` replaces ``copies[copy]`` by one made with these constructor arguments."""
        self._finder = finder
        self._envs = envs
        self._remake = remake
        self._ways: dict[str, Way] = {}
        self._told: dict[str, NDArray[np.float64]] = {}  # by name, [N]
        self._made_with: list[dict[str, Any]] = [{} for _ in envs]

    def require(self, names: Iterable[str]) -> None:
        """Raises ConfigError unless the environment has all of these parameters."""
        new = {name: self._finder.find(name, behind_camera(self._envs[0])) for name in names if name not in self._ways}
        known = {way: name for name, way in self._ways.items()}
        for name, way in new.items():
            if known.setdefault(way, name) != name:
                raise ConfigError(
                    f"environment_parameters.{name}: is {way} of {self._finder.env_id}, and so is {known[way]!r}; keep "
                    "one of the two"
                )
        self._ways |= new

    def tell(self, parameters: Parameters) -> None:
        """What each copy's next episode begins with, ``parameters[name]`` [N]."""
        self.require(parameters)
        self._told |= parameters

    def begin(self, index: int) -> dict[str, Any]:
        """Makes the copy ready for the episode it is about to begin; returns the options of its reset."""
        if not self._told:
            return {}
        brought: dict[str, dict[str, Any]] = {"constructor": {}, "attribute": {}, "reset_option": {}}
        for name, values in self._told.items():
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

    def _number(self, name: str, way: Way, value: float) -> Any:
        try:
            return as_number(value, way.kind)
        except ValueError:
            raise ConfigError(
                f"environment_parameters.{name}: {value:g} is no whole number, as {way} of {self._finder.env_id} is; "
                f"give whole ones, or say whole: false in environment.parameters.{name}"
            ) from None
