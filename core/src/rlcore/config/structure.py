"""Plain data into settings classes, strictly, with every error collected at its own line.

The module replaces a library such as cattrs because each error needs the path and line of its value, numbers may be
written as ``5e5`` or ``"5e5"``, and a settings class that refuses its values must not hide the errors of other blocks.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs

from rlcore.config.classes import chosen_by, default_of, field_types, settings_fields
from rlcore.config.collected import INVALID, Invalid, Problems
from rlcore.config.nodes import Block, Items, without_origins
from rlcore.config.other_frameworks import value_hint
from rlcore.config.problems import shown
from rlcore.config.scalars import CONVERTERS, NAMES
from rlcore.errors import ConfigError, KeyPath, PluginError, did_you_mean, dotted, nearest
from rlcore.settings.fields import SettingError, field_info

_SECRET = "; it is a secret, which the configuration.yaml of a run does not contain: give it again"


def build(
    cls: type,
    data: Any,
    path: KeyPath,
    problems: Problems,
    *,
    ready: Mapping[str, Any] | None = None,
    also_allowed: Iterable[str] = (),
    no_keys: Iterable[str] = (),
    hints: Callable[[], Mapping[str, str]] | None = None,
    absent: str = "",
) -> Any:
    """An instance of the settings class ``cls`` from a mapping, or INVALID.

    ``ready`` has fields that the caller has built, INVALID among them. ``also_allowed`` names keys that the caller
    handles, ``no_keys`` names fields that are not keys of a file. ``hints`` returns the messages for some
    unknown keys. ``absent`` names plugins that may have claimed a key that is unknown without them.
    """
    if not isinstance(data, Mapping):
        problems.add(path, f"must be a mapping of settings, not {shown(data)}")
        return INVALID
    fields = settings_fields(cls)
    types_of = field_types(cls)
    values: dict[str, Any] = dict(ready or {})
    also_allowed = (*also_allowed, *values)
    allowed = dict.fromkeys(key for key in (*fields, *also_allowed) if key not in no_keys)
    unknown = [key for key in data if key not in allowed]
    messages = hints() if hints is not None and unknown else {}
    for key in unknown:
        known = messages.get(key)
        problems.add((*path, key), known or _unknown_key(key, allowed), note="" if known else absent)
    missing = False
    records: dict[str, Any] = {}
    for key, attribute in fields.items():
        if key in also_allowed:
            continue
        if field_info(attribute).chooses is not None and problems.records is not None:
            values[key] = _chosen(key, fields, data, path, problems, records)
        elif key in data:
            values[key] = build_field(attribute, data[key], types_of[attribute.name], (*path, key), problems)
        elif attribute.default is attrs.NOTHING:
            problems.add((*path, key), f"missing; it has no default{_SECRET if field_info(attribute).secret else ''}")
            missing = True
    if missing or unknown or INVALID in values.values():
        _check_rest(cls, values, unknown, path, problems)
        return INVALID
    if records and "records" in attrs.fields_dict(cls):
        values["records"] = records
    try:
        return cls(**values)
    except (ConfigError, ValueError, TypeError) as error:
        _add_refusal(error, path, problems)
        return INVALID


def _chosen(
    key: str,
    fields: Mapping[str, attrs.Attribute[Any]],
    data: Mapping[str, Any],
    path: KeyPath,
    problems: Problems,
    records: dict[str, Any],
) -> Any:
    """The settings of the record that a key beside ``key`` names, or INVALID. The record is added to ``records``."""
    choice, find = field_info(fields[key]).chooses, problems.records
    assert choice is not None
    assert find is not None
    name, given = data.get(choice.key, default_of(fields[choice.key])), data.get(key)
    if name is None and given is not None:
        problems.add((*path, key), f"nothing is chosen that could have settings; name it in {choice.key}")
        return INVALID
    if not isinstance(name, str):
        return None  # a name that is not text is a problem of its own key
    record = find.named(choice.kind, name, (*path, choice.key))
    if record is INVALID or record is None:
        return record
    problem = choice.problem(record)
    if problem is not None:
        able = [each.name for each in find.of_kind(choice.kind) if choice.problem(each) is None]
        others = f"choose {' or '.join(able)}" if able else "no plugin that is on has one that does"
        problems.add((*path, choice.key), f"{problem}; {others}")
        return INVALID
    records[choice.key] = record
    if record.settings is not None:
        return find.settings(record, {} if given is None else given, (*path, key))
    if given is None:
        return None
    problems.add((*path, key), f"{record.called or record.kind} {name!r} has no settings; leave it out")
    return INVALID


def _check_rest(
    cls: type, values: Mapping[str, Any], unknown: Sequence[str], path: KeyPath, problems: Problems
) -> None:
    """Add what the class itself has against the valid fields, so that one look shows all problems.

    The other fields have their defaults here. A refusal that names one of them, or names no field, may be about a
    default and is left out.
    """
    fields = settings_fields(cls)
    doubtful = {key for key in fields if values.get(key) is INVALID} | {nearest(key, fields) for key in unknown}
    try:
        cls(**{key: value for key, value in values.items() if value is not INVALID})
    except SettingError as error:
        if doubtful.isdisjoint({error.field, *error.others}):
            _add_refusal(error, path, problems)
    except Exception:  # the class cannot do with its defaults; the problems of the values are collected already
        return


def _add_refusal(error: Exception, path: KeyPath, problems: Problems) -> None:
    """Add the error of a settings class, at the field that the error names."""
    if isinstance(error, SettingError):
        problems.add((*path, error.field), error.problem)
    else:
        problems.add(path, str(error) or type(error).__name__)


def structure(value: Any, kind: Any, path: KeyPath, problems: Problems) -> Any:
    """``value`` as the annotated type ``kind``, or INVALID."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object:
        return without_origins(value)
    if origin in (typing.Union, types.UnionType):
        return _union(value, arguments, path, problems)
    if chosen_by(kind) is not None and problems.records is not None:
        return problems.records.chosen_block(kind, value, path, problems)
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
    convert = CONVERTERS.get(kind)
    if convert is not None:
        converted = convert(value)
        return _refuse(path, problems, value, NAMES[kind]) if converted is INVALID else converted
    if kind in (list, tuple, dict):
        return structure(value, {list: list[Any], tuple: tuple[Any, ...], dict: dict[str, Any]}[kind], path, problems)
    raise PluginError(f"{dotted(path)}: settings of type {kind!r} cannot be read from a file; use plain types")


def one_of(choices: Iterable[Any]) -> str:
    """``one of a, b``."""
    return f"one of {', '.join(map(str, choices))}"


def build_field(attribute: attrs.Attribute[Any], raw: Any, kind: Any, path: KeyPath, problems: Problems) -> Any:
    """The value of one field of a settings class, within its limits, or INVALID."""
    info = field_info(attribute)
    if info.not_supported is not None:
        value = structure(raw, kind, path, Problems(problems.document))
        if value is not INVALID and value == default_of(attribute):
            return value
        problems.add(path, f"not supported yet: {info.not_supported}")
        return INVALID
    value = structure(raw, kind, path, Problems(problems.document) if info.secret else problems)
    if value is INVALID and info.secret:
        problems.add(path, "is not of the right type; the value is a secret and is not shown")
    if value is INVALID:
        return INVALID
    problem = info.problem(value)
    if problem is not None and info.secret:
        problems.add(path, problem)
        return INVALID
    if problem is not None:
        hint = did_you_mean(value, map(str, info.choices)) if info.choices and isinstance(value, str) else ""
        problems.add(path, f"{problem}, not {shown(raw)}{hint}")
        return INVALID
    if info.record is not None and isinstance(value, str) and problems.records is not None:
        return INVALID if problems.records.named(info.record, value, path) is INVALID else value
    return value


def _unknown_key(key: str, allowed: Iterable[str]) -> str:
    return f"unknown key{did_you_mean(key, allowed)} (allowed: {', '.join(allowed) or 'none'})"


def _refuse(path: KeyPath, problems: Problems, value: Any, expected: str, choices: Iterable[Any] = ()) -> Invalid:
    hint = (did_you_mean(value, map(str, choices)) or value_hint(path, value)) if isinstance(value, str) else ""
    if expected == "text" and isinstance(value, bool | int | float):
        hint = "; put it in quotes"
    problems.add(path, f"must be {expected}, not {shown(value)}{hint}")
    return INVALID


def _union(value: Any, members: tuple[Any, ...], path: KeyPath, problems: Problems) -> Any:
    optional = type(None) in members
    others = [member for member in members if member is not type(None)]
    if value is None and optional:
        return None
    plain_type = dict if isinstance(value, Block) else list if isinstance(value, Items) else type(value)
    for member in others:  # a text stays a text in "float | str"
        if member is plain_type:
            return structure(value, member, path, problems)
    classes = [member for member in others if attrs.has(member)]
    if isinstance(value, Mapping) and len(classes) == 1:  # so that its errors appear at their own keys
        return structure(value, classes[0], path, problems)
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
    return "a list" if _is_list(kind) else NAMES.get(kind, getattr(kind, "__name__", str(kind)))


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
