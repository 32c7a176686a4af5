"""The numbers that an environment has, and conversion of environment parameters to the expected types."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator

# The type to which a value is converted, or None if the environment does not declare one.
Kind = type | None

_NO_PARAMETERS = ("self", "render_mode")


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


def numeric_attributes(env: gymnasium.Env[Any, Any]) -> list[str]:
    """Return the names of the public numbers of an unwrapped environment or its class."""
    found = {name: value for cls in reversed(type(env).__mro__) for name, value in vars(cls).items()}
    found |= getattr(env, "__dict__", {})
    return sorted(name for name, value in found.items() if not name.startswith("_") and _is_number(value))


def numeric_arguments(spec: EnvSpec) -> tuple[dict[str, Kind], bool]:
    """Return the numeric arguments of an environment's constructor, and whether it accepts any others."""
    creator = spec.entry_point if callable(spec.entry_point) else load_env_creator(str(spec.entry_point))
    found: dict[str, Kind] = {}
    takes_any = False
    for name, parameter in _signature(creator).items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            takes_any = True
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL and name not in _NO_PARAMETERS:
            kind, may_be = _kind_of_argument(parameter)
            if may_be:
                found[name] = kind
    return found | {"max_episode_steps": int}, takes_any  # an argument of gymnasium.make for every environment


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
    hint, default = parameter.annotation, parameter.default
    if hint is not inspect.Parameter.empty and hint is not Any:
        names = {"int": int, "float": float}
        members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
        kinds = {names.get(member, member) if isinstance(member, str) else member for member in members}
        return (float, True) if float in kinds else (int, int in kinds)
    if default is inspect.Parameter.empty or default is None:
        return None, True
    # A default of 10 does not exclude 9.81.
    return (float, True) if isinstance(default, float) else (None, _is_number(default))
