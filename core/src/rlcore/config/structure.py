"""Plain data into attrs classes: strictly, with every error at the place of its value.

A :class:`Reader` reads classes, lists, mappings and plain values by their types. Numbers may be written as ``5e5`` or
``"5e5"``, and fields have limits. :mod:`rlcore.config.choices` has the reader of a whole configuration, in which a
field or a block may have the settings class of a record that a plugin registers (:class:`rlcore.Choice`).
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs

from rlcore.config.document import Block, Items, Problems, shown, to_float, to_int, without_origins
from rlcore.errors import ConfigError, KeyPath, PluginError, did_you_mean, nearest
from rlcore.settings.fields import SettingError, chosen_by, field_info, field_types, settings_fields

MAX_NAMES = 1_000  # behaviors, reward signals, writers, exporters, environment parameters
WRONG: Any = object()
"""In place of a value that was refused."""


class Refused(ConfigError):
    """A value that is refused.

    Attributes:
        unknown: Whether the problem is an unknown key.
    """

    def __init__(self, problem: str, *, package: str | None = None, note: str = "", unknown: bool = False) -> None:
        super().__init__(problem)
        self.package, self.note, self.unknown = package, note, unknown


class PluginFault(PluginError):
    """An error of a plugin that read the value at ``path``: the plugin is wrong, not the data."""

    def __init__(self, path: KeyPath, error: PluginError) -> None:
        super().__init__(str(error))
        self.path, self.error = path, error


def build(cls: Any, data: Any, path: KeyPath, problems: Problems, reader: Reader | None = None, owner: str = "") -> Any:
    """An instance of ``cls`` from data at ``path``, or None after the problems were added.

    Without a ``reader``, no record that the data names is looked for. The ``owner`` is the plugin whose section the
    data is. Raises PluginError if a class of a plugin fails.
    """
    reader = reader or Reader()
    reader.found, reader.owner = [], owner
    try:
        made = reader.read(cls, data, path)
    except PluginFault as fault:
        raise problems.plugin_error(fault.path, str(fault)) from fault.error.__cause__ or fault.error
    for at, refused, whose in reader.found:
        message, note = reader.completed(refused, at)
        if message:
            problems.add(at, f"{message}; section of {whose}" if whose else message, refused.package, note)
    return None if reader.found else made


def read_settings(cls: type, data: Any) -> tuple[Any, tuple[tuple[KeyPath, str], ...]]:
    """An instance of the settings class ``cls`` from plain data, and what is wrong with the data.

    The settings are None if anything is wrong. A problem is a path of keys and indices within the block, and a message.
    The method ``problems`` of a curriculum's settings may yield it with the block's own path before it.
    """
    reader = Reader()
    try:
        made = reader.read(cls, data, ())
    except PluginFault as fault:
        raise fault.error from None
    return None if reader.found else made, tuple((path, str(refused)) for path, refused, _ in reader.found)


# The value as the type, or None; and the type as messages call it.
SCALARS: Mapping[Any, tuple[Callable[[Any], Any], str]] = types.MappingProxyType(
    {
        bool: (lambda value: value if isinstance(value, bool) else None, "true or false"),
        int: (to_int, "a whole number"),
        float: (to_float, "a finite number"),
        str: (lambda value: value if isinstance(value, str) else None, "text"),
        Path: (lambda value: Path(value) if isinstance(value, str) else None, "text"),
    }
)
_LISTS = (list, tuple, set, frozenset, Sequence)


class Reader:
    """Reads data by types, and collects what is wrong with it.

    Methods that read take the value and its path. They raise Refused, or return ``WRONG`` after they added problems.

    Attributes:
        found: What was refused: the path, the problem, and whose section the value is in, for messages.
        owner: Whose section is read.
    """

    def __init__(self) -> None:
        self.found: list[tuple[KeyPath, Refused, str]] = []
        self.owner = ""

    def refuse(self, path: KeyPath, problem: Refused | str) -> None:
        """Add a problem."""
        self.found.append((path, Refused(problem) if isinstance(problem, str) else problem, self.owner))

    def at(self, path: KeyPath, read: Callable[..., Any], *arguments: Any) -> Any:
        """Return ``read(*arguments, path)``; WRONG if it is refused. Raises PluginFault for the error of a plugin."""
        try:
            return read(*arguments, path)
        except Refused as refused:
            self.refuse(path, refused)
            return WRONG
        except PluginFault:
            raise
        except PluginError as error:
            raise PluginFault(path, error) from error

    def each(self, path: KeyPath, entries: Iterable[tuple[Any, Any]], read: Callable[..., Any]) -> Any:
        """Return ``read(key, value, path)`` of each entry, by key; WRONG if one of them is wrong."""
        built = {key: self.at((*path, key), read, key, value) for key, value in entries}
        return WRONG if any(value is WRONG for value in built.values()) else built

    def read(self, kind: Any, value: Any, path: KeyPath) -> Any:
        """Return the value as a type; WRONG if it is refused. Raises PluginFault for the error of a plugin."""
        return self.at(path, self._typed, kind, value)

    def _typed(self, kind: Any, value: Any, path: KeyPath) -> Any:
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if kind in (Any, object):
            return without_origins(value)
        if kind in SCALARS:
            convert, expected = SCALARS[kind]
            converted = convert(value)
            if converted is None:
                raise _wrong(value, expected)
            return converted
        if isinstance(kind, type) and attrs.has(kind):
            return self.block_of_record(kind, value, "", path) if chosen_by(kind) else self.block(kind, value, path)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return _one_of({each.value: each for each in kind}, value)
        if origin is Literal:
            return _one_of({each: each for each in arguments}, value)
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments, value, path)
        if _is_list(kind):
            return self._list(origin or kind, arguments or (Any, ...), value, path)
        if dict in (kind, origin) or origin is Mapping:
            return self._mapping((arguments or (str, Any))[1], value, path)
        raise PluginError(f"settings of type {kind!r} cannot be read from a file; use plain types")

    def _union(self, members: Sequence[Any], value: Any, path: KeyPath) -> Any:
        optional = type(None) in members
        others = [member for member in members if member is not type(None)]
        if value is None and optional:
            return None
        plain_type = dict if isinstance(value, Block) else list if isinstance(value, Items) else type(value)
        if plain_type in others:  # a text stays a text in "float | str"
            others = [plain_type]
        blocks = [member for member in others if attrs.has(member)] if isinstance(value, Mapping) else []
        lists = [member for member in others if _is_list(member)] if isinstance(value, list) else []
        for fitting in (others, blocks, lists):  # if one alone fits, its errors appear at their own keys
            if len(fitting) == 1:
                return self._typed(fitting[0], value, path)
        before = len(self.found)
        for member in others:
            made = self.read(member, value, path)
            if made is not WRONG:
                return made
            del self.found[before:]
        raise _wrong(value, " or ".join([*map(_expected, others), *["null"] * optional]))

    def _list(self, origin: Any, arguments: Sequence[Any], value: Any, path: KeyPath) -> Any:
        fixed = origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis)
        if not isinstance(value, list):
            raise _wrong(value, "a list")
        if fixed and len(value) != len(arguments):
            raise _wrong(value, f"a list of {len(arguments)} values")
        kinds = arguments if fixed else [arguments[0]] * len(value)
        built = self.each(path, enumerate(value), lambda index, each, at: self._typed(kinds[index], each, at))
        return built if built is WRONG else (list if origin is Sequence else origin)(built.values())

    def _mapping(self, element: Any, value: Any, path: KeyPath) -> Any:
        if attrs.has(element):
            require_names(value)
        elif not isinstance(value, Mapping):
            raise _wrong(value, "a mapping")
        if chosen_by(element):  # a block that does not name its record is named after it
            return self.each(path, value.items(), lambda name, each, at: self.block_of_record(element, each, name, at))
        return self.each(path, value.items(), lambda _, each, at: self._typed(element, each, at))

    def block(self, cls: type, data: Any, path: KeyPath) -> Any:
        """Return an instance of an attrs class from its block.

        If a value is wrong, the class is asked about the others too, so that one look shows all problems. It has
        defaults in place of what is wrong then; a refusal that names such a field, or names no field, may be about a
        default and is left out.
        """
        before = len(self.found)
        data = self.whole(cls, data, path)
        if not isinstance(data, Mapping):
            raise Refused(f"must be a mapping of settings, not {shown(data)}")
        values, allowed = self.of_records(cls, data, path)
        fields, kinds = settings_fields(cls), field_types(cls)
        own = {key: each for key, each in fields.items() if not _is_claimed(each)}
        allowed = [*own, *allowed]
        skip = set()
        for key in data:
            if key not in allowed:
                self.refuse((*path, key), Refused(unknown_key(key, allowed), unknown=True))
                skip |= {key, nearest(key, allowed)}
        for key, attribute in own.items():
            if key in values:
                continue
            if key in data:
                values[key] = self.at((*path, key), self._field, attribute, kinds.get(attribute.name, Any), data[key])
            elif attribute.default is attrs.NOTHING:
                secret = "; it is a secret, which the configuration.yaml of a run does not contain: give it again"
                self.refuse((*path, key), f"missing; it has no default{secret if field_info(attribute).secret else ''}")
                values[key] = WRONG
        skip |= {key for key, value in values.items() if value is WRONG}
        return self._made(cls, {key: each for key, each in values.items() if key not in skip}, skip, before, path)

    def _made(self, cls: type, values: Mapping[str, Any], wrong: set[str | None], before: int, path: KeyPath) -> Any:
        """The instance; WRONG if something was refused since there were ``before`` problems, or the class refuses."""
        broken = len(self.found) > before
        if any(each.default is attrs.NOTHING and key in wrong for key, each in settings_fields(cls).items()):
            return WRONG
        try:
            made = cls(**values)
        except SettingError as error:
            if wrong.isdisjoint({error.field, *error.others}):
                self.refuse((*path, error.field), error.problem)
            return WRONG
        except Exception as error:
            if broken:
                return WRONG
            if isinstance(error, ConfigError | ValueError | TypeError):
                raise Refused(str(error) or type(error).__name__) from error
            raise
        return WRONG if broken else made

    def _field(self, attribute: attrs.Attribute[Any], kind: Any, value: Any, path: KeyPath) -> Any:
        """The value of a field, within its limits."""
        info, before = field_info(attribute), len(self.found)
        found = self.read(kind, value, path)
        if found is WRONG:
            if info.secret:
                del self.found[before:]
                raise Refused("is not of the right type; the value is a secret and is not shown")
            return WRONG
        problem = info.problem(found)
        if problem is not None and info.secret:
            raise Refused(problem)
        if problem is not None:
            hint = did_you_mean(found, map(str, info.choices)) if info.choices and isinstance(found, str) else ""
            raise Refused(f"{problem}, not {shown(value)}{hint}")
        if info.record is not None and isinstance(found, str):
            self.named(info.record, found)
        return found

    # ------------------------------------------------------------ what a reader of configurations does otherwise

    def completed(self, refused: Refused, path: KeyPath) -> tuple[str, str]:
        """Return the message about what was refused at ``path``, and a note; both may be empty."""
        return str(refused), refused.note

    def named(self, kind: str, name: str) -> Any:
        """Return the record of this name; None if there is none, or if none is looked for. Raises Refused."""

    def whole(self, cls: type, data: Any, path: KeyPath) -> Any:
        """Return a block in the shape that its class reads."""
        return data

    def of_records(self, cls: type, data: Mapping[str, Any], path: KeyPath) -> tuple[dict[str, Any], list[str]]:
        """Return the values of the fields whose classes records have, and the keys of the block that records own."""
        return {}, []

    def block_of_record(self, base: type, data: Any, named: str, path: KeyPath) -> Any:
        """Return a block with the class of the record that it names; by default, of ``named``, or as ``base`` says."""
        return self.block(base, data, path)


def unknown_key(key: str, allowed: Sequence[str]) -> str:
    """The message about a key that a block does not have."""
    return f"unknown key{did_you_mean(key, allowed)} (allowed: {', '.join(allowed) or 'none'})"


def _is_claimed(attribute: attrs.Attribute[Any]) -> bool:
    """Whether the field holds blocks of records that are beside it in a file."""
    choice = field_info(attribute).chooses
    return choice is not None and choice.by == "claim"


def require_names(value: Any) -> None:
    if not isinstance(value, Mapping):
        raise Refused(f"must be a mapping from names to settings, not {shown(value)}")
    if len(value) > MAX_NAMES:
        raise Refused(f"has {len(value):,} entries; at most {MAX_NAMES:,} are allowed")


def _wrong(value: Any, expected: str, choices: Iterable[Any] = ()) -> Refused:
    hint = did_you_mean(value, map(str, choices)) if isinstance(value, str) else ""
    if expected == "text" and isinstance(value, bool | int | float):
        hint = "; put it in quotes"
    return Refused(f"must be {expected}, not {shown(value)}{hint}")


def _one_of(members: Mapping[Any, Any], value: Any) -> Any:
    """A value that a Literal or an Enum has; of the very type, because 1, 1.0 and true are equal in Python."""
    if isinstance(value, str | int | type(None)) and type(value) in map(type, members) and value in members:
        return members[value]
    raise _wrong(value, f"one of {', '.join(map(str, members))}", members)


def _is_list(kind: Any) -> bool:
    return kind in _LISTS or typing.get_origin(kind) in _LISTS


def _expected(kind: Any) -> str:
    if attrs.has(kind):
        return "a mapping of settings"
    return "a list" if _is_list(kind) else SCALARS[kind][1] if kind in SCALARS else getattr(kind, "__name__", str(kind))
