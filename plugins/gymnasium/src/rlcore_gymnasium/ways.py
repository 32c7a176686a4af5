"""Finds the way in which an environment parameter reaches a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import gymnasium
from gymnasium.envs.registration import EnvSpec

from rlcore import ConfigError, did_you_mean, nearest, one_line
from rlcore_gymnasium.attribute_path import last_name, read, write
from rlcore_gymnasium.cartpole_physics import derived_names
from rlcore_gymnasium.numbers import Kind, is_whole, kind_of, numeric_arguments, numeric_attributes
from rlcore_gymnasium.parameter_settings import ParameterRoute

Env = gymnasium.Env[Any, Any]
_WORDS = {"attribute": "attribute", "constructor": "constructor argument", "reset_option": "reset option"}


@attrs.frozen
class Way:
    """A way to set a parameter.

    ``target`` is an attribute's path, or the name of a constructor argument or reset option.
    """

    how: str  # one of the keys of environment.parameters.NAME
    target: str
    kind: Kind = attrs.field(default=None, eq=False)  # the type that the environment expects there

    def __str__(self) -> str:
        return f"the {_WORDS[self.how]} {self.target!r}"


class WayFinder:
    """Looks in ``environment.parameters``, then for an attribute, then for a constructor argument."""

    def __init__(self, spec: EnvSpec, env_id: str, routes: Mapping[str, ParameterRoute]) -> None:
        self.env_id = env_id
        self._spec = spec
        self._routes = routes

    def find(self, name: str, env: Env) -> Way:
        """Return the way of the parameter ``name`` for environments like ``env``.

        Raises ConfigError if there is none.
        """
        route = self._routes.get(name)
        if route is not None and route.attribute is not None:
            way = self._attribute(name, route.attribute, env)
        elif route is not None and route.constructor is not None:
            way = self._argument(name, route.constructor)
        elif route is not None and route.reset_option is not None:
            way = Way("reset_option", route.reset_option)
        else:
            way = self._by_name(name, env)
        if route is None or route.whole is None or (way.kind is not None and is_whole(way.kind) == route.whole):
            return way
        return attrs.evolve(way, kind=int if route.whole else float)

    def _by_name(self, name: str, env: Env) -> Way:
        attributes = _settable(env)
        if name in attributes:
            return self._attribute(name, f"unwrapped.{name}", env)
        arguments, _ = numeric_arguments(self._spec)
        if name in arguments:
            return Way("constructor", name, arguments[name])
        configured = [known for known in self._routes if known != name]
        has = [
            *([f"those of environment.parameters ({', '.join(configured)})"] if configured else []),
            *([f"the attributes {', '.join(attributes)}"] if attributes else []),
            f"the constructor argument{'s' if len(arguments) > 1 else ''} {', '.join(arguments)}",
        ]
        raise ConfigError(
            f"{self.env_id} has no such parameter; it has {' and '.join(has)}; to "
            f"use another attribute or a reset option, name it in environment.parameters.{name}"
            f"{did_you_mean(name, [*configured, *attributes, *arguments])}",
            key=("environment_parameters", name),
        )

    def _attribute(self, name: str, path: str, env: Env) -> Way:
        key = ("environment", "parameters", name, "attribute")
        numbers = [f"unwrapped.{number}" for number in _settable(env)]
        try:
            value = read(env, path)
        except (AttributeError, LookupError, TypeError):
            close = nearest(last_name(path), _settable(env))
            hint = f"; did you mean 'unwrapped.{close}'?" if close else ""
            has = f"; its numbers are {', '.join(numbers)}" if numbers else ""
            raise ConfigError(f"{self.env_id} has no {path!r}{has}{hint}", key=key) from None
        if path.removeprefix("unwrapped.") in derived_names(env.unwrapped):
            raise ConfigError(
                f"{path!r} of {self.env_id} follows from its other numbers: {', '.join(numbers)}", key=key
            )
        try:
            kind = kind_of(value)
        except TypeError as error:
            raise ConfigError(f"{path!r} of {self.env_id} {error}", key=key) from None
        try:
            if value is not None:
                write(env, path, value)
        except (Exception, SystemExit) as error:
            raise ConfigError(f"{path!r} of {self.env_id} cannot be set: {one_line(error)}", key=key) from error
        if is_whole(kind):  # for example goal_velocity=0 in a constructor, which need not be whole
            kind = numeric_arguments(self._spec)[0].get(path.removeprefix("unwrapped."), kind)
        return Way("attribute", path, kind)

    def _argument(self, name: str, argument: str) -> Way:
        arguments, takes_any = numeric_arguments(self._spec)
        if argument not in arguments and not takes_any:
            raise ConfigError(
                f"{self.env_id} has no argument {argument!r} that takes a "
                f"number; it has {', '.join(arguments)}{did_you_mean(argument, arguments)}",
                key=("environment", "parameters", name, "constructor"),
            )
        return Way("constructor", argument, arguments.get(argument))


def _settable(env: Env) -> list[str]:
    bare = env.unwrapped
    return [name for name in numeric_attributes(bare) if name not in derived_names(bare)]
