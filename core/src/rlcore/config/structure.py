"""Plain data into attrs classes with cattrs: strictly, with every error at the place of its value.

A :class:`Reader` has a converter of cattrs, which reads lists, mappings and plain values by their types and collects
errors with the keys and indices that lead to each. Numbers may be written as ``5e5`` or ``"5e5"``, and fields have
limits. :mod:`rlcore.config.record_reader` has the reader of a whole configuration, in which a field or a block may have
the settings class of a record that a plugin registers (:class:`rlcore.Choice`). cattrs is imported on first use.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import attrs

from rlcore.config.document import Block, Items, to_float, to_int, without_origins
from rlcore.config.problems import INVALID, MISSING_KEY, UNKNOWN_KEY, Problems, short_repr
from rlcore.config.yaml_forms import missing_space
from rlcore.errors import ConfigError, KeyPath, PluginError, did_you_mean, nearest
from rlcore.settings.fields import Choice, FieldInfo, SettingError, check_by_bases

MAX_NAMES = 1_000  # behaviors, reward signals, writers, exporters, environment parameters
WRONG: Any = object()
"""In place of a value that was refused."""


class Refused(ConfigError):
    """A value that is refused.

    Attributes:
        code: The kind of the problem, one of those in :mod:`rlcore.config.problems`.
    """

    def __init__(self, problem: str, *, package: str | None = None, note: str = "", code: str = INVALID) -> None:
        super().__init__(problem)
        self.package = package
        self.note = note
        self.code = code

    @property
    def unknown(self) -> bool:
        """Whether the problem is an unknown key."""
        return self.code == UNKNOWN_KEY


class Errors:
    """The errors of the parts of one value, each with the key or the index of its part."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def add(self, key: Any, error: Exception | str) -> None:
        """Add an error of the part at ``key``; None for the value itself."""
        from cattrs import IterableValidationNote

        if isinstance(error, str):
            error = Refused(error)
        if key is not None:
            note = IterableValidationNote(f"at {key}", key, None)
            error.add_note(note)
        self.errors.append(error)

    def at(self, key: Any, read: Callable[..., Any], *arguments: Any) -> Any:
        """Return ``read(*arguments)``; WRONG if it raises, which is added."""
        try:
            return read(*arguments)
        except Exception as error:
            self.add(key, error)
            return WRONG

    def raise_all(self, kind: type = dict) -> None:
        """Raise all errors as one of cattrs, if there are any."""
        from cattrs import IterableValidationError

        if self.errors:
            raise IterableValidationError("refused", self.errors, kind)


@attrs.frozen
class Refusal:
    """An error of a value: the path of the value, and the plugin whose section has it; empty outside sections."""

    path: KeyPath
    error: Any
    owner: str


def build(cls: Any, data: Any, path: KeyPath, problems: Problems, reader: Reader | None = None, owner: str = "") -> Any:
    """An instance of ``cls`` from data at ``path``, or None after the problems were added.

    Without a ``reader``, no record that the data names is looked for. The ``owner`` is the plugin whose section the
    data is. Raises PluginError if a class of a plugin fails.
    """
    reader = reader or Reader()
    settings, refusals = reader.refused(cls, data, path, owner)
    for refusal in refusals:
        error = refusal.error
        if isinstance(error, PluginError):
            raise problems.plugin_error(refusal.path, str(error)) from error.__cause__ or error
    for refusal in refusals:
        message, note = reader.explain(refusal.error, refusal.path)
        if not message:
            continue
        if refusal.owner:
            message = f"{message}; section of {refusal.owner}"
        problems.add(refusal.path, message, refusal.error.package, note, refusal.error.code)
    return settings


def read_settings(cls: type, data: Any) -> tuple[Any, tuple[tuple[KeyPath, str], ...]]:
    """An instance of the settings class ``cls`` from plain data, and what is wrong with the data.

    The settings are None if anything is wrong. A problem is a path of keys and indices within the block, and a message.
    The method ``problems`` of a curriculum's settings may yield it with the block's own path before it.
    """
    settings, refusals = Reader().refused(cls, data)
    for refusal in refusals:
        if isinstance(refusal.error, PluginError):
            raise refusal.error
    problems = [(refusal.path, str(refusal.error)) for refusal in refusals]
    return settings, tuple(problems)


def _leaves(error: Exception, path: KeyPath, owner: str) -> Iterator[Refusal]:
    """Each error of a tree of cattrs' errors."""
    from cattrs import BaseValidationError, IterableValidationNote

    owner = getattr(error, "owner", owner)
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, IterableValidationNote):
            path = (*path, note.index)
    if isinstance(error, BaseValidationError):
        for part in error.exceptions:
            yield from _leaves(part, path, owner)
    elif isinstance(error, Refused | PluginError):
        yield Refusal(path, error, owner)
    else:
        raise error


def _to_bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _to_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _to_path(value: Any) -> Path | None:
    return Path(value) if isinstance(value, str) else None


# The value as the type, or None; and the type as messages call it.
SCALARS: Mapping[Any, tuple[Callable[[Any], Any], str]] = types.MappingProxyType(
    {
        bool: (_to_bool, "true or false"),
        int: (to_int, "a whole number"),
        float: (to_float, "a finite number"),
        str: (_to_text, "text"),
        Path: (_to_path, "text"),
    }
)
_LISTS = (list, tuple, set, frozenset, Sequence)


class Reader:
    """Reads data by types. Methods that read raise Refused, or cattrs' error of several values."""

    def __init__(self) -> None:
        from cattrs import Converter

        self.converter = Converter(structure_fallback_factory=_unreadable)
        for kind, (convert, expected) in SCALARS.items():
            self.converter.register_structure_hook(kind, partial(_scalar, convert, expected))
        # cattrs asks the last one first, so the last one that fits a type reads it.
        readers: dict[Callable[[Any], bool], Callable[[Any, Any], Any]] = {
            _is_anything: lambda value, _: without_origins(value),
            _is_literal: _one_of_literal,
            _is_enum: _one_of_enum,
            _is_union: self._union,
            _is_list: self._list,
            _is_mapping: self._mapping,
            attrs.has: lambda value, cls: self.block(cls, value),
            _has_choice: lambda value, cls: self.block_of_record(cls, value, ""),
        }
        for fits, read in readers.items():
            self.converter.register_structure_hook_func(fits, read)

    def read(self, kind: Any, value: Any) -> Any:
        """Return the value as a type."""
        return self.converter.structure(value, kind)

    def refused(self, cls: Any, data: Any, path: KeyPath = (), owner: str = "") -> tuple[Any, list[Refusal]]:
        """Return an instance of ``cls``; or None, and every refusal in the data at ``path``."""
        try:
            return self.read(cls, data), []
        except Exception as error:
            return None, list(_leaves(error, path, owner))

    def each(self, entries: Iterable[tuple[Any, Any]], read: Callable[[Any, Any], Any]) -> dict[Any, Any]:
        """Return ``read(key, value)`` of each entry, by key."""
        errors = Errors()
        values = {key: errors.at(key, read, key, value) for key, value in entries}
        errors.raise_all()
        return values

    def _union(self, value: Any, kind: Any) -> Any:
        from cattrs import BaseValidationError

        alternatives = typing.get_args(kind)
        members = [member for member in alternatives if member is not type(None)]
        optional = len(members) < len(alternatives)
        if value is None and optional:
            return None
        # A text stays a text in "float | str". If one member alone fits, its errors appear at their own keys.
        for fitting in (_of_exact_type(value, members), members, _of_form(value, members)):
            if len(fitting) == 1:
                return self.read(fitting[0], value)
        for member in members:
            try:
                return self.read(member, value)
            except (BaseValidationError, Refused):
                continue
        expected = [_expected(member) for member in members]
        if optional:
            expected.append("null")
        raise _wrong(value, " or ".join(expected))

    def _list(self, value: Any, kind: Any) -> Any:
        if not isinstance(value, list):
            raise _wrong(value, "a list")
        container = typing.get_origin(kind) or kind
        kinds = typing.get_args(kind) or (Any, ...)
        is_fixed = container is tuple and kinds[-1] is not Ellipsis  # tuple[int, str], not tuple[int, ...]
        if not is_fixed:
            kinds = (kinds[0],) * len(value)
        elif len(value) != len(kinds):
            raise _wrong(value, f"a list of {len(kinds)} values")

        def read(index: int, element: Any) -> Any:
            return self.read(kinds[index], element)

        elements = self.each(enumerate(value), read)
        if container is Sequence:
            container = list
        return container(elements.values())

    def _mapping(self, value: Any, kind: Any) -> Any:
        _, element = typing.get_args(kind) or (str, Any)
        if attrs.has(element):
            require_names(value)
        elif not isinstance(value, Mapping):
            raise _wrong(value, "a mapping")
        if Choice.of(element):  # a block that does not name its record is named after it
            return self.each(value.items(), lambda name, block: self.block_of_record(element, block, name))
        return self.each(value.items(), lambda _, block: self.read(element, block))

    def block(self, cls: type, data: Any) -> Any:
        """Return an instance of an attrs class from its block.

        If a value is wrong, the class is asked about the others too, so that one look shows all problems. It has
        defaults in place of what is wrong then; a refusal that names such a field, or names no field, may be about a
        default and is left out.
        """
        errors = Errors()
        data = self.complete(cls, data, errors)
        if not isinstance(data, Mapping):
            problem = f"must be a mapping of settings, not {short_repr(data)}"
            advice = missing_space(data) if isinstance(data, str) else ""
            raise Refused(f"{problem}; {advice}" if advice else problem)
        values, claimed = self.of_records(cls, data, errors)
        fields = FieldInfo.fields_of(cls)
        kinds = FieldInfo.types_of(cls)
        wrong = _unknown_keys(data, fields, claimed, errors)
        for key, attribute in fields.items():
            if key in values or _is_claimed(attribute):
                continue
            if key in data:
                kind = kinds.get(attribute.name, Any)
                values[key] = errors.at(key, self._field, attribute, kind, data[key])
            elif attribute.default is attrs.NOTHING:
                errors.add(key, Refused(_missing(attribute), code=MISSING_KEY))
                values[key] = WRONG
        right = {}
        for key, value in values.items():
            if value is WRONG:
                wrong.add(key)
            elif key not in wrong:
                right[key] = value
        return self._instance(cls, right, wrong, errors)

    def _instance(self, cls: type, values: Mapping[str, Any], wrong: set[str | None], errors: Errors) -> Any:
        """The instance, unless there are errors, or the class refuses the values."""
        for key, attribute in FieldInfo.fields_of(cls).items():
            if key in wrong and attribute.default is attrs.NOTHING:
                errors.raise_all(cls)
        settings = None
        try:
            settings = cls(**values)
            check_by_bases(settings)
        except SettingError as error:
            if wrong.isdisjoint({error.field, *error.others}):
                errors.add(error.field, error.problem)
        except Exception as error:
            # With defaults in place of wrong values, a class may fail for reasons that no user wrote.
            if not errors.errors:
                if isinstance(error, ConfigError | ValueError | TypeError):
                    raise Refused(str(error) or type(error).__name__) from error
                raise
        errors.raise_all(cls)
        return settings

    def _field(self, attribute: attrs.Attribute[Any], kind: Any, data: Any) -> Any:
        """The value of a field, within its limits."""
        info = FieldInfo.of(attribute)
        try:
            value = self.read(kind, data)
        except Exception:
            if info.secret:
                raise Refused("is not of the right type; the value is a secret and is not shown") from None
            raise
        problem = info.problem(value)
        if problem is not None:
            if info.secret:
                raise Refused(problem)
            hint = ""
            if info.choices and isinstance(value, str):
                hint = did_you_mean(value, map(str, info.choices))
            raise Refused(f"{problem}, not {short_repr(data)}{hint}")
        if info.record is not None and isinstance(value, str) and value not in (info.choices or ()):
            self.find(info.record, value)
        return value

    # ------------------------------------------------------------ what a reader of configurations does otherwise

    def explain(self, refused: Refused, path: KeyPath) -> tuple[str, str]:
        """Return the message about what was refused at ``path``, and a note; both may be empty."""
        return str(refused), refused.note

    def find(self, kind: str, name: str) -> Any:
        """Return the record of this name; None if there is none, or if none is looked for. Raises Refused."""

    def complete(self, cls: type, data: Any, errors: Errors) -> Any:
        """Return a block in the shape that its class reads."""
        return data

    def of_records(self, cls: type, data: Mapping[str, Any], errors: Errors) -> tuple[dict[str, Any], list[str]]:
        """Return the values of the fields whose classes records have, and the keys of the block that records own."""
        return {}, []

    def block_of_record(self, base: type, data: Any, default: str) -> Any:
        """Return a block with the class of the record that it names; else of ``default``, or as ``base`` says."""
        return self.block(base, data)


# ---------------------------------------------------------------- keys of a block


def _is_claimed(attribute: attrs.Attribute[Any]) -> bool:
    """Whether the field holds blocks of records that are beside it in a file."""
    choice = FieldInfo.of(attribute).chooses
    return choice is not None and choice.by == "claim"


def _unknown_keys(
    data: Mapping[str, Any], fields: Mapping[str, attrs.Attribute[Any]], claimed: Iterable[str], errors: Errors
) -> set[str | None]:
    """Add the errors about unknown keys; return the keys, and those that they may have been meant as."""
    allowed: list[str] = []
    for key, attribute in fields.items():
        allowed += claimed if _is_claimed(attribute) else [key]
    wrong: set[str | None] = set()
    for key in data:
        if key not in allowed:
            errors.add(key, Refused(unknown_key(key, allowed), code=UNKNOWN_KEY))
            # A rule about the key that was meant would see its default: it is not reported beside the mistyped one.
            wrong |= {key, nearest(key, allowed)}
    return wrong


def unknown_key(key: str, allowed: Sequence[str]) -> str:
    """The message about a key that a block does not have."""
    return f"unknown key{did_you_mean(key, allowed)} (allowed: {', '.join(allowed) or 'none'})"


def _missing(attribute: attrs.Attribute[Any]) -> str:
    if not FieldInfo.of(attribute).secret:
        return "missing; it has no default"
    secret = "it is a secret, which the configuration.yaml of a run does not contain: give it again"
    return f"missing; it has no default; {secret}"


def require_names(value: Any) -> None:
    """Raise Refused unless the value is a mapping of not too many names."""
    if not isinstance(value, Mapping):
        raise Refused(f"must be a mapping from names to settings, not {short_repr(value)}")
    if len(value) > MAX_NAMES:
        raise Refused(f"has {len(value):,} entries; at most {MAX_NAMES:,} are allowed")


# ---------------------------------------------------------------- types


def _is_anything(kind: Any) -> bool:
    return kind in (Any, object)


def _is_literal(kind: Any) -> bool:
    return typing.get_origin(kind) is Literal


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _is_list(kind: Any) -> bool:
    return kind in _LISTS or typing.get_origin(kind) in _LISTS


def _is_mapping(kind: Any) -> bool:
    return kind is dict or typing.get_origin(kind) in (dict, Mapping)


def _has_choice(kind: Any) -> bool:
    return Choice.of(kind) is not None


def _of_exact_type(value: Any, members: Sequence[Any]) -> list[Any]:
    """The members that are the very type of a value; a node of a document is an ordinary dict or list here."""
    kind: type = type(value)
    if isinstance(value, Block):
        kind = dict
    elif isinstance(value, Items):
        kind = list
    return [member for member in members if member is kind]


def _of_form(value: Any, members: Sequence[Any]) -> list[Any]:
    """The members that are read from mappings, or from lists, as the value is."""
    if isinstance(value, Mapping):
        return [member for member in members if attrs.has(member)]
    if isinstance(value, list):
        return [member for member in members if _is_list(member)]
    return []


def _unreadable(kind: Any) -> Any:
    raise PluginError(f"settings of type {kind!r} cannot be read from a file; use plain types")


def _scalar(convert: Callable[[Any], Any], expected: str, value: Any, _: Any) -> Any:
    converted = convert(value)
    if converted is None:
        raise _wrong(value, expected)
    return converted


def _one_of_literal(value: Any, kind: Any) -> Any:
    members = typing.get_args(kind)
    return _one_of(dict(zip(members, members, strict=True)), value)


def _one_of_enum(value: Any, kind: Any) -> Any:
    return _one_of({member.value: member for member in kind}, value)


def _one_of(members: Mapping[Any, Any], value: Any) -> Any:
    """A value that a Literal or an Enum has; of the very type, because 1, 1.0 and true are equal in Python."""
    types_of_members = {type(member) for member in members}
    is_hashable = isinstance(value, str | int | type(None))
    if is_hashable and type(value) in types_of_members and value in members:
        return members[value]
    raise _wrong(value, f"one of {', '.join(map(str, members))}", members)


def _wrong(value: Any, expected: str, choices: Iterable[Any] = ()) -> Refused:
    hint = ""
    if isinstance(value, str):
        hint = did_you_mean(value, map(str, choices))
    elif expected == "text" and isinstance(value, bool | int | float):
        hint = "; put it in quotes"
    return Refused(f"must be {expected}, not {short_repr(value)}{hint}")


def _expected(kind: Any) -> str:
    """A type as messages call it."""
    if attrs.has(kind):
        return "a mapping of settings"
    if _is_literal(kind):
        return " or ".join(map(str, typing.get_args(kind)))
    if _is_list(kind):
        return "a list"
    if kind in SCALARS:
        return SCALARS[kind][1]
    return getattr(kind, "__name__", str(kind))
