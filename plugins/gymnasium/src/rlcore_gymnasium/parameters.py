"""Environment parameters of Gymnasium environments that are stepped in this process.

A parameter reaches an environment as an attribute, as a constructor argument or as a reset option
(:class:`WayFinder`), and is set when an episode starts (:class:`ParameterDelivery`).
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator
from numpy.typing import NDArray

from rlcore import (
    ConfigError,
    Parameters,
    SavedValueError,
    did_you_mean,
    nearest,
    one_line,
    saved_array,
    saved_entry,
    saved_float,
    saved_mapping,
)
from rlcore_gymnasium.cartpole_physics import derive, derived_names
from rlcore_gymnasium.parameter_settings import ParameterRoute, last_name, read, write
from rlcore_gymnasium.saved_wrappers import Env
from rlcore_gymnasium.video import behind_camera

# The type to which a value is converted, or None if the environment does not declare one.
Kind = type | None

_NO_PARAMETERS = ("self", "render_mode")
_WORDS = {"attribute": "attribute", "constructor": "constructor argument", "reset_option": "reset option"}


class ParameterDelivery:
    """Holds the values of the next episode of each environment, and sets them when the episode starts.

    Attributes:
        made_with: For each environment, the arguments of its constructor that are parameters.
    """

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
        self.made_with: list[dict[str, Any]] = [{} for _ in envs]

    def require(self, names: Iterable[str]) -> None:
        """Raise ConfigError unless the environment has all of these parameters."""
        env = behind_camera(self._envs[0])
        new = {name: self._finder.find(name, env) for name in names if name not in self._ways}
        name_of_way = {way: name for name, way in self._ways.items()}
        for name, way in new.items():
            # Of two parameters that set one number, one would be ignored.
            other = name_of_way.setdefault(way, name)
            if other != name:
                raise ConfigError(
                    f"is {way} of {self._finder.env_id}, and so is {other!r}; keep one of the two",
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
        arguments: dict[str, Any] = {}
        attributes: dict[str, Any] = {}
        options: dict[str, Any] = {}
        by_way = {"constructor": arguments, "attribute": attributes, "reset_option": options}
        for name, values in self._next_values.items():
            way = self._ways[name]
            value = float(values[index])
            by_way[way.how][way.target] = self._number(name, way, value)
        # The constructor first: a new environment has its attributes of before no more.
        if arguments != self.made_with[index]:
            self._remake(index, arguments)
            self.made_with[index] = arguments
        env = behind_camera(self._envs[index])
        for path, value in attributes.items():
            write(env, path, value)
        if attributes:
            derive(env.unwrapped)
        return options

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The values of open episodes and of the next ones; JSON values and arrays [N] by name."""
        envs = [behind_camera(env) for env in self._envs]
        # Read from the environments: an open episode may have another value than the next one.
        attributes = {}
        for name in self._next_values:
            way = self._ways[name]
            if way.how == "attribute":
                numbers = [read(env, way.target) for env in envs]
                attributes[name] = np.array(numbers, np.float64)
        made_with = []
        for arguments in self.made_with:
            made_with.append({name: float(value) for name, value in arguments.items()})
        return {
            "next": {name: values.copy() for name, values in self._next_values.items()},
            "made_with": made_with,
            "attributes": attributes,
        }

    def remake(self, state: Mapping[str, Any]) -> None:
        """Make the environments again that :meth:`state_dict` had made with other arguments. Raises SavedValueError."""
        try:
            self.require(saved_mapping(state, "next"))
        except ConfigError as error:
            raise SavedValueError(f"the entry 'parameters' is not of this environment: {error}") from error
        way_of_argument = {way.target: way for way in self._ways.values() if way.how == "constructor"}
        made_with = saved_entry(state, "made_with")
        if not isinstance(made_with, list) or len(made_with) != len(self._envs):
            raise SavedValueError(f"the entry 'made_with' has not one entry for each of {len(self._envs)} environments")
        for index, saved in enumerate(made_with):
            if not isinstance(saved, Mapping) or not saved.keys() <= way_of_argument.keys():
                raise SavedValueError("the entry 'made_with' has arguments that are not parameters of this run")
            arguments = {}
            for name in saved:
                way = way_of_argument[name]
                number = saved_float(saved, name)
                arguments[name] = self._number(name, way, number)
            if arguments != self.made_with[index]:
                self._remake(index, arguments)
                self.made_with[index] = arguments

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Give open episodes their values, after :meth:`remake` and the resets. Raises SavedValueError."""
        upcoming = saved_mapping(state, "next")
        saved = saved_mapping(state, "attributes")
        rows = (len(self._envs),)
        next_values = {name: saved_array(upcoming, name, np.float64, rows).copy() for name in upcoming}
        attributes = {name: saved_array(saved, name, np.float64, rows) for name in saved}
        for name in {*upcoming, *saved}:
            if name not in self._ways or (name in saved and self._ways[name].how != "attribute"):
                raise SavedValueError(f"the entry 'parameters' has {name!r}, which is not a parameter of this run")
        # `derive` is not called: the derived numbers are in the state of each environment.
        for name, values in attributes.items():
            way = self._ways[name]
            for env, value in zip(self._envs, values.tolist(), strict=True):
                write(behind_camera(env), way.target, self._number(name, way, value))
        self._next_values = next_values

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


# ---------------------------------------------------------------- ways


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


@attrs.frozen(eq=False)
class WayFinder:
    """Looks in ``environment.parameters``, then for an attribute, then for a constructor argument."""

    _spec: EnvSpec
    env_id: str
    _routes: Mapping[str, ParameterRoute]

    def find(self, name: str, env: Env) -> Way:
        """Return the way of the parameter ``name`` for environments like ``env``.

        Raises ConfigError if there is none.
        """
        route = self._routes.get(name)
        if route is None:
            return self._by_name(name, env)
        if route.attribute is not None:
            way = self._attribute(name, route.attribute, env)
        elif route.constructor is not None:
            way = self._argument(name, route.constructor)
        elif route.reset_option is not None:
            way = Way("reset_option", route.reset_option)
        else:
            way = self._by_name(name, env)
        if route.whole is None:
            return way
        # The environment's own type is kept where it fits, such as np.int64.
        if way.kind is not None and is_whole(way.kind) == route.whole:
            return way
        return attrs.evolve(way, kind=int if route.whole else float)

    def _by_name(self, name: str, env: Env) -> Way:
        attributes = _settable(env)
        if name in attributes:
            return self._attribute(name, f"unwrapped.{name}", env)
        arguments, _ = numeric_arguments(self._spec)
        if name in arguments:
            return Way("constructor", name, arguments[name])
        configured = [route for route in self._routes if route != name]
        known = list(dict.fromkeys([*configured, *attributes, *arguments]))
        raise ConfigError(
            f"{self.env_id} has no such parameter; it has {', '.join(known)}; to use another attribute or a reset "
            f"option, name it in environment.parameters.{name}{did_you_mean(name, known)}",
            key=("environment_parameters", name),
        )

    def _attribute(self, name: str, path: str, env: Env) -> Way:
        inner = path.removeprefix("unwrapped.")
        numbers = _settable(env)
        try:
            value = read(env, path)
            if inner in derived_names(env.unwrapped):
                raise TypeError("it follows from its other numbers")
            kind = kind_of(value)
            if value is not None:
                write(env, path, value)
        except (Exception, SystemExit) as error:
            close = nearest(last_name(path), numbers)
            hint = f"; did you mean 'unwrapped.{close}'?" if close and f"unwrapped.{close}" != path else ""
            paths = ", ".join(f"unwrapped.{number}" for number in numbers)
            raise ConfigError(
                f"{path!r} of {self.env_id} cannot be set: {one_line(error)}; its numbers are {paths}{hint}",
                key=("environment", "parameters", name, "attribute"),
            ) from error
        if is_whole(kind):  # for example goal_velocity=0 in a constructor, which need not be whole
            arguments, _ = numeric_arguments(self._spec)
            kind = arguments.get(inner, kind)
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


# ---------------------------------------------------------------- numbers


def kind_of(value: Any) -> Kind:
    """Return the type of a number, or None for None. Raises TypeError for other values."""
    if value is None:
        return None
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        return type(value)
    raise TypeError(f"is a {type(value).__name__}, not a number")


def is_whole(kind: Kind) -> bool:
    return kind is not None and issubclass(kind, int | np.integer)


def as_number(value: float, kind: Kind) -> Any:
    """Return ``value`` with the expected type; without one, a whole number becomes an int.

    Raises ValueError if impossible.
    """
    if kind is None:
        return int(value) if value.is_integer() else value
    if is_whole(kind):
        if not value.is_integer():
            raise ValueError("is not a whole number")
        return kind(int(value))
    return kind(value)


def numeric_attributes(env: Env) -> list[str]:
    """Return the names of the public numbers of an unwrapped environment or its class."""
    # Not with getattr, which would run properties.
    values: dict[str, Any] = {}
    for cls in reversed(type(env).__mro__):
        values |= vars(cls)
    values |= getattr(env, "__dict__", {})
    public = {name: value for name, value in values.items() if not name.startswith("_")}
    return sorted(name for name, value in public.items() if _is_number(value))


def numeric_arguments(spec: EnvSpec) -> tuple[dict[str, Kind], bool]:
    """Return the numeric arguments of an environment's constructor, and whether it accepts any others."""
    creator = spec.entry_point if callable(spec.entry_point) else load_env_creator(str(spec.entry_point))
    kinds: dict[str, Kind] = {}
    takes_any = False
    for name, parameter in _signature(creator).items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            takes_any = True
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL and name not in _NO_PARAMETERS:
            kind, may_be_number = _kind_of_argument(parameter)
            if may_be_number:
                kinds[name] = kind
    kinds["max_episode_steps"] = int  # an argument of gymnasium.make for every environment
    return kinds, takes_any


def _is_number(value: Any) -> bool:
    try:
        return kind_of(value) is not None
    except TypeError:
        return False


def _signature(creator: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(creator, eval_str=True).parameters
    except (NameError, SyntaxError, TypeError, AttributeError):  # an annotation without a meaning here
        return inspect.signature(creator).parameters
    except ValueError:  # a constructor written in C
        return {}


def _kind_of_argument(parameter: inspect.Parameter) -> tuple[Kind, bool]:
    """Return the type of the argument, and whether it can be a number at all."""
    hint = parameter.annotation
    default = parameter.default
    if hint is not inspect.Parameter.empty and hint is not Any:
        is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
        members = typing.get_args(hint) if is_union else (hint,)
        kinds = set(members)
        # An annotation that could not be evaluated is a text.
        if float in kinds or "float" in kinds:
            return float, True
        return int, int in kinds or "int" in kinds
    if default is inspect.Parameter.empty or default is None:
        return None, True
    if isinstance(default, float):
        return float, True
    # A default of 10 does not exclude 9.81.
    return None, _is_number(default)
