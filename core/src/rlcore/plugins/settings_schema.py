"""JSON Schema of settings classes, for editors and for programs that write configurations."""

from __future__ import annotations

import enum
import json
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from rlcore.settings.fields import Choice, FieldInfo

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins
    from rlcore.records import Record

__all__ = ["SettingsSchema"]

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# 5e5 may be written as text: editors that know YAML 1.1 read it as text anyway.
_NUMBER_TEXT = r"^\s*[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
_SCALARS: Mapping[Any, Schema] = types.MappingProxyType(
    {
        bool: {"type": "boolean"},
        int: {"type": ["integer", "string"], "pattern": _NUMBER_TEXT},
        float: {"type": ["number", "string"], "pattern": _NUMBER_TEXT},
        str: {"type": "string"},
        Path: {"type": "string"},
        type(None): {"type": "null"},
    }
)


class SettingsSchema:
    """Writes the JSON Schema of settings classes. Each class is one entry of ``$defs``, referred to where it is used.

    What a plugin's record decides, such as the hyperparameters of a trainer, is any mapping here. A subclass may
    know more: ``rlcore schema`` writes the schema of a whole file with one.

    Attributes:
        plugins: The plugins whose records a setting may name.
        definitions: The schemas of the classes that were written so far, by name.
    """

    def __init__(self, plugins: Plugins) -> None:
        self.plugins = plugins
        self.definitions: dict[str, Schema] = {}

    def document(self, cls: type) -> Schema:
        """Return a schema of ``cls`` that needs no other."""
        reference = self.reference(cls)
        return {"$schema": DIALECT, **reference, "$defs": dict(self.definitions)}

    def reference(self, cls: type) -> Schema:
        """Return the reference to the schema of ``cls``, which is in ``definitions`` then."""
        name = self.name_of(cls)
        if name not in self.definitions:
            self.definitions[name] = {}  # so that a class that refers to itself finds the entry
            self.definitions[name] = self.object(cls)
        return {"$ref": f"#/$defs/{name}"}

    @staticmethod
    def name_of(cls: type) -> str:
        """Return the name of ``cls`` in ``definitions``; those of plugins, which may be equal, name the module too."""
        if cls.__module__.startswith("rlcore."):
            return cls.__name__
        return f"{cls.__module__}.{cls.__qualname__}"

    def object(self, cls: type) -> Schema:
        """Return the schema of a block with the keys of ``cls``."""
        fields = FieldInfo.fields_of(cls)
        required = [key for key, attribute in fields.items() if attribute.default is attrs.NOTHING]
        properties = self.properties(cls)
        rules = self.rules(cls, properties)
        docstring = (cls.__doc__ or "").strip()
        schema: Schema = {
            "type": "object",
            "description": docstring.partition("\n\n")[0],
            "properties": properties,
            "additionalProperties": False,
        }
        if required:
            schema["required"] = required
        if rules:
            schema["allOf"] = rules
        return schema

    def properties(self, cls: type) -> dict[str, Schema]:
        """Return the schema of each key of ``cls``."""
        kinds = FieldInfo.types_of(cls)
        properties = {}
        for key, attribute in FieldInfo.fields_of(cls).items():
            kind = kinds[attribute.name]
            properties[key] = self._field(attribute, kind)
        return properties

    def rules(self, cls: type, properties: dict[str, Schema]) -> list[Schema]:
        """Return rules between keys of ``cls``; may change ``properties``."""
        return []

    def of_choice(self, base: Any) -> Schema:
        """Return the schema of a block whose class is that of the record that it names."""
        return {"type": "object"}

    def of_choices(self, base: Any) -> Schema:
        """Return the schema of a mapping of blocks that name their records."""
        return {"type": "object", "additionalProperties": self.of_choice(base)}

    def named(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Yield the records by each of their names: DIST/NAME, and NAME if only one plugin provides it."""
        records = self.plugins.records(kind) if kind in self.plugins.kinds else ()
        names = [record.name for record in records]
        for record in records:
            if names.count(record.name) == 1:
                yield record.name, record
            yield record.reference, record

    def names(self, kind: str) -> Schema:
        """Return the schema of a text that names a record of ``kind``."""
        return {"enum": [name for name, _ in self.named(kind)]}

    def of_type(self, kind: Any) -> Schema:
        """Return the schema of values of a type."""
        origin = typing.get_origin(kind)
        arguments = typing.get_args(kind)
        if Choice.of(kind) is not None:
            return self.of_choice(kind)
        if isinstance(kind, type) and attrs.has(kind):
            return self.reference(kind)
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.of_type(argument) for argument in arguments]}
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is tuple and Ellipsis not in arguments:
            items = [self.of_type(argument) for argument in arguments]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        if origin in (list, Sequence, tuple, set, frozenset):
            return {"type": "array", "items": self.of_type(arguments[0])}
        if origin in (dict, Mapping):
            _, entry = arguments
            if Choice.of(entry) is not None:
                return self.of_choices(entry)
            return {"type": "object", "additionalProperties": self.of_type(entry)}
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return {"enum": [member.value for member in kind]}
        if kind in (list, tuple, dict):
            return {"type": "object" if kind is dict else "array"}
        return dict(_SCALARS.get(kind, {}))

    def _field(self, attribute: attrs.Attribute[Any], kind: Any) -> Schema:
        info = FieldInfo.of(attribute)
        default = FieldInfo.default_of(attribute)
        schema = self.of_type(kind)
        limits = _limits(info)
        choices = info.choices
        if info.record is not None:
            choices = (*self.names(info.record)["enum"], *(choices or ()))
        if choices is not None:
            limits["enum"] = list(choices)
            # Beside "anyOf", an enum restricts further, so null must be in it if the field allows null.
            if type(None) in typing.get_args(kind):
                limits["enum"].append(None)
        if limits:
            # The limits of a field with a list are those of its items.
            members = (schema, *schema.get("anyOf", ()))
            lists = [member for member in members if "items" in member]
            for member in lists:
                member["items"] |= limits
            if not lists:
                schema |= limits
        if info.secret:
            schema["writeOnly"] = True
        elif default is not attrs.NOTHING and not attrs.has(type(default)):
            # Through text: a default may be a tuple or a path, which JSON does not have.
            text = json.dumps(default, default=str)
            schema["default"] = json.loads(text)
        if info.description:
            schema = {**schema, "description": info.description}
        return schema


def _limits(info: FieldInfo) -> Schema:
    limits = {
        "minimum": info.minimum,
        "maximum": info.maximum,
        "exclusiveMinimum": info.exclusive_minimum,
    }
    return {keyword: limit for keyword, limit in limits.items() if limit is not None}
