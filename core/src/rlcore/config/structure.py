"""Plain data into attrs classes with cattrs: strictly, with every error at the place of its value.

cattrs reads classes, keys, lists and mappings, and collects errors with the path to each. The hooks here decide what
rlcore accepts: numbers may be written as ``5e5`` or ``"5e5"``, fields have limits, and a field or a block may have the
settings class of a record that a plugin registers (:class:`rlcore.Choice`). cattrs is imported on first use.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from rlcore.config.document import Block, Items, Problems, shown, to_float, to_int, without_origins
from rlcore.errors import ConfigError, KeyPath, PluginError, did_you_mean, nearest
from rlcore.settings.fields import (
    SettingError,
    chosen_by,
    field_info,
    field_types,
    settings_fields,
)

if TYPE_CHECKING:
    from cattrs import Converter


MAX_NAMES = 1_000  # behaviors, reward signals, writers, exporters, environment parameters
_SECRET = "; it is a secret, which the configuration.yaml of a run does not contain: give it again"
NO_KEY = "\0"  # before the name of a field that no file may have: cattrs takes it for another key


class Refused(ConfigError):
    """A value that is refused.

    Attributes:
        below: The path of what is wrong within the value.
        unknown: Whether the problem is an unknown key.
        fault: The error of a plugin, if the data is not wrong.
    """

    def __init__(
        self,
        problem: str,
        *below: str | int,
        package: str | None = None,
        note: str = "",
        unknown: bool = False,
        fault: PluginError | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem, self.below, self.package, self.note = problem, below, package, note
        self.unknown, self.fault = unknown, fault


# The :class:`rlcore.config.choices.Choices` of the configuration that is read: cattrs passes nothing to its hooks.
_RECORDS: ContextVar[Any] = ContextVar("records", default=None)


def build(cls: Any, data: Any, path: KeyPath, problems: Problems, records: Any = None, owner: str = "") -> Any:
    """An instance of ``cls`` from data at ``path``, or None after the problems were added.

    Without ``records``, no record that the data names is looked for. The ``owner`` is the plugin whose section the data
    is. Raises PluginError if a class of a plugin fails.
    """
    made, found = _structured(cls, data, path, records, owner)
    for at, refused, whose in found:
        if isinstance(refused, PluginError):
            raise problems.plugin_error(at, str(refused)) from refused.__cause__ or refused
        message, note = (refused.problem, "") if records is None else records.completed(refused, at)
        if message:
            problems.add(at, f"{message}; section of {whose}" if whose else message, refused.package, note)
    return made


def read_settings(cls: type, data: Any) -> tuple[Any, tuple[tuple[KeyPath, str], ...]]:
    """An instance of the settings class ``cls`` from plain data, and what is wrong with the data.

    The settings are None if anything is wrong. A problem is a path of keys and indices within the block, and a message.
    The method ``problems`` of a curriculum's settings may yield it with the block's own path before it.
    """
    made, found = _structured(cls, data, (), _RECORDS.get())
    for _, refused, _ in found:
        if isinstance(refused, PluginError):
            raise refused from None
    return made, tuple((path, str(refused)) for path, refused, _ in found)


def _structured(
    cls: Any, data: Any, path: KeyPath, records: Any, owner: str = ""
) -> tuple[Any, list[tuple[KeyPath, Any, str]]]:
    """An instance of ``cls``; or what was refused or failed in a plugin: the path, the error, and whose block it is."""
    outer = _RECORDS.set(records)
    try:
        return converter().structure(data, cls), []
    except Exception as error:
        found = list(_leaves(error, path, owner))
    finally:
        _RECORDS.reset(outer)
    for _, each, _ in found:
        if not isinstance(each, Refused | PluginError):
            raise each from None
    return None, found


def _leaves(error: Exception, path: KeyPath, owner: str = "") -> Iterator[tuple[KeyPath, Exception, str]]:
    """Each error of a tree of cattrs' errors, with its path and the plugin that owns the block, if it is claimed."""
    from cattrs import AttributeValidationNote, BaseValidationError, IterableValidationNote

    owner = getattr(error, "owner", owner)
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, IterableValidationNote):
            path = (*path, note.index)
        elif isinstance(note, AttributeValidationNote) and note.name:
            path = (*path, note.name)
    if isinstance(error, BaseValidationError):
        for each in error.exceptions:
            yield from _leaves(each, path, owner)
    elif isinstance(error, Refused):
        path = (*path, *error.below)
        yield path, error.fault or error, owner
    else:
        yield path, error, owner


# ---------------------------------------------------------------- the converter


@lru_cache(maxsize=1)
def converter() -> Converter:
    """The one converter of configurations and of rlcore's JSON."""
    from cattrs import Converter

    made = Converter(detailed_validation=True, forbid_extra_keys=True, structure_fallback_factory=_unreadable)
    for kind, (convert, expected) in SCALARS.items():
        hook = partial(_scalar, convert, expected)
        if kind is type(None):
            made.register_structure_hook_func(lambda each: each is type(None), hook)
        else:
            made.register_structure_hook(kind, hook)
    made.register_structure_hook_func(lambda kind: kind in (Any, object), lambda value, _: without_origins(value))
    factories: dict[Callable[[Any], bool], Callable[[Any], Any]] = {
        attrs.has: partial(_class, made),
        lambda kind: chosen_by(kind) is not None: partial(_block_of_record, made),
        lambda kind: typing.get_origin(kind) is Literal: (
            lambda kind: partial(_one_of, {each: each for each in typing.get_args(kind)})
        ),
        lambda kind: isinstance(kind, type) and issubclass(kind, enum.Enum): (
            lambda kind: partial(_one_of, {each.value: each for each in kind})
        ),
        lambda kind: typing.get_origin(kind) in (typing.Union, types.UnionType): partial(_union, made),
        _is_list: partial(_list, made),
        lambda kind: kind is dict or typing.get_origin(kind) in (dict, Mapping): partial(_mapping, made),
    }
    for predicate, factory in factories.items():
        made.register_structure_hook_factory(predicate, factory)
    return made


def _unreadable(kind: Any) -> Any:
    raise PluginError(f"settings of type {kind!r} cannot be read from a file; use plain types")


# The value as the type, or None; and the type as messages call it.
SCALARS: Mapping[Any, tuple[Callable[[Any], Any], str]] = types.MappingProxyType(
    {
        bool: (lambda value: value if isinstance(value, bool) else None, "true or false"),
        int: (to_int, "a whole number"),
        float: (to_float, "a finite number"),
        str: (lambda value: value if isinstance(value, str) else None, "text"),
        Path: (lambda value: Path(value) if isinstance(value, str) else None, "text"),
        type(None): (lambda value: None, "null"),
    }
)


def _scalar(convert: Callable[[Any], Any], expected: str, value: Any, _: Any) -> Any:
    converted = convert(value)
    if converted is None and (value is not None or expected != "null"):
        raise _wrong(value, expected)
    return converted


def _wrong(value: Any, expected: str, choices: Iterable[Any] = ()) -> Refused:
    hint = did_you_mean(value, map(str, choices)) if isinstance(value, str) else ""
    if expected == "text" and isinstance(value, bool | int | float):
        hint = "; put it in quotes"
    return Refused(f"must be {expected}, not {shown(value)}{hint}")


def _one_of(members: Mapping[Any, Any], value: Any, _: Any) -> Any:
    """A value that a Literal or an Enum has; of the very type, because 1, 1.0 and true are equal in Python."""
    if isinstance(value, str | int | type(None)) and type(value) in map(type, members) and value in members:
        return members[value]
    raise _wrong(value, f"one of {', '.join(map(str, members))}", members)


def _union(made: Converter, kind: Any) -> Any:
    members = typing.get_args(kind)
    optional = type(None) in members
    others = [member for member in members if member is not type(None)]
    classes = [member for member in others if attrs.has(member)]
    lists = [member for member in others if _is_list(member)]

    def structure(value: Any, _: Any) -> Any:
        from cattrs import BaseValidationError

        if value is None and optional:
            return None
        plain_type = dict if isinstance(value, Block) else list if isinstance(value, Items) else type(value)
        if plain_type in others:  # a text stays a text in "float | str"
            return made.structure(value, plain_type)
        if isinstance(value, Mapping) and len(classes) == 1:  # so that its errors appear at their own keys
            return made.structure(value, classes[0])
        if isinstance(value, list) and len(lists) == 1:
            return made.structure(value, lists[0])
        if len(others) == 1:
            return made.structure(value, others[0])
        for member in others:
            try:
                return made.structure(value, member)
            except (BaseValidationError, Refused):
                continue
        raise _wrong(value, " or ".join([*map(_expected, others), *["null"] * optional]))

    return structure


def _expected(kind: Any) -> str:
    if attrs.has(kind):
        return "a mapping of settings"
    return "a list" if _is_list(kind) else SCALARS[kind][1] if kind in SCALARS else getattr(kind, "__name__", str(kind))


def _is_list(kind: Any) -> bool:
    plain = (list, tuple, set, frozenset, Sequence)
    return kind in plain or typing.get_origin(kind) in plain


def _list(made: Converter, kind: Any) -> Any:
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind) or (Any, ...)
    fixed = origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis)

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, list):
            raise _wrong(value, "a list")
        if fixed and len(value) != len(arguments):
            raise _wrong(value, f"a list of {len(arguments)} values")
        kinds = arguments if fixed else arguments[:1] * len(value)
        built = each_of(enumerate(value), lambda at, each: made.structure(each, kinds[at]))
        return list(built.values()) if origin in (list, Sequence) else origin(built.values())

    return structure


def _mapping(made: Converter, kind: Any) -> Any:
    element = (typing.get_args(kind) or (str, Any))[1]
    choice = chosen_by(element)

    def structure(value: Any, _: Any) -> Any:
        if attrs.has(element):
            require_names(value)
        elif not isinstance(value, Mapping):
            raise _wrong(value, "a mapping")
        records = _RECORDS.get()
        if choice is not None and records is not None:  # a block that does not name its record is named after it
            return each_of(value.items(), lambda name, block: records.block(element, block, name))
        return each_of(value.items(), lambda _, each: made.structure(each, element))

    return structure


def require_names(value: Any) -> None:
    if not isinstance(value, Mapping):
        raise Refused(f"must be a mapping from names to settings, not {shown(value)}")
    if len(value) > MAX_NAMES:
        raise Refused(f"has {len(value):,} entries; at most {MAX_NAMES:,} are allowed")


def each_of(entries: Iterable[tuple[Any, Any]], structure: Callable[[Any, Any], Any]) -> dict[Any, Any]:
    """``structure(key, value)`` of each entry, by key; raises the errors of all, with their keys."""
    from cattrs import IterableValidationError, IterableValidationNote

    built: dict[Any, Any] = {}
    errors: list[Exception] = []
    for at, value in entries:
        try:
            built[at] = structure(at, value)
        except Exception as error:
            error.__notes__ = [*getattr(error, "__notes__", ()), IterableValidationNote(f"at {at}", at, None)]
            errors.append(error)
    if errors:
        raise IterableValidationError("in a list or mapping", errors, dict)
    return built


# ---------------------------------------------------------------- classes and their fields


def _class(made: Converter, cls: type) -> Any:
    """The hook of an attrs class: cattrs' own, with the choices of its fields and better errors."""
    from cattrs import ClassValidationError
    from cattrs.gen import make_dict_structure_fn_from_attrs, override

    fields, kinds = settings_fields(cls), field_types(cls)
    keys = {attribute.name: key for key, attribute in fields.items()}
    choices = {key: choice for key, each in fields.items() if (choice := field_info(each).chooses) is not None}
    own = [key for key in fields if key not in choices or choices[key].by != "claim"]
    attributes = []
    for attribute in attrs.fields(cls):
        hidden = keys.get(attribute.name) not in own
        how = override(
            rename=NO_KEY + attribute.name if hidden else keys[attribute.name],
            struct_hook=_field(made, attribute, kinds.get(attribute.name, Any)),
            omit=not attribute.init,
        )
        attributes.append(attribute.evolve(type=typing.Annotated[Any, how]))
    read: Callable[..., Any] = make_dict_structure_fn_from_attrs(
        attributes, cls, made, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=True
    )

    def structure(data: Any, _: Any) -> Any:
        records, claimed = _RECORDS.get(), []
        refused: list[Refused] = []
        if records is not None:
            data, refused, claimed = records.prepared(cls, data, choices)
        if not isinstance(data, Mapping):
            raise Refused(f"must be a mapping of settings, not {shown(data)}")
        errors: list[Exception] = list(refused)
        made_of = None
        try:
            made_of = read(data, cls)
        except ClassValidationError as error:
            errors += _errors_of_class(error, cls, data, [*own, *claimed], bool(refused), read)
        if errors:
            raise ClassValidationError(cls.__name__, errors, cls)
        return made_of

    return structure


def _errors_of_class(
    error: Any, cls: type, data: Mapping[str, Any], allowed: Sequence[str], refused: bool, read: Callable[..., Any]
) -> Iterator[Exception]:
    """The errors of a class: of the blocks that records describe, of unknown keys, and of other fields.

    If a field is wrong, the class is asked about the others too, so that one look shows all problems. It has defaults
    in place of what is wrong then; a refusal that names such a field, or names no field, may be about a default and is
    left out.
    """
    from cattrs import AttributeValidationNote, ClassValidationError, ForbiddenExtraKeysError

    attributes = attrs.fields_dict(cls)
    of_fields, of_class = error.group_exceptions()
    wrong: set[str | None] = set()
    found: list[tuple[bool, Exception]] = []
    for each, note in of_fields:
        attribute = attributes[note.name]
        info = field_info(attribute)
        key = "" if info.chooses is not None and info.chooses.by == "claim" else attribute.alias or attribute.name
        if isinstance(each, KeyError) and key not in data:
            each = Refused(f"missing; it has no default{_SECRET if info.secret else ''}")
        each.__notes__ = [AttributeValidationNote(str(note), key, note.type)]
        wrong.add(key or NO_KEY + note.name)
        found.append((info.chooses is not None, each))
    yield from (each for chosen, each in found if chosen)
    for each in of_class:
        if isinstance(each, ForbiddenExtraKeysError):
            for key in (key for key in data if key in each.extra_fields):
                yield Refused(unknown_key(key, allowed), key, unknown=True)
                wrong |= {key, nearest(key, allowed)}
    yield from (each for chosen, each in found if not chosen)
    refusals = [each for each in of_class if not isinstance(each, ForbiddenExtraKeysError)]
    if wrong:
        try:
            read({key: value for key, value in data.items() if key not in wrong}, cls)
        except ClassValidationError as second:
            refusals = second.group_exceptions()[1]
    for each in refusals:
        if isinstance(each, SettingError):
            if not (wrong or refused) or wrong.isdisjoint({each.field, *each.others}):
                yield Refused(each.problem, each.field)
        elif not wrong and not refused and isinstance(each, ConfigError | ValueError | TypeError):
            yield Refused(str(each) or type(each).__name__)
        elif not wrong and not refused:
            raise each


def unknown_key(key: str, allowed: Sequence[str]) -> str:
    """The message about a key that a block does not have."""
    return f"unknown key{did_you_mean(key, allowed)} (allowed: {', '.join(allowed) or 'none'})"


def _field(made: Converter, attribute: attrs.Attribute[Any], kind: Any) -> Callable[[Any, Any], Any]:
    """The hook of one field: its type or its choice, and its limits."""
    info = field_info(attribute)

    def structure(value: Any, _: Any) -> Any:
        if not info.key:
            return value
        records = _RECORDS.get()
        if info.chooses is not None and records is not None:
            return records.value(info.chooses, value)
        try:
            found = made.structure(value, kind)
        except Exception:
            if info.secret:
                raise Refused("is not of the right type; the value is a secret and is not shown") from None
            raise
        problem = info.problem(found)
        if problem is not None and info.secret:
            raise Refused(problem)
        if problem is not None:
            hint = did_you_mean(found, map(str, info.choices)) if info.choices and isinstance(found, str) else ""
            raise Refused(f"{problem}, not {shown(value)}{hint}")
        if info.record is not None and isinstance(found, str) and records is not None:
            records.named(info.record, found)
        return found

    return structure


def _block_of_record(made: Converter, cls: type) -> Any:
    """The hook of a class whose blocks name their record."""
    own = _class(made, cls)

    def structure(value: Any, _: Any) -> Any:
        records = _RECORDS.get()
        return own(value, cls) if records is None else records.block(cls, value)

    structure.own = own  # type: ignore[attr-defined]
    return structure


def own_hook(cls: type) -> Any:
    """The hook that reads a block as ``cls``, whichever record the block names."""
    hook = converter().get_structure_hook(cls)
    return getattr(hook, "own", hook)
