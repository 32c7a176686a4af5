"""The records that a configuration names, and what is said about whole blocks: old formats, keys in the wrong place."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.document import Block
from rlcore.config.hints import OLD_SAMPLER, Hints, foreign_keys, is_behavior, misplaced, outside_behaviors
from rlcore.config.overrides import AFTER_THE_FILE
from rlcore.config.problems import ConfigErrors, Problems, shown
from rlcore.config.structure import INVALID, Refused, build
from rlcore.errors import KeyPath, NotInstalled, PluginError, dotted
from rlcore.plugins.known import NOT_BUILT, PACKAGES
from rlcore.plugins.registry import section_clash
from rlcore.settings import (
    BehaviorSettings,
    EnvironmentParameter,
    EnvironmentSettings,
    EvaluationSettings,
    RewardSettings,
    RunConfig,
)
from rlcore.settings.fields import Choice, field_info, settings_fields

if TYPE_CHECKING:
    from rlcore.config.document import Document
    from rlcore.plugins.call import Plugins
    from rlcore.records import ExporterSpec, Record

log = logging.getLogger(__name__)

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
        self.hints = Hints(document.data, plugins)
        self.sections = {record.name: record for record in plugins.records("section")}
        for name in self.sections:
            rivals = [record for record in plugins.records("section") if record.name == name]
            if len(rivals) > 1:
                raise PluginError(section_clash(rivals))

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
        """Return the message about what was refused at ``path``, and a note, which may be empty."""
        return self.hints.completed(refused.problem, path, refused.unknown is not None, refused.text, refused.note)

    def prepared(self, cls: type, data: Any) -> tuple[Any, list[Refused]]:
        """Return a block as its class reads it, and what is wrong with the block as a whole. Raises Refused."""
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
        outside = outside_behaviors(data, {*settings_fields(RunConfig), *self.sections}, self.plugins)
        refused = [Refused(message, keys[0]) for keys, message in outside]
        leave_out = {key for keys, _ in outside for key in keys}
        listed = data.get("default_settings") is not None or data.get("behaviors")
        if not listed and not any(is_behavior(data[key], self.plugins) for key in leave_out):
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
        moved, message = misplaced(data, self.hints.keys_of_trainer, self.plugins)
        refused = [Refused(message, moved[0])] if moved else []
        data = _without(data, moved)
        if data.get("hyperparameters") is not None and "trainer_type" not in data:
            refused.append(Refused("trainer_type must be given when hyperparameters are", "hyperparameters"))
            data = _without(data, ["hyperparameters"])
        rewards = data.get("reward_signals") or {"extrinsic": {}}
        if isinstance(rewards, Mapping):
            of_extrinsic = [
                key
                for key in rewards
                if key in settings_fields(RewardSettings) and not isinstance(rewards[key], Mapping)
            ]
            refused += [Refused("unknown key", "reward_signals", key, unknown=()) for key in of_extrinsic]
            rewards = _without(rewards, of_extrinsic)
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


def _without(data: Mapping[str, Any], keys: Any) -> Mapping[str, Any]:
    return {key: value for key, value in data.items() if key not in keys}


def _require_parameter(data: Any) -> None:
    """Refuse what is not a block of an environment parameter. Shorter shapes of it were rewritten before."""
    if isinstance(data, Mapping) and OLD_SAMPLER in data:
        raise Refused(foreign_keys()["ml_agents"][OLD_SAMPLER], OLD_SAMPLER)
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


# ---------------------------------------------------------------- to measure policies


def without_absent(document: Document, choices: Choices, exporter: ExporterSpec | None) -> Document:
    """The document without what no measurement needs: writers, other exporters, and blocks of absent plugins."""
    data = document.data
    for key in ("stats", "export"):
        data = data.without(key)
    if exporter is not None:
        data = data.with_entry("export", _of_exporter(document.data.get("export"), exporter), None)
    data = _without_unknown(document, data, (), {*choices.sections, *settings_fields(RunConfig)})
    claimed = {record.name for record in choices.plugins.records("behavior")}
    known = claimed.union(settings_fields(BehaviorSettings))
    if isinstance(data.get("default_settings"), Block):
        data = data.with_entry(
            "default_settings",
            _without_unknown(document, data["default_settings"], ("default_settings",), known),
            data.origins.get("default_settings"),
        )
    if isinstance(data.get("behaviors"), Block):
        behaviors = Block(
            (name, _without_unknown(document, block, ("behaviors", name), known), origin)
            for name, block, origin in data["behaviors"].entries()
        )
        data = data.with_entry("behaviors", behaviors, data.origins.get("behaviors"))
    for name, record in choices.sections.items():
        problems = Problems(document)
        section = build(record.resolve(), data.get(name, {}), (name,), problems, choices, choices.owner(record))
        if section is INVALID:
            _warn(problems)
            data = data.without(name)
        elif name not in data:
            data = data.with_entry(name, Block(), None)
    return attrs.evolve(document, data=data)


def _of_exporter(block: Any, exporter: ExporterSpec) -> Block:
    """The entry of the ``export`` block that is of the ``exporter``."""
    names = (exporter.name, exporter.reference)
    found = next((name for name in block if name in names), None) if isinstance(block, Mapping) else None
    return Block([(exporter.reference, Block(), None) if found is None else (found, block[found], None)])


def _without_unknown(document: Document, block: Any, path: KeyPath, known: Set[str]) -> Any:
    """A block without the keys of the file that are not ``known``: those of plugins that are absent."""
    if not isinstance(block, Block):
        return block
    absent = [key for key in block if key not in known and document.origin((*path, key)).order < AFTER_THE_FILE]
    if absent:
        names = ", ".join(dotted((*path, key)) for key in absent)
        log.warning("ignored, because no plugin that is on has these blocks: %s", names)
    return Block(entry for entry in block.entries() if entry[0] not in absent)


def _warn(problems: Problems) -> None:
    """Warn of a section that is wrong or lacks a required key, and that no measurement needs."""
    try:
        problems.raise_any()
    except ConfigErrors as error:
        log.warning("ignored, because no measurement needs it: %s", error.problems[0])
