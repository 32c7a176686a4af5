"""The values that a configuration of a stranger may have: an allow-list that settings classes and records declare.

A number, a switch and a word from a list that rlcore knows name nothing: any person may choose them. A text may name a
program, a file, an address or code. It is refused unless its field says what it is for: ``setting(foreign=...)``.
"""

from __future__ import annotations

import enum
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from rlcore.errors import KeyPath
from rlcore.settings.fields import FieldInfo

_NAME = re.compile(r"[\w@+-][\w@+.\- ]*(/[\w@+-][\w@+.\- ]*)*")


def is_plain_name(value: Any) -> bool:
    """Whether a text is a word or a relative path of words: no address, no module, no place outside a directory."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def foreign_values(settings: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the path and the value of each key that a stranger must not choose.

    Args:
        settings: An object of a settings class. A value that equals the default of its field is always allowed.
        path: The key of the object.
    """
    cls: type = type(settings)
    types = FieldInfo.types_of(cls)
    for key, attribute in FieldInfo.fields_of(cls).items():
        info = FieldInfo.of(attribute)
        value = getattr(settings, attribute.name)
        if info.foreign is True or value == FieldInfo.default_of(attribute):
            continue
        below = (*path, key)
        if info.foreign is False:
            yield below, value
        else:
            allows = _texts_allowed(info, types[attribute.name])
            yield from _inside(value, allows, below)


def _inside(value: Any, allows: Callable[[str], bool], path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    """The values below ``path`` that a stranger must not choose; ``allows`` says which texts are allowed."""
    if attrs.has(type(value)):
        yield from foreign_values(value, path)
    elif isinstance(value, Mapping):
        for key, below in value.items():
            yield from _inside(below, allows, (*path, key))
    elif isinstance(value, list | tuple | set | frozenset):
        for index, below in enumerate(value):
            yield from _inside(below, allows, (*path, index))
    elif isinstance(value, str) and not isinstance(value, enum.Enum):
        if not allows(value):
            yield path, value
    elif not (value is None or isinstance(value, bool | int | float | enum.Enum)):
        yield path, value


def _texts_allowed(info: FieldInfo, hint: Any) -> Callable[[str], bool]:
    """Return the texts that the field may have: all, if they were compared with known names."""
    if callable(info.foreign):
        return info.foreign
    is_known = info.record is not None or info.choices is not None or not _is_open(hint)
    return lambda text: is_known or not text


def _is_open(hint: Any) -> bool:
    """Whether any text may stand in a value of this type."""
    if hint in (str, Any, object):
        return True
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return False
    arguments = typing.get_args(hint)
    if origin in (dict, Mapping):  # keys are names of the file itself
        arguments = arguments[1:]
    return any(map(_is_open, arguments))
