"""``rlcore schema``: a JSON Schema of the configuration file, so that editors complete and check it.

The schema includes installed plugins' settings and accepts whatever :func:`rlcore.load_config` accepts. Only loading
checks rules between keys, except that ``hyperparameters`` depend on ``trainer_type``, and ``options`` and
``parameters`` on the environment's type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from rlcore import (
    NAME_PATTERN,
    BehaviorSettings,
    CheckpointSettings,
    Choice,
    CommandSpec,
    CurriculumSettings,
    EnvironmentParameter,
    EnvironmentSettings,
    EnvSettings,
    EvaluationSettings,
    FieldInfo,
    KeyHints,
    RunConfig,
    SettingsSchema,
    debug_option,
    echo,
    load_plugins_for,
    read_document,
)

if TYPE_CHECKING:
    from rlcore import Plugins, Record

Schema = dict[str, Any]


@click.command("schema")
@click.argument("config", required=False, type=click.Path(path_type=Path))
@click.option("--allow-local", is_flag=True, envvar="RLCORE_ALLOW_LOCAL", help="Import files that CONFIG names.")
@debug_option
def schema_command(config: Path | None, allow_local: bool) -> None:
    """Print the JSON Schema of configuration files, for editors.

    It describes the settings of the installed plugins, or of those that CONFIG chooses.
    """
    plugins = load_plugins_for(read_document(config), allow_local=allow_local)
    for warning in plugins.warnings:
        echo(f"warning: {warning}", err=True)
    click.echo(json.dumps(json_schema(plugins), indent=4))


def json_schema(plugins: Plugins) -> Schema:
    """Return the schema of a whole configuration file, given the plugins that are loaded."""
    return _SchemaWriter(plugins).of_file()


class _SchemaWriter(SettingsSchema):
    """Writes the schema of a file, with what the records of plugins decide."""

    def of_file(self) -> Schema:
        differences = {"type": "object", "description": "What differs from the environment block."}
        self._add(EnvSettings, self._defaults_only("env_settings"))
        self._add(CheckpointSettings, self._defaults_only("checkpoint_settings"))
        self._add(EvaluationSettings, {"environment": differences})
        schema = self.object(RunConfig)
        properties = schema["properties"]
        # Files of ML-Agents have these as null, without the plugin too.
        behavior_keys = self.definitions[BehaviorSettings.__name__]["properties"]
        for key in ("self_play", "behavioral_cloning"):
            behavior_keys.setdefault(key, {"type": "null", "description": "Needs a plugin."})
        engine_keys = self._defaults_only("engine_settings")
        if engine_keys:
            properties["engine_settings"] = {
                "type": "object",
                "description": "Of Unity players.",
                "properties": engine_keys,
                "additionalProperties": False,
            }
        properties["behaviors"]["propertyNames"] = {"pattern": f"^{NAME_PATTERN}$"}
        blocks = properties["export"]
        names: Schema = {"type": "array", "items": self.names("exporter")}
        properties["export"] = _described({"anyOf": [blocks, names]}, blocks["description"])
        for record in self.plugins.records(CommandSpec.kind):
            if isinstance(record, CommandSpec) and record.settings is not None:
                settings = self._settings(record, "settings")
                about = f"Of the command rlcore {record.name}; a run does not use it."
                properties[record.name] = _described(settings, about)
        title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "rlcore configuration"}
        # A file without any of these has no behavior to train. An environment alone may have the settings of a preset.
        required = [{"required": [key]} for key in ("behaviors", "default_settings", "preset", "environment")]
        return title | schema | {"anyOf": required, "$defs": self.definitions}

    def _defaults_only(self, block: str) -> dict[str, Schema]:
        """The keys of other programs in a block that may only have their defaults, unless Unity's players are there."""
        accepted: dict[str, Any] = {}
        for record in self.plugins.records(KeyHints.kind):
            if isinstance(record, KeyHints) and record.accepts is not None:
                accepted |= record.resolve("accepts").get(block, {})
        environments = {record.name for record in self.plugins.records("environment")}
        keyword = "const"
        about = "Not supported."
        if block != "checkpoint_settings" and "unity" in environments:
            keyword = "default"
            about = "Of Unity's players; with other environments, only the default is allowed."
        keys: dict[str, Schema] = {}
        for key, default in accepted.items():
            keys[key] = {keyword: default, "description": about}
        if "num_envs" in keys:
            num_envs = self.properties(EnvironmentSettings)["num_envs"]
            keys["num_envs"] = _described(num_envs, "Alias of environment.num_envs.")
        return keys

    def _add(self, cls: type, properties: Mapping[str, Schema]) -> None:
        """Define a class whose blocks have keys in a file that the class lacks, or has otherwise."""
        self.reference(cls)
        definition = self.definitions[self.name_of(cls)]
        definition["properties"] |= properties

    def rules(self, cls: type, properties: dict[str, Schema]) -> list[Schema]:
        """Complete the ``properties`` of a class with the records that its blocks name, and return its rules."""
        rules: list[Schema] = []
        for key, attribute in FieldInfo.fields_of(cls).items():
            choice = FieldInfo.of(attribute).chooses
            if choice is None:
                continue
            if choice.by == "key":
                rules += self._chosen_by_key(cls, properties, key, choice)
            elif choice.by == "name":
                entries = {}
                for name, record in self.named(choice.kind):
                    entries[name] = self._entry(choice, record)
                properties[key]["properties"] = entries
                properties[key]["additionalProperties"] = False
            else:
                del properties[key]
                properties |= self._beside(choice)
        return rules

    def _chosen_by_key(self, cls: type, properties: dict[str, Schema], key: str, choice: Choice) -> Iterator[Schema]:
        """Restrict the key that names a record, and yield what ``key`` may be for each record."""
        default = FieldInfo.default_of(FieldInfo.fields_of(cls)[choice.key])
        allowed: dict[str, Schema] = {}
        for name, record in self.named(choice.kind):
            if choice.problem(record) is None:
                allowed[name] = self._allowed(choice, record)
        names: list[str | None] = list(allowed)
        properties[choice.key]["enum"] = names if default else [*names, None]
        inherits = cls is BehaviorSettings  # its trainer may be that of default_settings, or of a preset
        if inherits:
            distinct: list[Schema] = []
            for schema in allowed.values():
                if schema not in distinct:
                    distinct.append(schema)
            missing = {"not": {"required": [choice.key]}}
            yield _rule(missing, key, {"anyOf": distinct})
        for name, schema in allowed.items():
            required = inherits or name != default
            condition = _has(choice.key, name, required)
            yield _rule(condition, key, schema)

    def _beside(self, choice: Choice) -> dict[str, Schema]:
        """The blocks of records that stand beside other keys, or their keys alone."""
        keys: dict[str, Schema] = {}
        for record in self.plugins.records(choice.kind):
            if choice.flat:
                keys |= self.properties(record.resolve(choice.attribute))
                continue
            block = self._settings(record, choice.attribute)
            if choice.kind != "section":
                block = _or_null(block)
            keys[record.name] = _described(block, record.summary)
        return keys

    def _allowed(self, choice: Choice, record: Record) -> Schema:
        """The settings that a field has if its choice is ``record``."""
        if getattr(record, choice.attribute, None) is not None:
            settings = self._settings(record, choice.attribute)
            if choice.each:
                return {"type": "object", "additionalProperties": settings}
            return _or_null(settings)
        if choice.otherwise is not None:
            return self.of_type(choice.otherwise)
        if choice.each:
            return {"maxProperties": 0}
        return {"type": "null"}

    def _entry(self, choice: Choice, record: Record) -> Schema:
        """The block of a record that is called by its name."""
        settings: Schema = {"type": "object", "additionalProperties": False}
        if getattr(record, choice.attribute) is not None:
            settings = self._settings(record, choice.attribute)
        if choice.switch:
            settings = {"anyOf": [settings, {"const": False}]}
        return _described(settings, record.summary)

    def _parameter(self) -> Schema:
        """A number, a sampler, ML-Agents' list of lessons, or the settings of a curriculum according to its type."""
        curriculum = self.of_choice(CurriculumSettings)
        lessons: Schema = {"type": "array"}
        for name, record in self.named("curriculum"):
            if name == "lessons":
                self._settings(record, "settings")
                settings_class = record.resolve("settings")
                definition = self.definitions[self.name_of(settings_class)]
                lessons = definition["properties"].get("lessons", lessons)
        sampler: Schema = {"sampler_type": {"type": "string"}, "sampler_parameters": {"type": "object"}}
        lessons_or_curriculum: Schema = {"curriculum": {"anyOf": [lessons, curriculum]}}
        forms = [
            {"type": "number"},
            _object_of(sampler, "sampler_type"),
            _object_of(lessons_or_curriculum, "curriculum"),
        ]
        return {"anyOf": forms}

    def of_type(self, kind: Any) -> Schema:
        """A value of a type; an environment parameter has many forms."""
        return self._parameter() if kind is EnvironmentParameter else super().of_type(kind)

    def of_choice(self, base: Any, named: str | None = None) -> Schema:
        """A block that names its record itself. ``named``: the record of a block without the key."""
        choice = Choice.of(base)
        assert choice is not None
        key = choice.key
        default = named or FieldInfo.default_of(getattr(attrs.fields(base), key))
        schema: Schema = {"type": "object", "properties": {key: self.names(choice.kind)}}
        rules: list[Schema] = []
        for name, record in self.named(choice.kind):
            condition = _has(key, name, required=name != default)
            rules.append({"if": condition, "then": self._block(base, choice, record)})
        if rules:
            schema["allOf"] = rules
        return schema

    def _block(self, base: type, choice: Choice, record: Record) -> Schema:
        """The block of a record: of its own class, or of ``base`` if it names none."""
        if getattr(record, choice.attribute) is None:
            return self.reference(base)
        return self._settings(record, choice.attribute)

    def of_choices(self, base: Any) -> Schema:
        """A mapping of blocks that name their records: a block is named after its record, or names one."""
        choice = Choice.of(base)
        blocks = {}
        if choice is not None:
            for name in self.names(choice.kind)["enum"]:
                blocks[name] = self.of_choice(base, name)
        other = self.of_choice(base)
        other["required"] = ["type"]
        return {"type": "object", "properties": blocks, "additionalProperties": other}

    def _settings(self, record: Record, attribute: str) -> Schema:
        return self.reference(record.resolve(attribute))


def _rule(condition: Schema, key: str, schema: Schema) -> Schema:
    """Where ``condition`` holds, ``key`` is as ``schema`` says."""
    return {"if": condition, "then": {"properties": {key: schema}}}


def _described(schema: Schema, description: str) -> Schema:
    if not description:
        return schema
    return {**schema, "description": description}


def _object_of(properties: Mapping[str, Schema], required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": [required], "additionalProperties": False}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _has(key: str, value: str, required: bool = True) -> Schema:
    """``key`` has this value; unless it is ``required``, it may be missing."""
    condition: Schema = {"properties": {key: {"const": value}}}
    if required:
        condition["required"] = [key]
    return condition
