"""A JSON Schema of the configuration file, installed plugins' settings included, so that editors complete and check it.

The schema accepts whatever :func:`rlcore.load_config` accepts. Only loading checks rules between keys, except
that ``hyperparameters`` depend on ``trainer_type``, and ``options`` and ``parameters`` on the environment's type.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from rlcore.config.classes import chosen_by, default_of, field_types, settings_fields
from rlcore.config.dump import plain
from rlcore.config.names import NAME_PATTERN
from rlcore.config.num_envs import ALIAS, NUM_ENVS
from rlcore.errors import dotted
from rlcore.plugins.known import LESSONS, PACKAGES
from rlcore.settings import BehaviorSettings, EnvironmentSettings, EnvSettings, EvaluationSettings, RunConfig
from rlcore.settings.fields import FieldInfo, field_info

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins
    from rlcore.records import Record

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# 5e5 may be written as text: YAML 1.1 reads it as text anyway.
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


def json_schema(plugins: Plugins) -> Schema:
    """The schema of a whole file, given the plugins that are loaded."""
    return _SchemaWriter(plugins).document()


class _SchemaWriter:
    """Each settings class becomes one entry of ``$defs``, referred to wherever it is used."""

    def __init__(self, plugins: Plugins) -> None:
        self.plugins = plugins
        self.definitions: dict[str, Schema] = {}

    def document(self) -> Schema:
        properties = self._properties(RunConfig, leave_out=("sections",))
        behavior = self._behavior()
        properties["behaviors"] |= {
            "additionalProperties": behavior,
            "propertyNames": {"pattern": f"^{NAME_PATTERN}$"},
        }
        properties["default_settings"] |= _or_null(behavior)
        properties["environment"] |= _or_null(self._environment())
        parameter = self._parameter()
        properties["environment_parameters"] |= {"additionalProperties": parameter}
        properties["env_settings"] |= self._env_settings()
        evaluation = self._object(EvaluationSettings)
        del evaluation["properties"]["sections"]
        evaluation["properties"] |= self._absent("evaluation")
        for record in self.plugins.records("evaluation"):
            evaluation["properties"] |= self._properties(record.resolve("settings"))
        evaluation["properties"]["environment"] = _described(
            {"type": "object"}, evaluation["properties"]["environment"]["description"]
        )
        evaluation["properties"]["environment_parameters"] |= {"additionalProperties": parameter}
        properties["evaluation"] |= _or_null(self._define(EvaluationSettings, evaluation))
        properties["stats"] |= {
            "properties": {name: self._writer(record) for name, record in self._named("writer")},
            "additionalProperties": False,
        }
        properties["export"] = self._exports(properties["export"]["description"])
        for record in self.plugins.records("section"):
            section = self._settings(record, "target")
            properties[record.name] = _described(section, record.summary)
        return {
            "$schema": DIALECT,
            "title": "rlcore configuration",
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
            "anyOf": [{"required": ["behaviors"]}, {"required": ["default_settings"]}],
            "$defs": self.definitions,
        }

    def _behavior(self) -> Schema:
        schema = self._object(BehaviorSettings)
        properties = schema["properties"]
        properties["trainer_type"] |= self._choice("trainer")
        properties["hyperparameters"] |= {"type": ["object", "null"]}
        networks = sorted({record.resolve("network") for _, record in self._named("trainer")}, key=_definition_name)
        properties["network_settings"] |= {"anyOf": [self._class(cls) for cls in networks]} if networks else {}
        properties["reward_signals"] |= {
            "properties": {name: self._settings(record, "settings") for name, record in self._named("reward")},
            "additionalProperties": False,
        }
        del properties["sections"]
        properties |= self._absent("behavior")
        for record in self.plugins.records("behavior"):
            properties[record.name] = _described(_or_null(self._settings(record, "target")), record.summary)
        rules = [
            _rule("trainer_type", name, "hyperparameters", _or_null(self._settings(record, "settings")))
            for name, record in self._named("trainer")
        ]
        rules += [
            _rule("trainer_type", name, "network_settings", self._settings(record, "network"))
            for name, record in self._named("trainer")
        ]
        schema |= {"allOf": rules} if rules else {}  # an empty allOf is not allowed
        return self._define(BehaviorSettings, schema)

    def _absent(self, kind: str) -> dict[str, Schema]:
        """The keys that plugins of rlcore's repository claim, which are absent if nothing replaces these entries."""
        return {
            key: _described({"type": "null"}, f"Needs a plugin: pip install {package}")
            for (of, key), package in PACKAGES.items()
            if of == kind
        }

    def _chosen(self, cls: type, properties: dict[str, Schema]) -> list[Schema]:
        """The rules for fields whose class another key chooses; adds the names of records to the ``properties``."""
        fields, rules = settings_fields(cls), []
        for key, attribute in fields.items():
            choice = field_info(attribute).chooses
            if choice is None:
                continue
            default = default_of(fields[choice.key])
            able = [(name, record) for name, record in self._named(choice.kind) if choice.problem(record) is None]
            properties[choice.key] |= {"enum": [*(name for name, _ in able), *([] if default else [None])]}
            for name, record in able:
                has_settings = getattr(record, "settings", None) is not None
                allowed = _or_null(self._settings(record, "settings")) if has_settings else {"type": "null"}
                condition = _has(choice.key, name, required=name != default)
                rules.append({"if": condition, "then": {"properties": {key: allowed}}})
        return rules

    def _env_settings(self) -> Schema:
        schema = self._object(EnvSettings)
        number = self._properties(EnvironmentSettings)[NUM_ENVS[1]]
        schema["properties"][ALIAS[1]] = _described(number, f"Alias of {dotted(NUM_ENVS)}.")
        return self._define(EnvSettings, schema)

    def _environment(self) -> Schema:
        schema = self._object(EnvironmentSettings)
        schema["properties"]["type"] |= self._choice("environment")
        schema["properties"]["options"] |= {"type": "object"}
        rules = [
            _rule("type", name, "options", self._settings(record, "settings"))
            for name, record in self._named("environment")
            if getattr(record, "settings", None) is not None
        ]
        for name, record in self._named("environment"):
            has_routes = getattr(record, "parameters", None) is not None
            allowed = (
                {"additionalProperties": self._settings(record, "parameters")} if has_routes else {"maxProperties": 0}
            )
            rules.append(_rule("type", name, "parameters", allowed))
        schema |= {"allOf": rules} if rules else {}
        return self._define(EnvironmentSettings, schema)

    def _parameter(self) -> Schema:
        """A number, a sampler, ML-Agents' list of lessons, or the settings of a curriculum according to its type."""
        block: Schema = {"type": "object", "properties": {"type": self._choice("curriculum")}}
        rules = []
        lessons: Schema = {"type": "array"}
        for name, record in self._named("curriculum"):
            settings = self._settings(record, "settings")
            rules.append({"if": _has("type", name, required=name != LESSONS), "then": settings})
            if name == LESSONS:
                definition = self.definitions[settings["$ref"].rpartition("/")[2]]
                lessons = definition["properties"].get("lessons", lessons)
        sampler = {"sampler_type": {"type": "string"}, "sampler_parameters": {"type": "object"}}
        curriculum = {"curriculum": {"anyOf": [lessons, block | ({"allOf": rules} if rules else {})]}}
        return {
            "anyOf": [
                {"type": "number"},
                *(
                    {
                        "type": "object",
                        "properties": properties,
                        "required": list(properties)[:1],
                        "additionalProperties": False,
                    }
                    for properties in (sampler, curriculum)
                ),
            ]
        }

    def _typed_block(self, base: Any, named: str | None = None) -> Schema:
        """A block that names its record itself. ``named``: the record of a block without the key."""
        choice = chosen_by(base)
        assert choice is not None
        kind, key = choice.kind, choice.key
        default = named or default_of(getattr(attrs.fields(base), key))
        rules = [
            {"if": _has(key, name, required=name != default), "then": self._settings(record, "settings")}
            for name, record in self._named(kind)
        ]
        schema: Schema = {"type": "object", "properties": {key: self._choice(kind)}}
        return schema | ({"allOf": rules} if rules else {})

    def _typed_blocks(self, base: Any) -> Schema:
        """A mapping of blocks that name their records: a block is named after its record, or names one."""
        choice = chosen_by(base)
        names = [name for name, _ in self._named(choice.kind)] if choice else []
        return {
            "type": "object",
            "properties": {name: self._typed_block(base, name) for name in names},
            "additionalProperties": {**self._typed_block(base), "required": ["type"]},
        }

    def _writer(self, record: Record) -> Schema:
        empty: Schema = {"type": "object", "additionalProperties": False}
        has_settings = getattr(record, "settings", None) is not None
        settings = self._settings(record, "settings") if has_settings else empty
        return _described({"anyOf": [settings, {"const": False}]}, record.summary)

    def _exports(self, description: str) -> Schema:
        """The names of exporters, or a mapping from names to settings."""
        block: Schema = {
            "type": "object",
            "properties": {
                name: _described(self._settings(record, "settings"), record.summary)
                for name, record in self._named("exporter")
            },
            "additionalProperties": False,
            "default": {},
        }
        names: Schema = {"type": "array", "items": self._choice("exporter"), "uniqueItems": True}
        return _described({"anyOf": [block, names]}, description)

    def _named(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Records by each of their names: DIST/NAME, and NAME if only one plugin provides it."""
        records = self.plugins.records(kind) if kind in self.plugins.kinds else ()
        names = [record.name for record in records]
        for record in records:
            if names.count(record.name) == 1:
                yield record.name, record
            yield record.reference, record

    def _choice(self, kind: str) -> Schema:
        return {"enum": [name for name, _ in self._named(kind)]}

    def _settings(self, record: Record, attribute: str) -> Schema:
        return self._class(record.resolve(attribute))

    def _class(self, cls: type) -> Schema:
        name = _definition_name(cls)
        if name not in self.definitions:
            self.definitions[name] = {}  # so that a class that refers to itself finds the entry
            self.definitions[name] = self._object(cls)
        return {"$ref": f"#/$defs/{name}"}

    def _define(self, cls: type, schema: Schema) -> Schema:
        self.definitions[_definition_name(cls)] = schema
        return {"$ref": f"#/$defs/{_definition_name(cls)}"}

    def _object(self, cls: type) -> Schema:
        required = [key for key, attribute in settings_fields(cls).items() if attribute.default is attrs.NOTHING]
        properties = self._properties(cls)
        rules = self._chosen(cls, properties)
        schema: Schema = {
            "type": "object",
            "description": (cls.__doc__ or "").strip().partition("\n\n")[0],
            "properties": properties,
            "additionalProperties": False,
        }
        return schema | ({"required": required} if required else {}) | ({"allOf": rules} if rules else {})

    def _properties(self, cls: type, leave_out: Sequence[str] = ()) -> dict[str, Schema]:
        kinds = field_types(cls)
        return {
            key: self._field(attribute, kinds[attribute.name])
            for key, attribute in settings_fields(cls).items()
            if key not in leave_out
        }

    def _field(self, attribute: attrs.Attribute[Any], kind: Any) -> Schema:
        info, default = field_info(attribute), default_of(attribute)
        if info.not_supported is not None:
            note = f"{info.description} Not supported yet: {info.not_supported}."
            return _described({"const": plain(default, ())}, note)
        schema = self._type(kind)
        limits = _limits(info)
        choices = info.choices if info.record is None else self._choice(info.record)["enum"]
        if choices is not None:
            # Beside "anyOf", an enum restricts further, so null must be in it if the field allows null.
            limits["enum"] = [*choices, *([None] if type(None) in typing.get_args(kind) else [])]
        if limits:
            lists = [member for member in (schema, *schema.get("anyOf", ())) if "items" in member]
            for member in lists:
                member["items"] |= limits
            schema |= {} if lists else limits
        if info.secret:
            schema["writeOnly"] = True
        elif default is not attrs.NOTHING and not attrs.has(type(default)):
            schema["default"] = plain(default, ())
        return _described(schema, info.description)

    def _type(self, kind: Any) -> Schema:
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if chosen_by(kind) is not None:
            return self._typed_block(kind)
        if isinstance(kind, type) and attrs.has(kind):
            return self._class(kind)
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self._type(argument) for argument in arguments]}
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is tuple and Ellipsis not in arguments:
            items = [self._type(argument) for argument in arguments]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        if origin in (list, Sequence, tuple, set, frozenset):
            return {"type": "array", "items": self._type(arguments[0])}
        if origin in (dict, Mapping) and chosen_by(arguments[1]) is not None:
            return self._typed_blocks(arguments[1])
        if origin in (dict, Mapping):
            return {"type": "object", "additionalProperties": self._type(arguments[1])}
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return {"enum": [member.value for member in kind]}
        if kind in (list, tuple, dict):
            return {"type": "object" if kind is dict else "array"}
        return dict(_SCALARS.get(kind, {}))


def _limits(info: FieldInfo) -> Schema:
    limits = {"minimum": info.minimum, "maximum": info.maximum, "exclusiveMinimum": info.exclusive_minimum}
    return {keyword: limit for keyword, limit in limits.items() if limit is not None}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _rule(key: str, value: str, dependent: str, schema: Schema) -> Schema:
    """If ``key`` has this value, ``dependent`` follows ``schema``."""
    return {"if": _has(key, value), "then": {"properties": {dependent: schema}}}


def _has(key: str, value: str, required: bool = True) -> Schema:
    """``key`` has this value; unless it is ``required``, it may be missing."""
    return {"properties": {key: {"const": value}}} | ({"required": [key]} if required else {})


def _definition_name(cls: type) -> str:
    return cls.__name__ if cls.__module__.startswith("rlcore.") else f"{cls.__module__}.{cls.__qualname__}"
