"""The records that a configuration names: whose settings class each block has, and what is wrong with whole blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.document import shown
from rlcore.config.structure import NO_KEY, Refused, converter, each_of, own_hook, require_names
from rlcore.errors import KeyPath, NotInstalled, PluginError
from rlcore.plugins.failures import blamed
from rlcore.plugins.known import NOT_BUILT, PACKAGES
from rlcore.records import ConfigSection
from rlcore.settings import (
    BehaviorSettings,
    EnvironmentParameter,
    EnvironmentSettings,
    EvaluationSettings,
    RunConfig,
)
from rlcore.settings.fields import Choice, chosen_by, default_of, field_info, settings_fields

if TYPE_CHECKING:
    from rlcore.config.document import Document
    from rlcore.plugins.call import Plugins
    from rlcore.records import Record

_NEEDED = {"trainer", "environment", "curriculum", "behavior", "evaluation", "exporter"}  # also to measure policies
_SECTIONS = Choice("behavior", by="claim")
_EXPORTER = (
    "must be the name of an exporter, not {}; to give settings, write export as a mapping from exporters to settings"
)


class Choices:
    """Finds the records that a document names, for the hooks of :mod:`rlcore.config.structure`.

    ``measuring``: the configuration is for measuring policies only, so that some records may be absent.
    """

    def __init__(self, plugins: Plugins, document: Document, measuring: bool = False) -> None:
        self.plugins, self.measuring = plugins, measuring
        self.data = document.data
        names = [record.name for record in plugins.records("section")]
        self.sections = {name: plugins.record(ConfigSection, name) for name in names}

    @cached_property
    def _hints(self) -> Hints:
        return Hints(self.plugins, self.data)

    def named(self, kind: str, name: str) -> Any:
        """Return the record; None where it is absent and no measurement needs it. Raises Refused."""
        try:
            return self.plugins.record_of_kind(kind, name)
        except NotInstalled as error:
            if self.measuring and kind not in _NEEDED:
                return None
            part = NOT_BUILT.get((kind, name))
            if part is not None:
                raise Refused(f"not supported yet: {part}") from None
            raise Refused(error.problem, package=error.package, note=error.note) from None
        except PluginError as error:  # two plugins provide it: the file is not wrong, but its line helps
            raise Refused(str(error), fault=error) from error

    def of_kind(self, kind: str) -> Sequence[Record]:
        """Return all records of a kind."""
        return self.plugins.records(kind)

    def claimed(self, choice: Choice, data: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the keys of a block that belong to records, with the names of the records."""
        known = {key: key for key in data if choice.kind != "section" and (choice.kind, key) in PACKAGES}
        if not choice.flat:
            return {record.name: record.name for record in self.plugins.records(choice.kind)} | known
        keys = {
            key: record.name
            for record in self.plugins.records(choice.kind)
            for key in settings_fields(record.resolve(choice.attribute))
        }
        return known | keys

    def owner(self, record: Record) -> str:
        """Return whose a claimed block is, for messages."""
        return record.described if record.plugin is None else record.plugin.described

    def completed(self, refused: Refused, path: KeyPath) -> tuple[str, str]:
        """Return the message about what was refused at ``path``, and a note; both may be empty.

        The note about an unknown key of the file or of a behavior names the plugins that may have claimed it.
        """
        message = self._hints.message(path, refused.problem, refused.unknown)
        depth = {"behaviors": 3, "default_settings": 2}.get(str(path[0]), 1) if path else 0
        if refused.unknown and message == refused.problem and len(path) == depth:
            return message, self.plugins.absent
        return message, refused.note

    # ------------------------------------------------------------ what is wrong with a block as a whole

    def prepared(self, cls: type, data: Any, choices: Mapping[str, Choice]) -> tuple[Any, list[Refused], list[str]]:
        """Return a block as its class reads it, what is wrong with the block as a whole, and the keys of records in it.

        ``choices`` are those of the fields, by key. Raises Refused.
        """
        data, refused = self._whole(cls, data)
        allowed: list[str] = []
        if not isinstance(data, Mapping):
            return data, refused, allowed
        fields = settings_fields(cls) if choices else {}
        found: dict[str, Record] = {}
        for key, choice in choices.items():
            if choice.by == "key":
                data, problem = self._with_record(choice, key, data, default_of(fields[choice.key]), found)
                refused += problem
            elif choice.by == "claim":
                claimed = self.claimed(choice, data)
                allowed += claimed
                own: dict[str, Any] = {}
                for name in filter(data.__contains__, claimed):
                    flat = {**own.get(claimed[name], {}), name: data[name]} if choice.flat else data[name]
                    own[claimed[name]] = flat
                data = {**_without(data, claimed), NO_KEY + fields[key].name: own}
        if found and "records" in attrs.fields_dict(cls) and "records" not in fields:
            data = {**data, f"{NO_KEY}records": found}
        return data, refused, allowed

    def _whole(self, cls: type, data: Any) -> tuple[Any, list[Refused]]:
        """A block in the shape that its class reads, and what is wrong with it as a whole."""
        if cls is RunConfig:
            return self._run_config(data)
        if cls is BehaviorSettings:
            return self._behavior(data)
        if cls is EnvironmentParameter:
            _require_parameter(data)
        if cls is EvaluationSettings and isinstance(data, Mapping):
            return self._evaluation(data)
        if cls is EnvironmentSettings and isinstance(data, Mapping):
            workers = data.get("workers")
            if type(workers) is int and not field_info(attrs.fields(cls).workers).problem(workers):
                return {**data, "workers": {"count": workers}}, []
        return data, []

    def _run_config(self, data: Mapping[str, Any]) -> tuple[Any, list[Refused]]:
        refused: list[Refused] = []
        leave_out: set[str] = set()
        if data.get("default_settings") is None and not data.get("behaviors"):
            refused.append(Refused("missing; list a behavior, or give default_settings", "behaviors"))
        if "sections" in data:  # the attribute that holds plugins' blocks is not a key
            problem = "unknown key; write a plugin's block at the top level under its own name"
            refused.append(Refused(problem, "sections"))
        if not isinstance(data.get("export", {}), Mapping):
            refused += _problems_of_exporters(data["export"])
            leave_out.add("export")
        empty: dict[str, Any] = {} if self.measuring else {name: {} for name in self.sections}
        nothing = [key for key in ("default_settings", "environment_parameters") if data.get(key, 1) is None]
        return {**empty, **_without(data, leave_out.union(nothing, ["sections"]))}, refused

    def _behavior(self, data: Any) -> tuple[Any, list[Refused]]:
        if not isinstance(data, Mapping):
            raise Refused(f"must be a mapping of settings, not {shown(data)}; write {{}} for all defaults")
        refused: list[Refused] = []
        if data.get("hyperparameters") is not None and "trainer_type" not in data:
            refused.append(Refused("trainer_type must be given when hyperparameters are", "hyperparameters"))
            data = _without(data, ["hyperparameters"])
        rewards = data.get("reward_signals") or {"extrinsic": {}}
        nothing = [key for key in self.claimed(_SECTIONS, data) if data.get(key, 1) is None]
        return {**_without(data, nothing), "reward_signals": rewards}, refused

    def _evaluation(self, data: Mapping[str, Any]) -> tuple[Any, list[Refused]]:
        refused = []
        if data.get("interval", 1) is None and data.get("stop_at") is not None:
            refused.append(Refused("without an interval no evaluation could stop the run", "stop_at"))
        choice = field_info(attrs.fields(EvaluationSettings).sections).chooses
        assert choice is not None
        owners = {key: name for key, name in self.claimed(choice, data).items() if key in data}
        names = {record.name for record in self.plugins.records(choice.kind)}
        for key in (key for key in sorted(owners) if owners[key] not in names and data[key] not in (None, {})):
            try:
                self.named(choice.kind, key)
            except Refused as error:
                error.below = (key,)
                refused.append(error)
        first = {name: key for key, name in reversed(owners.items()) if name in names}
        if len(first) > 1:
            one, other, *_ = reversed(first.values())
            refused.append(Refused(f"cannot be combined with {one}; delete one of them", other))
        return _without(data, [key for key in owners if owners[key] not in names or len(first) > 1]), refused

    # ------------------------------------------------------------ settings whose class a record has

    def _with_record(
        self, choice: Choice, key: str, data: Mapping[str, Any], default: Any, found: dict[str, Record]
    ) -> tuple[Mapping[str, Any], list[Refused]]:
        """``data`` with the record for ``key``, which is also added to ``found``; and the problem of its name."""
        name, value, rest = data.get(choice.key, default), data.get(key), _without(data, (key,))
        if not isinstance(name, str):  # a name that is not text is a problem of its own key
            nameless = name is None and value is not None
            problem = f"nothing is chosen that could have settings; name it in {choice.key}"
            return rest, [Refused(problem, key)] if nameless else []
        try:
            record = self.named(choice.kind, name)
        except Refused as refused:
            refused.below = (choice.key,)
            return rest, [refused]
        if record is not None and (unfit := choice.problem(record)) is not None:
            able = [each.name for each in self.of_kind(choice.kind) if choice.problem(each) is None]
            others = f"choose {' or '.join(able)}" if able else "no plugin that is on has one that does"
            return rest, [Refused(f"{unfit}; {others}", choice.key)]
        if record is not None:
            found[choice.key] = record
        return {**data, key: _Chosen(record, value)}, []

    def value(self, choice: Choice, value: Any) -> Any:
        """Return the value of a field whose class a record has, or whose entries have the classes of records."""
        if isinstance(value, _Chosen):
            return self._of_record(choice, value.record, value.value)
        if choice.by == "name":
            require_names(value)
            return each_of(value.items(), lambda name, block: self._named_block(choice, name, block))
        if choice.flat:  # there is one, whose keys are those of the block around it
            return {name: self._settings(self.named(choice.kind, name), choice, block) for name, block in value.items()}
        return each_of(value.items(), lambda name, block: self._claimed_block(choice, name, block))

    def _of_record(self, choice: Choice, record: Record | None, value: Any) -> Any:
        if record is None:
            return None
        has_class = getattr(record, choice.attribute, None) is not None
        if not has_class and choice.otherwise is None:
            if value is None or (choice.each and not value):
                return {} if choice.each else None
            called = f"{record.called or record.kind} {record.name!r}"
            raise Refused(choice.refusal.format(record=called, name=record.name))
        value = {} if value is None else value
        if not has_class:
            return converter().structure(value, choice.otherwise)
        if not choice.each:
            return self._settings(record, choice, value)
        require_names(value)
        return each_of(value.items(), lambda _, block: self._settings(record, choice, block))

    def _named_block(self, choice: Choice, name: str, value: Any) -> Any:
        """The settings of the record called ``name``; False if the file turns it off."""
        record = self.named(choice.kind, name)
        if record is None:
            known = settings_fields(choice.absent) if choice.absent is not None else {}
            return choice.absent and converter().structure(
                {key: value[key] for key in value if key in known}, choice.absent
            )
        if choice.switch and value is False:
            return False
        if choice.switch and not isinstance(value, Mapping):
            raise Refused(f"must be a mapping of settings, or false to turn it off, not {shown(value)}")
        if getattr(record, choice.attribute) is not None:
            return self._settings(record, choice, value)

        def refuse(*_: Any) -> None:
            raise Refused(f"unknown key; this {record.kind} has no settings")

        each_of(value.items(), refuse)
        return None

    def _claimed_block(self, choice: Choice, key: str, value: Any) -> Any:
        record = self.named(choice.kind, key)
        try:
            return self._settings(record, choice, value)
        except Exception as error:
            error.owner = self.owner(record)  # type: ignore[attr-defined]
            raise

    def block(self, base: Any, data: Any, named: str = "") -> Any:
        """Return a block with the class of the record that it names; by default, of ``named``, or as ``base`` says."""
        choice = chosen_by(base)
        assert choice is not None
        default = default_of(getattr(attrs.fields(base), choice.key))
        name = data.get(choice.key, default) if isinstance(data, Mapping) else ""
        name = named if name is None and default is None else name
        if not name or not isinstance(name, str):
            return own_hook(base)(data, base)
        try:
            record = self.named(choice.kind, name)
        except Refused as refused:
            refused.below = (choice.key,) if choice.key in data else ()
            raise
        if record is None:
            required = any(each.default is attrs.NOTHING for each in attrs.fields(base))
            return None if required else base(**{choice.key: name})
        cls = record.resolve("settings")
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
                return own_hook(cls)(value, cls)
            except BaseValidationError as error:
                refused = error
        raise refused


class Hints:
    """What plugins say about the values that were refused in a configuration; see :class:`rlcore.KeyHints`."""

    def __init__(self, plugins: Plugins, data: Mapping[str, Any]) -> None:
        self._of_records = [(each, each.create(data=data, plugins=plugins)) for each in plugins.records("hints")]

    def message(self, path: KeyPath, problem: str, unknown: bool) -> str:
        """Return what to say instead of ``problem``; nothing if the message about another value says it."""
        for record, hints in self._of_records:
            with blamed(record.described, "in message() of its target"):
                problem = hints.message(path, problem, unknown)
        return problem


@attrs.frozen
class _Chosen:
    """A value whose class the record has."""

    record: Record | None
    value: Any


def _without(data: Mapping[str, Any], keys: Any) -> Mapping[str, Any]:
    return {key: value for key, value in data.items() if key not in keys}


def _require_parameter(data: Any) -> None:
    """Refuse what is not a block of an environment parameter. Shorter shapes of it were rewritten before."""
    if not isinstance(data, Mapping) or not isinstance(data.get("curriculum", {}), Mapping):
        raise Refused(
            "must be a number, a sampler ({sampler_type: ..., sampler_parameters: ...}), or curriculum: with a "
            f"list of lessons or the settings of another curriculum, not {shown(data)}"
        )
    if "curriculum" in data and not {"type", "lessons"} & data["curriculum"].keys():
        problem = (
            "must be a list of lessons, each of which begins with '- name:', or the settings of a curriculum with its "
            "type"
        )
        raise Refused(problem, "curriculum")


def _problems_of_exporters(block: Any) -> list[Refused]:
    """What is wrong with an ``export`` block that is not a mapping."""
    if not isinstance(block, list):
        problem = f"must be a list of exporters, or a mapping from exporters to settings, not {shown(block)}"
        return [Refused(problem, "export")]
    return [
        Refused(f"{name!r} is in the list already; delete one of them", "export", index)
        if isinstance(name, str)
        else Refused(_EXPORTER.format(shown(name)), "export", index)
        for index, name in enumerate(block)
        if not isinstance(name, str) or name in block[:index]
    ]
