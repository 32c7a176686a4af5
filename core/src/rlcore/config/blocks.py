"""The blocks of a configuration as settings, each built with the class that rlcore or a plugin declares for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.classes import chosen_by, default_of, settings_fields
from rlcore.config.collected import INVALID, OwnedProblems, Problems
from rlcore.config.dump import plain
from rlcore.config.export_block import EXPORT
from rlcore.config.hints import (
    OLD_SAMPLER,
    OLD_SAMPLERS,
    hints_at_top,
    hints_in_behavior,
    is_behavior,
    misplaced,
    outside_behaviors,
)
from rlcore.config.inherit import evaluation_block
from rlcore.config.nodes import Block, placed_like, with_value
from rlcore.config.num_envs import ALIAS, given_by_alias, with_num_envs
from rlcore.config.other_frameworks import OTHER_KEYS
from rlcore.config.overrides import AFTER_THE_FILE
from rlcore.config.parameter_blocks import PLACES
from rlcore.config.plugins_block import checked_block
from rlcore.config.problems import ConfigErrors, shown
from rlcore.config.structure import build, structure
from rlcore.errors import KeyPath, NotInstalled, PluginError, dotted
from rlcore.plugins.failures import blamed
from rlcore.plugins.known import LESSONS, NOT_BUILT, is_known
from rlcore.plugins.registry import section_clash
from rlcore.settings import (
    BehaviorSettings,
    EnvironmentParameter,
    EnvironmentSettings,
    EnvSettings,
    EvaluationSettings,
    ExecutorSettings,
    RewardSettings,
    RunConfig,
)
from rlcore.settings.fields import field_info
from rlcore.settings.trainers import AbsentRewardSettings

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins
    from rlcore.records import ExporterSpec, Record, TrainerSpec

log = logging.getLogger(__name__)

MAX_NAMES = 1_000  # behaviors, reward signals, writers, exporters, environment parameters


class Blocks:
    """Builds every block of the document of ``problems``; what is wrong is added to ``problems``.

    ``measuring``: the configuration is for measuring policies only. Blocks that no measurement needs may be of plugins
    that are absent: rewards become :class:`AbsentRewardSettings`; writers, sections and exporters other than
    ``exporter`` are left out.
    """

    def __init__(
        self, plugins: Plugins, problems: Problems, measuring: bool = False, exporter: ExporterSpec | None = None
    ) -> None:
        self.data = problems.document.data
        self.exporter = exporter
        self.measuring = measuring
        self.plugins = plugins
        self.problems = problems
        problems.records = self

    def run_config(self) -> Any:
        """The whole configuration as a RunConfig, or INVALID."""
        data: Mapping[str, Any] = self.data
        sections = self._sections()
        if self.measuring:
            data = self._without_absent(data, sections)
        outside = outside_behaviors(data, {*settings_fields(RunConfig), *sections}, self.plugins)
        for keys, message in outside:
            self.problems.add((keys[0],), message)
            data = {key: value for key, value in data.items() if key not in keys}
        ready: dict[str, Any] = {}
        if data.get("default_settings") is not None:  # first: its errors are not to appear as a behavior's
            ready["default_settings"] = self._behavior(data["default_settings"], ("default_settings",))
        elif not (
            data.get("behaviors")
            or any(is_behavior(self.data[key], self.plugins) for keys, _ in outside for key in keys)
        ):
            self.problems.add(("behaviors",), "missing; list a behavior, or give default_settings")
        ready["behaviors"] = self._each(data.get("behaviors", {}), ("behaviors",), self._behavior)
        ready["stats"] = self._each(data.get("stats", {}), ("stats",), self._writer)
        ready["export"] = self._exports(data.get("export", {}))
        ready["plugins"] = checked_block(data.get("plugins", {}), self.problems)
        if "env_settings" in data:
            ready["env_settings"] = build(
                EnvSettings, data["env_settings"], ALIAS[:1], self.problems, also_allowed=ALIAS[1:]
            )
        num_envs = given_by_alias(data.get("env_settings"), self.problems)
        if data.get("environment") is not None:
            environment = self._environment(data["environment"], ("environment",))
            if environment is not INVALID:
                environment = with_num_envs(environment, num_envs, self.problems)
            ready["environment"] = environment
        ready["environment_parameters"] = self._parameters(data.get("environment_parameters"), PLACES[0])
        if data.get("evaluation") is not None:
            ready["evaluation"] = self._evaluation(data["evaluation"], ready.get("environment"))
        if "sections" in data:  # the attribute that holds plugins' blocks is not a key
            self.problems.add(("sections",), "unknown key; write a plugin's block at the top level under its own name")
            data = {key: value for key, value in data.items() if key != "sections"}
        ready["sections"] = sections
        return build(
            RunConfig,
            data,
            (),
            self.problems,
            ready=ready,
            also_allowed=sections,
            no_keys=("sections",),
            hints=partial(hints_at_top, data.get("behaviors"), self.plugins),
            absent=self.plugins.absent,
        )

    def _behavior(self, data: Any, path: KeyPath) -> Any:
        if not isinstance(data, Mapping):
            self.problems.add(path, f"must be a mapping of settings, not {shown(data)}; write {{}} for all defaults")
            return INVALID
        if self.measuring:
            sections = {record.name for record in self.plugins.records("behavior")}
            data = self._without_unknown(data, path, sections.union(settings_fields(BehaviorSettings)))
        spec = self._trainer(data, path)
        keys = () if spec is INVALID else settings_fields(spec.resolve("settings"))
        moved, message = misplaced(data, keys, self.plugins)
        if moved:
            self.problems.add((*path, moved[0]), message)
            data = {key: value for key, value in data.items() if key not in moved}
        rewards = data.get("reward_signals") or {"extrinsic": {}}
        ready = {
            "hyperparameters": INVALID if spec is INVALID else self._hyperparameters(spec, data, path),
            "reward_signals": self._each(rewards, (*path, "reward_signals"), self._reward),
        }
        if spec is INVALID:
            ready["network_settings"] = INVALID
        else:
            hints = partial(hints_in_behavior, path, "network_settings", keys, self.plugins)
            network, at = data.get("network_settings", {}), (*path, "network_settings")
            ready["network_settings"] = self.settings(spec, network, at, "network", hints)
        ready["sections"] = self._behavior_sections(data, path)
        claimed = [record.name for record in self.plugins.records("behavior")]
        return build(
            BehaviorSettings,
            data,
            path,
            self.problems,
            ready=ready,
            also_allowed=(*claimed, *self._unclaimed(data)),
            no_keys=("sections",),
            hints=partial(hints_in_behavior, path, None, keys, self.plugins),
            absent=self.plugins.absent,
        )

    def _behavior_sections(self, data: Mapping[str, Any], path: KeyPath) -> Any:
        """The blocks of a behavior that belong to plugins, by key; keys that are null are left out."""
        for key in self._unclaimed(data):
            if data[key] is not None:
                self._find("behavior", self.plugins.behavior_section, key, (*path, key))
        built: dict[str, Any] = {}
        for name in dict.fromkeys(record.name for record in self.plugins.records("behavior")):
            if data.get(name) is not None:
                record = self._find("behavior", self.plugins.behavior_section, name, (*path, name))
                problems = OwnedProblems(self.problems, record)
                built[name] = self.settings(record, data[name], (*path, name), "target", problems=problems)
        return INVALID if INVALID in built.values() else built

    def _unclaimed(self, data: Mapping[str, Any]) -> list[str]:
        """The keys of a behavior that a plugin which is known, but not loaded, would claim."""
        claimed = {record.name for record in self.plugins.records("behavior")}
        return [key for key in data if is_known("behavior", key) and key not in claimed]

    def _trainer(self, data: Mapping[str, Any], path: KeyPath) -> Any:
        """The record of the behavior's trainer, or INVALID."""
        reference = data.get("trainer_type", attrs.fields(BehaviorSettings).trainer_type.default)
        if not isinstance(reference, str):
            return INVALID  # build() adds the problem
        return self._find("trainer", self.plugins.trainer, reference, (*path, "trainer_type"))

    def _hyperparameters(self, spec: TrainerSpec, data: Mapping[str, Any], path: KeyPath) -> Any:
        """The trainer's own settings. Refuses other keys of the behavior that this trainer does not support."""
        given = data.get("hyperparameters")
        if given is not None and "trainer_type" not in data:
            self.problems.add((*path, "hyperparameters"), "trainer_type must be given when hyperparameters are")
            return INVALID
        hints = partial(hints_in_behavior, path, "hyperparameters", (), self.plugins)
        return self.settings(spec, {} if given is None else given, (*path, "hyperparameters"), hints=hints)

    def chosen_block(self, base: Any, data: Any, path: KeyPath, problems: Problems) -> Any:
        """A block with the settings class of the record that its ``type`` names.

        ``base`` has the default type; without one, a block is named after its type.
        """
        choice = chosen_by(base)
        assert choice is not None
        kind, key = choice.kind, choice.key
        default = default_of(getattr(attrs.fields(base), key))
        name = data.get(key, default) if isinstance(data, Mapping) else ""
        if name is None and default is None:
            name = str(path[-1])
        if not name or not isinstance(name, str):
            return build(base, data, path, problems)
        find = partial(self.plugins.record_of_kind, kind)
        if self.measuring and not self._has(find, name):
            return None if base is ExecutorSettings else base(type=name)
        spec = self._find(kind, find, name, (*path, key) if key in data else path)
        if spec is INVALID:
            return INVALID
        cls = spec.resolve("settings")
        if not issubclass(cls, base):
            wrong = f"{spec.described}: its settings class {cls.__name__} is not of {base.__name__}"
            raise problems.plugin_error(path, f"{wrong}, from which it must derive")
        return self.settings(spec, data, path, problems=problems, ready={key: name})

    def _reward(self, data: Any, path: KeyPath) -> Any:
        if path[-1] in settings_fields(RewardSettings) and not isinstance(data, Mapping):
            self.problems.add(path, f"unknown key; it belongs in {dotted((*path[:-1], 'extrinsic'))}")
            return INVALID
        if self.measuring and isinstance(data, Mapping) and not self._has(self.plugins.reward_provider, str(path[-1])):
            known = {key: value for key, value in data.items() if key in settings_fields(AbsentRewardSettings)}
            return build(AbsentRewardSettings, known, path, self.problems)
        spec = self._find("reward", self.plugins.reward_provider, str(path[-1]), path)
        if spec is INVALID:
            return INVALID
        return self.settings(spec, data, path)

    def _has(self, find: Callable[[str], Any], reference: str) -> bool:
        try:
            find(reference)
        except NotInstalled:
            return False
        except PluginError:  # several plugins provide it, which is reported when it is read
            pass
        return True

    def _writer(self, data: Any, path: KeyPath) -> Any:
        spec = self._find("writer", self.plugins.stats_writer, str(path[-1]), path)
        if spec is INVALID or data is False:
            return spec if data is not False else False
        if not isinstance(data, Mapping):
            self.problems.add(path, f"must be a mapping of settings, or false to turn it off, not {shown(data)}")
            return INVALID
        if spec.settings is None:
            for key in data:
                self.problems.add((*path, key), "unknown key; this writer has no settings")
            return INVALID if data else None
        return self.settings(spec, data, path)

    def _exports(self, data: Any) -> Any:
        """The settings of the exporters by name, or INVALID."""
        if isinstance(data, Mapping):
            return self._each(data, ("export",), self._exporter)
        _add_export_problems(data, self.problems)
        return INVALID

    def _exporter(self, data: Any, path: KeyPath) -> Any:
        """The settings of the exporter that ``path`` ends with, or INVALID."""
        spec = self._find("exporter", self.plugins.exporter, str(path[-1]), path)
        return INVALID if spec is INVALID else self.settings(spec, data, path)

    def _environment(self, data: Any, path: KeyPath) -> Any:
        if not isinstance(data, Mapping):
            return build(EnvironmentSettings, data, path, self.problems)
        kind = data.get("type", attrs.fields(EnvironmentSettings).type.default)
        options = data.get("options", {})
        ready: dict[str, Any] = {}
        if isinstance(kind, str):
            spec = self._find("environment", self.plugins.environment, kind, (*path, "type"))
            if spec is INVALID:
                ready["options"] = INVALID
            else:
                ready["parameters"] = self._routes(spec, data.get("parameters", {}), (*path, "parameters"))
                if spec.settings is not None:
                    ready["options"] = self.settings(spec, options, (*path, "options"))
        workers = data.get("workers")
        if type(workers) is int and not field_info(attrs.fields(EnvironmentSettings).workers).problem(workers):
            at = (*path, "workers")
            ready["workers"] = self.chosen_block(ExecutorSettings, {"count": workers}, at, self.problems)
        if "options" not in ready:
            ready["options"] = structure(options, dict[str, Any], (*path, "options"), self.problems)
        return build(EnvironmentSettings, data, path, self.problems, ready=ready, hints=lambda: OTHER_KEYS)

    def _routes(self, spec: Any, data: Any, path: KeyPath) -> Any:
        """How each environment parameter reaches the environment."""
        if spec.parameters is None and data:
            self.problems.add(
                path, f"environments of type {spec.name!r} take parameters by their names; delete this block"
            )
            return INVALID
        return self._each(data, path, lambda block, at: self.settings(spec, block, at, "parameters"))

    def _evaluation(self, data: Any, environment: Any) -> Any:
        """The ``evaluation`` block, with the complete environment of evaluations."""
        if not isinstance(data, Block):
            return build(EvaluationSettings, data, ("evaluation",), self.problems)
        if "interval" in data and data["interval"] is None and data.get("stop_at") is not None:
            self.problems.add(("evaluation", "stop_at"), "without an interval no evaluation could stop the run")
        ready = {
            "environment": self._evaluation_environment(data.get("environment", Block()), environment),
            "environment_parameters": self._parameters(data.get("environment_parameters"), PLACES[1]),
        }
        ready["sections"] = self._evaluation_sections(data)
        claimed = [key for keys in self._evaluation_keys().values() for key in keys]
        known = [key for key in data if is_known("evaluation", key)]
        return build(
            EvaluationSettings,
            data,
            ("evaluation",),
            self.problems,
            ready=ready,
            also_allowed=(*claimed, *known),
            no_keys=("sections",),
            absent=self.plugins.absent,
        )

    def _evaluation_keys(self) -> dict[str, tuple[str, ...]]:
        """The keys of the ``evaluation`` block that belong to plugins, by the name of their section."""
        return {
            record.name: tuple(settings_fields(record.resolve("settings")))
            for record in self.plugins.records("evaluation")
        }

    def _evaluation_sections(self, data: Block) -> Any:
        """The keys of plugins in the ``evaluation`` block, as settings by the name of their section."""
        path, claimed = ("evaluation",), self._evaluation_keys()
        find = partial(self.plugins.record_of_kind, "evaluation")
        absent = {key for key in data if is_known("evaluation", key)}.difference(*claimed.values())
        for key in sorted(absent):
            if data[key] not in (None, {}):
                self._find("evaluation", find, key, (*path, key))
        given = {name: [key for key in keys if key in data] for name, keys in claimed.items()}
        given = {name: keys for name, keys in given.items() if keys}
        if len(given) > 1:
            first, second = list(given.values())[:2]
            self.problems.add((*path, second[0]), f"cannot be combined with {first[0]}; delete one of them")
            return INVALID
        built = {
            name: self.settings(
                self._find("evaluation", find, name, path),
                Block(entry for entry in data.entries() if entry[0] in keys),
                path,
            )
            for name, keys in given.items()
        }
        return INVALID if INVALID in built.values() else built

    def _evaluation_environment(self, own: Any, environment: Any) -> Any:
        """The environment of evaluations: what is ``own``, over the ``environment`` block that was built."""
        path = ("evaluation", "environment")
        base = self.data.get("environment")
        if not isinstance(own, Block):
            self.problems.add(path, f"must be a mapping, not {shown(own)}")
            return INVALID
        if base is None and not own:
            message = "there is no environment to evaluate in; give environment or evaluation.environment"
            self.problems.add(path[:1], message)
            return INVALID
        if environment is INVALID and not own:
            return INVALID
        if isinstance(base, Block) and environment is not INVALID:
            # Defaults are decided once, so that the configuration that a run writes loads to an equal one.
            base = placed_like(plain(environment, path[1:], secrets=True), base)
        block = evaluation_block(own, base if isinstance(base, Block) else None)
        self.problems.document = attrs.evolve(
            self.problems.document, data=with_value(self.problems.document.data, path, lambda _: block)
        )
        return self._environment(block, path)

    def _parameters(self, data: Any, path: KeyPath) -> Any:
        return {} if data is None else self._each(data, path, self._parameter)

    def _parameter(self, data: Any, path: KeyPath) -> Any:
        if isinstance(data, Mapping) and OLD_SAMPLER in data:
            self.problems.add((*path, OLD_SAMPLER), OLD_SAMPLERS)
            return INVALID
        if not isinstance(data, Mapping) or not isinstance(data.get("curriculum", {}), Mapping):
            self.problems.add(
                path,
                "must be a number, a sampler ({sampler_type: ..., sampler_parameters: ...}), or curriculum: with a "
                f"list of lessons or the settings of another curriculum, not {shown(data)}",
            )
            return INVALID
        ready: dict[str, Any] = {}
        if "curriculum" in data:
            block, path_of_block = data["curriculum"], (*path, "curriculum")
            if not {"type", "lessons"} & block.keys():
                self.problems.add(
                    path_of_block,
                    "must be a list of lessons, each of which begins with '- name:', or the settings of a curriculum "
                    "with its type",
                )
                return INVALID
            kind = block.get("type", LESSONS)
            if not isinstance(kind, str):
                self.problems.add((*path_of_block, "type"), f"must be text, not {shown(kind)}")
                return INVALID
            at = (*path_of_block, "type") if "type" in block else path
            spec = self._find("curriculum", self.plugins.curriculum, kind, at)
            ready["curriculum"] = INVALID if spec is INVALID else self.settings(spec, block, path_of_block)
        return build(EnvironmentParameter, data, path, self.problems, ready=ready)

    def _sections(self) -> dict[str, Any]:
        """Every plugin's own top-level block by name; a block that the file does not give has its defaults."""
        by_name: dict[str, list[Record]] = {}
        for record in self.plugins.records("section"):
            by_name.setdefault(record.name, []).append(record)
        sections = {}
        for name, records in by_name.items():
            if len(records) > 1:
                raise PluginError(section_clash(records))
            collected = Problems(self.problems.document) if self.measuring else self.problems
            problems = OwnedProblems(collected, records[0])
            section = self.settings(records[0], self.data.get(name, {}), (name,), "target", problems=problems)
            if self.measuring and section is INVALID:
                self._warn_of_section(collected)
            else:
                sections[name] = section
        return sections

    def _warn_of_section(self, problems: Problems) -> None:
        """Warn of a section that is wrong or lacks a required key, and that no measurement needs."""
        try:
            problems.raise_any()
        except ConfigErrors as error:
            log.warning("ignored, because no measurement needs it: %s", error.problems[0])

    def _without_absent(self, data: Mapping[str, Any], sections: Mapping[str, Any]) -> Mapping[str, Any]:
        """``data`` without what no measurement needs: writers, exporters, and sections of plugins that are absent."""
        claimed = {record.name for record in self.plugins.records("section")}
        data = self._without_unknown(data, (), claimed.union(settings_fields(RunConfig)))
        left_out = {"stats", "export", *(claimed - sections.keys())}
        return {key: value for key, value in data.items() if key not in left_out} | {"export": self._only_exporter()}

    def _without_unknown(self, data: Mapping[str, Any], path: KeyPath, known: Set[str]) -> Mapping[str, Any]:
        """``data`` without the keys of the file that are not ``known``: those of plugins that are absent."""
        origin = self.problems.document.origin
        absent = [key for key in data if key not in known and origin((*path, key)).order < AFTER_THE_FILE]
        if absent:
            names = ", ".join(dotted((*path, key)) for key in absent)
            log.warning("ignored, because no plugin that is on has these blocks: %s", names)
        return {key: value for key, value in data.items() if key not in absent}

    def _only_exporter(self) -> Mapping[str, Any]:
        """The entry of the ``export`` block that is of the ``exporter``."""
        if self.exporter is None:
            return {}
        block = self.data.get("export")
        for name, settings in block.items() if isinstance(block, Mapping) else ():
            if name in (self.exporter.name, self.exporter.reference):
                return {name: settings}
        return {self.exporter.reference: {}}

    def _each(self, data: Any, path: KeyPath, build_one: Callable[[Any, KeyPath], Any]) -> Any:
        if not isinstance(data, Mapping):
            self.problems.add(path, f"must be a mapping from names to settings, not {shown(data)}")
            return INVALID
        if len(data) > MAX_NAMES:
            self.problems.add(path, f"has {len(data):,} entries; at most {MAX_NAMES:,} are allowed")
            return INVALID
        built = {name: build_one(value, (*path, name)) for name, value in data.items()}
        return INVALID if any(value is INVALID for value in built.values()) else built

    def of_kind(self, kind: str) -> Sequence[Record]:
        return self.plugins.records(kind)

    def named(self, kind: str, reference: str, path: KeyPath) -> Any:
        """The record that a field names, or INVALID; None where no measurement needs it and its plugin is absent."""
        find = partial(self.plugins.record_of_kind, kind)
        return None if self.measuring and not self._has(find, reference) else self._find(kind, find, reference, path)

    def _find(self, kind: str, find: Callable[[str], Any], reference: str, path: KeyPath) -> Any:
        try:
            return find(reference)
        except NotInstalled as error:
            part = NOT_BUILT.get((kind, reference))
            if part:
                self.problems.add(path, f"not supported yet: {part}")
            else:
                self.problems.add(path, error.problem, error.package, error.note)
            return INVALID
        except PluginError as error:  # two plugins provide it: the file is not wrong, but its line helps
            raise self.problems.plugin_error(path, str(error)) from error

    def settings(
        self,
        record: Record,
        data: Any,
        path: KeyPath,
        attribute: str = "settings",
        hints: Callable[[], Mapping[str, str]] | None = None,
        problems: Problems | None = None,
        ready: Mapping[str, Any] | None = None,
    ) -> Any:
        """An instance of the class that ``attribute`` of a record names. An error in the class is its plugin's."""
        cls = record.resolve(attribute)
        doing = f"in its settings class {cls.__name__}"
        with blamed(record.described, doing, partial(self.problems.plugin_error, path)):
            return build(cls, data, path, problems or self.problems, ready=ready, hints=hints)


def _add_export_problems(block: Any, problems: Problems) -> None:
    """Add what is wrong with an ``export`` block that is not a mapping."""
    if not isinstance(block, list):
        problems.add(
            (EXPORT,), f"must be a list of exporters, or a mapping from exporters to settings, not {shown(block)}"
        )
        return
    first: dict[str, int] = {}
    for index, name in enumerate(block):
        if isinstance(name, str):
            if first.setdefault(name, index) != index:
                problems.add((EXPORT, index), f"{name!r} is in the list already; delete one of them")
        else:
            problems.add(
                (EXPORT, index),
                f"must be the name of an exporter, not {shown(name)}; to give settings, write export as a mapping from "
                "exporters to settings",
            )
