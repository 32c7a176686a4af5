"""The reader of a configuration: finds the records that it names, and reads each block as the class of its record."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.problems import NOT_INSTALLED, UNKNOWN_KEY, UNKNOWN_NAME, short_repr
from rlcore.config.structure import WRONG, Errors, Reader, Refused, require_names
from rlcore.errors import KeyPath, NotInstalled, PluginError, dotted
from rlcore.plugins.failures import blamed
from rlcore.plugins.installing import pip_install
from rlcore.plugins.known import FOREIGN_KEYS, KEYS_OF_ML_AGENTS, PACKAGES
from rlcore.records import ConfigSection
from rlcore.settings import BehaviorSettings, EnvironmentParameter, EnvironmentSettings, RunConfig
from rlcore.settings.fields import Choice, FieldInfo

if TYPE_CHECKING:
    from rlcore.config.document import Document
    from rlcore.plugins.call import Plugins
    from rlcore.records import Record

_NEEDED = {"trainer", "environment", "curriculum", "behavior", "evaluation", "exporter"}  # also to measure policies


class RecordReader(Reader):
    """Reads the blocks of a document as the records that it names say.

    ``measuring``: the configuration is for measuring policies only, so that some records may be absent.
    """

    def __init__(self, plugins: Plugins, document: Document, measuring: bool = False) -> None:
        super().__init__()
        self.plugins = plugins
        self.measuring = measuring
        self.data = document.data
        names = [record.name for record in plugins.records("section")]
        self.sections = {name: plugins.record(ConfigSection, name) for name in names}

    @cached_property
    def _hints(self) -> Hints:
        return Hints(self.plugins, self.data)

    def explain(self, refused: Refused, path: KeyPath) -> tuple[str, str]:
        """Return the message and the note; the note about an unknown key names the plugins that may have claimed it."""
        message = self._hints.message(path, refused.message, refused.unknown)
        if not refused.unknown or message != refused.message or not path:  # a plugin had a hint
            return message, refused.note
        if dotted(path) in KEYS_OF_ML_AGENTS:
            return f"unknown key; for files of ML-Agents, {pip_install(FOREIGN_KEYS)}", ""
        # Plugins add keys to behaviors and at the top only.
        depths = {"behaviors": 3, "default_settings": 2}
        if len(path) != depths.get(str(path[0]), 1):
            return message, refused.note
        needed = self.plugins.needed(str(path[-1]))
        return (needed, "") if needed else (message, self.plugins.absent)

    def find(self, kind: str, name: str) -> Any:
        """Return the record; None where it is absent and no measurement needs it. Raises Refused."""
        try:
            return self.plugins.record_of_kind(kind, name)
        except NotInstalled as error:
            if self.measuring and kind not in _NEEDED:
                return None
            code = NOT_INSTALLED if error.package else UNKNOWN_NAME
            raise Refused(error.problem, package=error.package, note=error.note, code=code) from None

    def owner_of(self, record: Record) -> str:
        """Return whose a claimed block is, for messages."""
        return record.described if record.plugin is None else record.plugin.described

    # ------------------------------------------------------------ blocks in other shapes

    def complete(self, cls: type, data: Any, errors: Errors) -> Any:
        """Return a block in the shape that its class reads. Raises Refused."""
        if cls is EnvironmentParameter:
            _require_parameter(data)
        if not isinstance(data, Mapping):
            return data
        if cls is RunConfig:
            return _complete_config(data, errors)
        if cls is BehaviorSettings:
            # ML-Agents' rule: without it, hyperparameters of one trainer would be read as those of the default.
            if data.get("hyperparameters") is not None and "trainer_type" not in data:
                errors.add("hyperparameters", "trainer_type must be given when hyperparameters are")
                data = {**data, "hyperparameters": None}
            rewards = data.get("reward_signals") or {"extrinsic": {}}  # ML-Agents' default
            return {**data, "reward_signals": rewards}
        if issubclass(cls, EnvironmentSettings):
            workers = data.get("workers")
            field = FieldInfo.of(attrs.fields(EnvironmentSettings).workers)
            if type(workers) is int and not field.problem(workers):
                return {**data, "workers": {"count": workers}}
        return data

    # ------------------------------------------------------------ settings whose class a record has

    def of_records(self, cls: type, data: Mapping[str, Any], errors: Errors) -> tuple[dict[str, Any], list[str]]:
        """Return the values of the fields whose classes records have, and the keys of the block that records own."""
        values: dict[str, Any] = {}
        records: dict[str, Record] = {}
        claimed: dict[str, str] = {}
        fields = FieldInfo.fields_of(cls)
        for key, attribute in fields.items():
            choice = FieldInfo.of(attribute).chooses
            if choice is None:
                continue
            if choice.by == "claim":
                owners = self._claims(choice, data)
                claimed |= owners
                values[key] = errors.at(None, self._claimed, choice, owners, data)
                continue
            if choice.by == "name":
                if key in data:
                    values[key] = errors.at(key, self._by_name, choice, data[key])
                continue
            values[key] = FieldInfo.default_of(attribute)
            value = data.get(key)
            default_name = FieldInfo.default_of(fields[choice.key])
            name = data.get(choice.key, default_name)
            if name is None and value is not None:
                errors.add(key, f"nothing is chosen that could have settings; name it in {choice.key}")
            if not isinstance(name, str):  # a name that is not text is a problem of its own key
                continue
            record = errors.at(choice.key, self._chosen, choice, name)
            if record is WRONG:
                continue
            values[key] = errors.at(key, self._of_record, choice, record, value)
            if record is not None:
                records[choice.key] = record
        if records and "records" in attrs.fields_dict(cls) and "records" not in fields:
            values["records"] = records
        return values, list(claimed)

    def _chosen(self, choice: Choice, name: str) -> Record | None:
        record: Record | None = self.find(choice.kind, name)
        if record is None:
            return None
        problem = choice.problem(record)
        if problem is None:
            return record
        able = []
        for other in self.plugins.records(choice.kind):
            if choice.problem(other) is None:
                able.append(other.name)
        advice = f"choose {' or '.join(able)}" if able else "no plugin that is on has one that does"
        raise Refused(f"{problem}; {advice}")

    def _of_record(self, choice: Choice, record: Record | None, value: Any) -> Any:
        """The settings of the record that another key names."""
        if record is None:
            return None
        has_class = getattr(record, choice.attribute, None) is not None
        if not has_class and choice.otherwise is None:
            if choice.each and not value:
                return {}
            if value is None:
                return None
            raise Refused(f"{record.called or record.kind} {record.name!r} {choice.refusal}")
        block = {} if value is None else value
        if not has_class:
            return self.read(choice.otherwise, block)
        if not choice.each:
            return self._settings(record, choice, block)
        require_names(block)
        return self.each(block.items(), lambda _, entry: self._settings(record, choice, entry))

    def _by_name(self, choice: Choice, value: Any) -> Any:
        require_names(value)
        return self.each(value.items(), lambda name, block: self._named_block(choice, name, block))

    def _named_block(self, choice: Choice, name: str, value: Any) -> Any:
        """The settings of the record called ``name``; False if the file turns it off."""
        record = self.find(choice.kind, name)
        if record is None:
            if choice.absent is None:
                return None
            known = FieldInfo.fields_of(choice.absent)
            block = {key: value[key] for key in value if key in known}
            return self.block(choice.absent, block)
        if choice.switch:
            if value is False:
                return False
            if not isinstance(value, Mapping):
                raise Refused(f"must be a mapping of settings, or false to turn it off, not {short_repr(value)}")
        if getattr(record, choice.attribute) is not None:
            return self._settings(record, choice, value)
        errors = Errors()
        for key in value:
            errors.add(key, Refused(f"unknown key; this {record.kind} has no settings", code=UNKNOWN_KEY))
        errors.raise_all()
        return None

    def _claims(self, choice: Choice, data: Mapping[str, Any]) -> dict[str, str]:
        """The keys of a block that belong to records, with the names of the records."""
        # A key of a plugin that is not installed is claimed too: the error is then that its package is missing.
        owners: dict[str, str] = {}
        for key in data:
            if (choice.kind, key) in PACKAGES:
                owners[key] = key
        for record in self.plugins.records(choice.kind):
            if not choice.flat:
                owners[record.name] = record.name
                continue
            for key in FieldInfo.fields_of(record.resolve(choice.attribute)):
                owners[key] = record.name
        return owners

    def _claimed(self, choice: Choice, owners: Mapping[str, str], data: Mapping[str, Any]) -> Any:
        """The settings of records by name: blocks with these names, or keys beside each other; null is nothing."""
        records = {record.name for record in self.plugins.records(choice.kind)}
        flat = records if choice.flat else set()
        blocks: dict[str, Any] = {}
        if choice.kind == "section" and not self.measuring:
            blocks = {key: {} for key in self.sections}

        for key, name in owners.items():
            value = data.get(key)
            if name in flat and key in data:
                blocks[name] = {**blocks.get(name, {}), key: value}
            elif value is not None and not (choice.flat and value == {}):
                blocks[name] = value

        errors = Errors()
        if choice.flat and len(blocks) > 1:  # keys beside each other would not say whose they are
            keys: dict[str, str] = {}
            for key, name in owners.items():
                if name in blocks:
                    keys.setdefault(name, key)
            first, second = list(keys.values())[:2]
            errors.add(second, f"cannot be combined with {first}; delete one of them")
            errors.raise_all()
        settings = {}
        for name, block in blocks.items():
            place = None if name in flat else name
            settings[name] = errors.at(place, self._section, choice, name, block)
        errors.raise_all()
        return settings

    def _section(self, choice: Choice, name: str, value: Any) -> Any:
        record = self.find(choice.kind, name)
        try:
            return self._settings(record, choice, value)
        except Exception as error:  # the message says whose section it is: its keys are a plugin's own
            error.owner = self.owner_of(record)  # type: ignore[attr-defined]
            raise

    def block_of_record(self, base: type, data: Any, default: str) -> Any:
        """Return a block with the class of the record that it names; else of ``default``, or as ``base`` says."""
        choice = Choice.of(base)
        assert choice is not None
        if not isinstance(data, Mapping):
            return self.block(base, data)
        default_of_class = FieldInfo.default_of(getattr(attrs.fields(base), choice.key))
        name = data.get(choice.key, default_of_class)
        if name is None and default_of_class is None:
            name = default
        if not name or not isinstance(name, str):
            return self.block(base, data)
        errors = Errors()
        place = choice.key if choice.key in data else None
        record = errors.at(place, self._chosen, choice, name)
        errors.raise_all()
        if record is None:
            for attribute in attrs.fields(base):
                if attribute.default is attrs.NOTHING:
                    return None
            return base(**{choice.key: name})
        if getattr(record, choice.attribute) is None:
            return self.block(base, data)
        cls = record.resolve(choice.attribute)
        if not issubclass(cls, base):
            problem = f"{record.described}: its settings class {cls.__name__} is not of {base.__name__}"
            raise PluginError(f"{problem}, from which it must derive")
        return self._settings(record, choice, {**data, choice.key: name})

    def _settings(self, record: Record, choice: Choice, value: Any) -> Any:
        """An instance of the settings class of a record. An error in the class is its plugin's."""
        from cattrs import BaseValidationError

        cls = record.resolve(choice.attribute)
        with blamed(record.described, f"in its settings class {cls.__name__}"):
            try:
                return self.block(cls, value)
            except BaseValidationError as error:
                refused = error  # no fault of the class
        raise refused


class Hints:
    """Messages of plugins about the values that were refused in a configuration; see :class:`rlcore.KeyHints`."""

    def __init__(self, plugins: Plugins, data: Mapping[str, Any]) -> None:
        self._of_records = []
        for record in plugins.records("hints"):
            hints = record.create(data=data, plugins=plugins)
            self._of_records.append((record, hints))

    def message(self, path: KeyPath, problem: str, unknown: bool) -> str:
        """Return what to say instead of ``problem``; nothing if the message about another value says it."""
        for record, hints in self._of_records:
            with blamed(record.described, "in message() of its target"):
                problem = hints.message(path, problem, unknown)
        return problem


def _complete_config(data: Mapping[str, Any], errors: Errors) -> Mapping[str, Any]:
    """A whole configuration without what stands for nothing, and without an ``export`` that cannot be read."""
    complete = dict(data)
    if data.get("default_settings") is None and not data.get("behaviors"):
        errors.add("behaviors", "missing; list a behavior, or give default_settings or a preset")
    if not isinstance(data.get("export", {}), Mapping):  # a list of names was rewritten before
        expected = "a list of exporters' names, or a mapping from exporters to settings"
        errors.add("export", f"must be {expected}, not {short_repr(data['export'])}")
        complete["export"] = {}
    # The key without a value means no parameters.
    if complete.get("environment_parameters", {}) is None:
        del complete["environment_parameters"]
    return complete


def _require_parameter(data: Any) -> None:
    """Refuse what is not a block of an environment parameter. Shorter shapes of it were rewritten before."""
    curriculum = data.get("curriculum", {}) if isinstance(data, Mapping) else None
    if not isinstance(curriculum, Mapping):
        raise Refused(
            "must be a number, a sampler ({sampler_type: ..., sampler_parameters: ...}), or curriculum: with a "
            f"list of lessons or the settings of another curriculum, not {short_repr(data)}"
        )
