"""Plain data into settings classes, strictly, with every error collected at its own line.

A walker of our own rather than cattrs: each error needs the path and line of its value, numbers come as ``5e5`` and
``"5e5"``, and a settings class that refuses its values must not hide the errors of its neighbours.
"""

from __future__ import annotations

import enum
import math
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from rlcore.config.document import Document
from rlcore.config.problems import MAX_PROBLEMS, ConfigErrors, KeyPath, Problem, dotted, shown
from rlcore.errors import ConfigError, PluginError, did_you_mean, nearest
from rlcore.settings.fields import field_info


class _Invalid(enum.Enum):
    INVALID = "a value that was refused; its problem is noted"


INVALID: Final = _Invalid.INVALID

MAX_TOLD = 10 * MAX_PROBLEMS

# Keys that were and are not, and what to do about them.
_REMOVED_KEYS = {
    "framework": "removed: every trainer here brings its own framework; delete this key",
    "parameter_randomization": "removed: samplers stand in environment_parameters, beside lessons",
}


class Problems:
    """Collects the problems of one document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._found: dict[tuple[str, str], Problem] = {}
        self._told = 0  # problems that were told, those of blocks that take them over included

    def add(self, path: KeyPath, message: str, package: str | None = None) -> None:
        """Notes a problem with the value at ``path``; one that a block took over is noted once, where it is written.

        ``package`` is what pip would have to install to mend it.
        """
        origin = self.document.origin(path)
        where = dotted(origin.path)
        one_line = " ".join(message.split())
        self._told += 1
        if self._told > MAX_TOLD:
            self.raise_any()
        if (where, one_line) in self._found:
            return
        told = one_line if origin.path[:2] == path[:2] else f"{one_line} (taken over by {dotted(path[:2])})"
        self._found[where, one_line] = Problem(origin.place, where, told, origin.order, package)
        if len(self._found) >= MAX_PROBLEMS:  # the rest would be of the same making
            self.raise_any()

    def raise_any(self) -> None:
        """Raises :class:`ConfigErrors` if there is a problem."""
        if self._found:
            raise ConfigErrors(self._found.values())


def build(
    cls: type,
    data: Any,
    path: KeyPath,
    problems: Problems,
    *,
    ready: Mapping[str, Any] | None = None,
    also_allowed: Iterable[str] = (),
    no_keys: Iterable[str] = (),
    elsewhere: Mapping[str, str] | None = None,
) -> Any:
    """An instance of the settings class ``cls`` from a mapping, or INVALID.

    ``ready`` holds fields the caller has built (INVALID among them); ``also_allowed`` names keys it takes care of,
    ``no_keys`` names fields that are not for a file, ``elsewhere`` says of keys that belong
    into another block where that is.
    """
    if not isinstance(data, Mapping):
        problems.add(path, f"must be a mapping of settings, not {shown(data)}")
        return INVALID
    fields = settings_fields(cls)
    types_of = field_types(cls)
    values: dict[str, Any] = dict(ready or {})
    also_allowed = (*also_allowed, *values)
    allowed = dict.fromkeys(key for key in (*fields, *also_allowed) if key not in no_keys)
    for key in data:
        if key not in allowed:
            problems.add((*path, key), _unknown_key(key, allowed, elsewhere or {}))
    valid = INVALID not in values.values() and all(key in allowed for key in data)
    for key, attribute in fields.items():
        if key in also_allowed:
            continue
        if key in data:
            value = _field(attribute, data[key], types_of[attribute.name], (*path, key), problems)
            values[key] = value
            valid = valid and value is not INVALID
        elif attribute.default is attrs.NOTHING:
            problems.add((*path, key), "missing; it has no default")
            valid = False
    if not valid:
        _check_rest(cls, values, [key for key in data if key not in allowed], path, problems)
        return INVALID
    try:
        return cls(**values)
    except (ConfigError, ValueError, TypeError) as error:
        key, message = _blame(cls, error, fields)
        problems.add((*path, key) if key else path, message)
        return INVALID


def _check_rest(
    cls: type, values: Mapping[str, Any], unknown: Sequence[str], path: KeyPath, problems: Problems
) -> None:
    """Notes what the class itself has against the fields that are valid, so that one look shows all there is.

    It gets its defaults for the rest. A complaint that names one of those may be of the default, and is left out.
    """
    fields = settings_fields(cls)
    doubtful = {key for key in fields if values.get(key) is INVALID} | {nearest(key, fields) for key in unknown}
    try:
        cls(**{key: value for key, value in values.items() if value is not INVALID})
    except (ConfigError, ValueError) as error:
        if not doubtful & set(re.findall(r"\w+", str(error))):
            key, message = _blame(cls, error, fields)
            problems.add((*path, key) if key else path, message)
    except Exception:  # a class that cannot do with its defaults; what is wrong with the values is noted already
        return


def structure(value: Any, kind: Any, path: KeyPath, problems: Problems) -> Any:
    """``value`` as the annotated type ``kind``, or INVALID."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object:
        return value
    if origin in (typing.Union, types.UnionType):
        return _union(value, arguments, path, problems)
    if attrs.has(kind):
        return build(kind, value, path, problems)
    if origin is Literal:
        if value in arguments and type(value) in {type(argument) for argument in arguments}:
            return value
        return _refuse(path, problems, value, one_of(arguments), arguments)
    if _is_list(kind):
        return _sequence(value, origin, arguments, path, problems)
    if origin in (dict, Mapping):
        return _mapping(value, arguments[1], path, problems)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        choices = {member.value: member for member in kind}
        if isinstance(value, str | int) and value in choices:
            return choices[value]
        return _refuse(path, problems, value, one_of(choices), choices)
    convert = _SCALARS.get(kind)
    if convert is not None:
        converted = convert(value)
        return _refuse(path, problems, value, _NAMES[kind]) if converted is INVALID else converted
    if kind in (list, tuple, dict):
        return structure(value, {list: list[Any], tuple: tuple[Any, ...], dict: dict[str, Any]}[kind], path, problems)
    raise PluginError(f"{dotted(path)}: settings of type {kind!r} cannot be read from a file; use plain types")


def settings_fields(cls: type) -> dict[str, attrs.Attribute[Any]]:
    """The fields of a settings class by the key they have in a file."""
    if not attrs.has(cls):
        raise PluginError(f"{cls.__module__}.{cls.__qualname__}: a settings class must be an attrs class")
    return {attribute.alias or attribute.name: attribute for attribute in attrs.fields(cls) if attribute.init}


@lru_cache(maxsize=256)
def field_types(cls: type) -> Mapping[str, Any]:
    """The types of a settings class, with string annotations resolved."""
    try:
        return typing.get_type_hints(cls)
    except NameError as error:
        raise PluginError(
            f"{cls.__module__}.{cls.__qualname__}: {error}; a settings class needs its types at run time, "
            "so import them outside TYPE_CHECKING"
        ) from error


def default_of(attribute: attrs.Attribute[Any]) -> Any:
    """The default of a field; attrs.NOTHING if it must be given."""
    default: Any = attribute.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return attrs.NOTHING if default.takes_self else default.factory()
    return default


def one_of(choices: Iterable[Any]) -> str:
    """``one of a, b``."""
    return f"one of {', '.join(map(str, choices))}"


def _field(attribute: attrs.Attribute[Any], raw: Any, kind: Any, path: KeyPath, problems: Problems) -> Any:
    info = field_info(attribute)
    if info.not_supported is not None:
        value = structure(raw, kind, path, Problems(problems.document))
        if value is not INVALID and value == default_of(attribute):
            return value
        problems.add(path, f"not supported yet: {info.not_supported}")
        return INVALID
    value = structure(raw, kind, path, problems)
    if value is INVALID:
        return INVALID
    problem = info.problem(value)
    if problem is not None:
        hint = did_you_mean(value, map(str, info.choices)) if info.choices and isinstance(value, str) else ""
        problems.add(path, f"{problem}, not {shown(raw)}{hint}")
        return INVALID
    return value


def _unknown_key(key: str, allowed: Iterable[str], elsewhere: Mapping[str, str]) -> str:
    if key in _REMOVED_KEYS:
        return _REMOVED_KEYS[key]
    hint = f"; did you mean {elsewhere[key]}?" if key in elsewhere else did_you_mean(key, allowed)
    return f"unknown key{hint} (allowed: {', '.join(allowed) or 'none'})"


def _blame(cls: type, error: Exception, fields: Iterable[str]) -> tuple[str | None, str]:
    """The field a settings class complains of, if its message begins with ``Class.field:`` or ``field:``."""
    message = str(error) or type(error).__name__
    match = re.match(rf"(?:{cls.__name__}\.)?(\w+):? (.*)", message, re.DOTALL)
    if match and match[1] in fields:
        return match[1], match[2]
    return None, message


def _refuse(path: KeyPath, problems: Problems, value: Any, expected: str, choices: Iterable[Any] = ()) -> _Invalid:
    hint = did_you_mean(value, map(str, choices)) if isinstance(value, str) else ""
    if expected == "text" and isinstance(value, bool | int | float):
        hint = "; put it in quotes"
    problems.add(path, f"must be {expected}, not {shown(value)}{hint}")
    return INVALID


def _union(value: Any, members: tuple[Any, ...], path: KeyPath, problems: Problems) -> Any:
    optional = type(None) in members
    others = [member for member in members if member is not type(None)]
    if value is None and optional:
        return None
    for member in others:  # a text stays a text in "float | str"
        if member is type(value):
            return structure(value, member, path, problems)
    classes = [member for member in others if attrs.has(member)]
    if isinstance(value, Mapping) and len(classes) == 1:  # so that its errors are told at their own keys
        return build(classes[0], value, path, problems)
    lists = [member for member in others if _is_list(member)]
    if isinstance(value, list) and len(lists) == 1:
        return structure(value, lists[0], path, problems)
    if len(others) == 1:
        return structure(value, others[0], path, problems)
    for member in others:
        result = structure(value, member, path, Problems(problems.document))
        if result is not INVALID:
            return result
    expected = [_expected(member) for member in others]
    return _refuse(path, problems, value, " or ".join(expected + ["null"] * optional))


def _expected(kind: Any) -> str:
    if attrs.has(kind):
        return "a mapping of settings"
    return "a list" if _is_list(kind) else _NAMES.get(kind, getattr(kind, "__name__", str(kind)))


def _is_list(kind: Any) -> bool:
    return typing.get_origin(kind) in (list, Sequence, tuple, set, frozenset)


def _sequence(value: Any, origin: Any, arguments: tuple[Any, ...], path: KeyPath, problems: Problems) -> Any:
    if not isinstance(value, list):
        return _refuse(path, problems, value, "a list")
    kinds: Sequence[Any] = arguments[:1] * len(value)
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        if len(value) != len(arguments):
            return _refuse(path, problems, value, f"a list of {len(arguments)} values")
        kinds = arguments
    elements = [
        structure(element, kind, (*path, index), problems)
        for index, (element, kind) in enumerate(zip(value, kinds, strict=True))
    ]
    if INVALID in elements:
        return INVALID
    return elements if origin in (list, Sequence) else origin(elements)


def _mapping(value: Any, kind: Any, path: KeyPath, problems: Problems) -> Any:
    if not isinstance(value, Mapping):
        return _refuse(path, problems, value, "a mapping")
    result = {key: structure(element, kind, (*path, key), problems) for key, element in value.items()}
    return INVALID if any(element is INVALID for element in result.values()) else result


def to_float(value: Any) -> float | _Invalid:
    """The finite number that a value of a file means, or INVALID."""
    if isinstance(value, str):  # YAML 1.1 reads 3e-4 as text, for want of a dot
        try:
            value = float(value)
        except ValueError:
            return INVALID
    if isinstance(value, bool) or not isinstance(value, int | float):
        return INVALID
    try:
        number = float(value)
    except OverflowError:
        return INVALID
    return number if math.isfinite(number) else INVALID


def _to_int(value: Any) -> int | _Invalid:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = to_float(value)
    return int(number) if isinstance(number, float) and number.is_integer() else INVALID


_SCALARS: Mapping[Any, Any] = types.MappingProxyType(
    {
        bool: lambda value: value if isinstance(value, bool) else INVALID,
        int: _to_int,
        float: to_float,
        str: lambda value: value if isinstance(value, str) else INVALID,
        Path: lambda value: Path(value) if isinstance(value, str) else INVALID,
        type(None): lambda value: value if value is None else INVALID,
    }
)
_NAMES: Mapping[Any, str] = types.MappingProxyType(
    {
        bool: "true or false",
        int: "a whole number",
        float: "a finite number",
        str: "text",
        Path: "text",
        type(None): "null",
    }
)
