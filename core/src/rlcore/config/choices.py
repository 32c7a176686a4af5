"""The reader of a configuration: finds the records that it names, and reads each block as the class of its record."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.problems import shown
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


class Choices(Reader):
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

    def completed(self, refused: Refused, path: KeyPath) -> tuple[str, str]:
        """Return the message and the note; the note about an unknown key names the plugins that may have claimed it."""
        message = self._hints.message(path, refused.message, refused.unknown)
        if refused.unknown and message == refused.message and dotted(path) in KEYS_OF_ML_AGENTS:
            return f"unknown key; for files of ML-Agents, {pip_install(FOREIGN_KEYS)}", ""
        depth = {"behaviors": 3, "default_settings": 2}.get(str(path[0]), 1) if path else 0
        if refused.unknown and message == refused.message and len(path) == depth:
            needed = self.plugins.needed(str(path[-1]))
            return (needed, "") if needed else (message, self.plugins.absent)
        return message, refused.note

    def named(self, kind: str, name: str) -> Any:
        """Return the record; None where it is absent and no measurement needs it. Raises Refused."""
        try:
            return self.plugins.record_of_kind(kind, name)
        except NotInstalled as error:
            if self.measuring and kind not in _NEEDED:
                return None
            raise Refused(error.problem, package=error.package, note=error.note) from None

    def owner_of(self, record: Record) -> str:
        """Return whose a claimed block is, for messages."""
        return record.described if record.plugin is None else record.plugin.described

    # ------------------------------------------------------------ blocks in other shapes

    def whole(self, cls: type, data: Any, errors: Errors) -> Any:
        """Return a block in the shape that its class reads. Raises Refused."""
        if cls is EnvironmentParameter:
            _require_parameter(data)
        if not isinstance(data, Mapping):
            return data
        if cls is RunConfig:
            if data.get("default_settings") is None and not data.get("behaviors"):
                errors.add("behaviors", "missing; list a behavior, or give default_settings or a preset")
            if not isinstance(data.get("export", {}), Mapping):  # a list of names was rewritten before
                said = "a list of exporters' names, or a mapping from exporters to settings"
                errors.add("export", f"must be {said}, not {shown(data['export'])}")
                data = {**data, "export": {}}
            return {key: data[key] for key in data if key != "environment_parameters" or data[key] is not None}
        if cls is BehaviorSettings:
            if data.get("hyperparameters") is not None and "trainer_type" not in data:
                errors.add("hyperparameters", "trainer_type must be given when hyperparameters are")
                data = {**data, "hyperparameters": None}
            return {**data, "reward_signals": data.get("reward_signals") or {"extrinsic": {}}}
        if issubclass(cls, EnvironmentSettings):
            workers = data.get("workers")
            if type(workers) is int and not FieldInfo.of(attrs.fields(EnvironmentSettings).workers).problem(workers):
                return {**data, "workers": {"count": workers}}
        return data

    # ------------------------------------------------------------ settings whose class a record has

    def of_records(self, cls: type, data: Mapping[str, Any], errors: Errors) -> tuple[dict[str, Any], list[str]]:
        """Return the values of the fields whose classes records have, and the keys of the block that records own."""
        fields = FieldInfo.fields_of(cls)
        values: dict[str, Any] = {}
        records: dict[str, Record] = {}
        claimed: dict[str, str] = {}
        for key, attribute in fields.items():
            choice = FieldInfo.of(attribute).chooses
            if choice is None:
                continue
            if choice.by == "claim":
                owners = self._claims(choice, data)
                claimed |= owners
                values[key] = errors.at(None, self._claimed, choice, owners, data)
            elif choice.by == "name":
                if key in data:
                    values[key] = errors.at(key, self._by_name, choice, data[key])
            else:
                name = data.get(choice.key, FieldInfo.default_of(fields[choice.key]))
                given = data.get(key)
                values[key] = FieldInfo.default_of(attribute)
                if isinstance(name, str):  # a name that is not text is a problem of its own key
                    record = errors.at(choice.key, self._chosen, choice, name)
                    if record is not WRONG:
                        values[key] = errors.at(key, self._of_record, choice, record, given)
                    if record not in (None, WRONG):
                        records[choice.key] = record
                elif name is None and given is not None:
                    errors.add(key, f"nothing is chosen that could have settings; name it in {choice.key}")
        if records and "records" in attrs.fields_dict(cls) and "records" not in fields:
            values["records"] = records
        return values, list(claimed)

    def _chosen(self, choice: Choice, name: str) -> Record | None:
        record: Record | None = self.named(choice.kind, name)
        if record is not None and (unfit := choice.problem(record)) is not None:
            able = [each.name for each in self.plugins.records(choice.kind) if choice.problem(each) is None]
            others = f"choose {' or '.join(able)}" if able else "no plugin that is on has one that does"
            raise Refused(f"{unfit}; {others}")
        return record

    def _of_record(self, choice: Choice, record: Record | None, value: Any) -> Any:
        """The settings of the record that another key names."""
        if record is None:
            return None
        has_class = getattr(record, choice.attribute, None) is not None
        if not has_class and choice.otherwise is None:
            if value is None or (choice.each and not value):
                return {} if choice.each else None
            raise Refused(f"{record.called or record.kind} {record.name!r} {choice.refusal}")
        value = {} if value is None else value
        if not has_class:
            return self.read(choice.otherwise, value)
        if not choice.each:
            return self._settings(record, choice, value)
        require_names(value)
        return self.each(value.items(), lambda _, block: self._settings(record, choice, block))

    def _by_name(self, choice: Choice, value: Any) -> Any:
        require_names(value)
        return self.each(value.items(), lambda name, block: self._named_block(choice, name, block))

    def _named_block(self, choice: Choice, name: str, value: Any) -> Any:
        """The settings of the record called ``name``; False if the file turns it off."""
        record = self.named(choice.kind, name)
        if record is None:
            known = FieldInfo.fields_of(choice.absent) if choice.absent is not None else {}
            return choice.absent and self.block(choice.absent, {key: value[key] for key in value if key in known})
        if choice.switch and value is False:
            return False
        if choice.switch and not isinstance(value, Mapping):
            raise Refused(f"must be a mapping of settings, or false to turn it off, not {shown(value)}")
        if getattr(record, choice.attribute) is not None:
            return self._settings(record, choice, value)
        errors = Errors()
        for key in value:
            errors.add(key, f"unknown key; this {record.kind} has no settings")
        errors.raise_all()
        return None

    def _claims(self, choice: Choice, data: Mapping[str, Any]) -> dict[str, str]:
        """The keys of a block that belong to records, with the names of the records."""
        known = {key: key for key in data if (choice.kind, key) in PACKAGES}
        keys = {
            key: record.name
            for record in self.plugins.records(choice.kind)
            for key in (FieldInfo.fields_of(record.resolve(choice.attribute)) if choice.flat else (record.name,))
        }
        return known | keys

    def _claimed(self, choice: Choice, owners: Mapping[str, str], data: Mapping[str, Any]) -> Any:
        """The settings of records by name: blocks with these names, or keys beside each other; null is nothing."""
        records = {record.name for record in self.plugins.records(choice.kind)}
        blocks: dict[str, Any] = {}
        errors = Errors()
        if choice.kind == "section" and not self.measuring:
            blocks = {key: {} for key in self.sections}
        for key, name in owners.items():
            value = data.get(key)
            flat = choice.flat and name in records
            if flat and key in data:
                blocks[name] = {**blocks.get(name, {}), key: value}
            elif value is not None and not (choice.flat and value == {}):
                blocks[name] = value
        if choice.flat and len(blocks) > 1:
            *_, other, one = {name: key for key, name in reversed([*owners.items()]) if name in blocks}.values()
            errors.add(other, f"cannot be combined with {one}; delete one of them")
            errors.raise_all()
        made = {}
        for name, block in blocks.items():
            beside = choice.flat and name in records
            made[name] = errors.at(None if beside else name, self._section, choice, name, block)
        errors.raise_all()
        return made

    def _section(self, choice: Choice, name: str, value: Any) -> Any:
        record = self.named(choice.kind, name)
        try:
            return self._settings(record, choice, value)
        except Exception as error:
            error.owner = self.owner_of(record)  # type: ignore[attr-defined]
            raise

    def block_of_record(self, base: type, data: Any, named: str) -> Any:
        """Return a block with the class of the record that it names; by default, of ``named``, or as ``base`` says."""
        choice = Choice.of(base)
        assert choice is not None
        default = FieldInfo.default_of(getattr(attrs.fields(base), choice.key))
        name = data.get(choice.key, default) if isinstance(data, Mapping) else ""
        name = named if name is None and default is None else name
        if not name or not isinstance(name, str):
            return self.block(base, data)
        errors = Errors()
        record = errors.at(choice.key if choice.key in data else None, self._chosen, choice, name)
        errors.raise_all()
        if record is None:
            required = any(each.default is attrs.NOTHING for each in attrs.fields(base))
            return None if required else base(**{choice.key: name})
        if getattr(record, choice.attribute) is None:
            return self.block(base, data)
        cls = record.resolve(choice.attribute)
        if not issubclass(cls, base):
            wrong = f"{record.described}: its settings class {cls.__name__} is not of {base.__name__}"
            raise PluginError(f"{wrong}, from which it must derive")
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
        self._of_records = [(each, each.create(data=data, plugins=plugins)) for each in plugins.records("hints")]

    def message(self, path: KeyPath, problem: str, unknown: bool) -> str:
        """Return what to say instead of ``problem``; nothing if the message about another value says it."""
        for record, hints in self._of_records:
            with blamed(record.described, "in message() of its target"):
                problem = hints.message(path, problem, unknown)
        return problem


def _require_parameter(data: Any) -> None:
    """Refuse what is not a block of an environment parameter. Shorter shapes of it were rewritten before."""
    if not isinstance(data, Mapping) or not isinstance(data.get("curriculum", {}), Mapping):
        raise Refused(
            "must be a number, a sampler ({sampler_type: ..., sampler_parameters: ...}), or curriculum: with a "
            f"list of lessons or the settings of another curriculum, not {shown(data)}"
        )
