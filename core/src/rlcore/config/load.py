"""From a document to a checked, complete RunConfig: the rules between blocks, and the blocks that belong to plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.data_source import check_data_source
from rlcore.config.document import Document, document_from_mapping
from rlcore.config.dump import plain
from rlcore.config.inherit import evaluation_block, inherit_defaults, with_evaluation_origins
from rlcore.config.names import behavior_name_problems, name_problem
from rlcore.config.overrides import AFTER_THE_FILE
from rlcore.config.parameter_blocks import PLACES, with_parameter_blocks
from rlcore.config.parameter_routes import check_routes
from rlcore.config.plugin_choice import checked_block, directory_of, recorded
from rlcore.config.problems import KeyPath, Problem, dotted, shown
from rlcore.config.structure import INVALID, Problems, build, settings_fields, structure
from rlcore.errors import NotInstalled, PluginError
from rlcore.plugins.failures import blamed
from rlcore.plugins.known import LESSONS, NOT_BUILT
from rlcore.settings import (
    BehaviorSettings,
    CheckpointSettings,
    EnvironmentParameter,
    EnvironmentSettings,
    EnvSettings,
    EvaluationSettings,
    RunConfig,
    TorchSettings,
)

if TYPE_CHECKING:
    from rlcore.plugins.calls import Plugins
    from rlcore.plugins.records import Record

MAX_NAMES = 1_000  # behaviors, reward signals, writers, environment parameters


def config_from_mapping(data: Mapping[str, Any], plugins: Plugins) -> RunConfig:
    """A configuration from plain data, for Python users. Raises like :func:`load_config`."""
    return load_config(document_from_mapping(data), plugins)


def load_config(document: Document, plugins: Plugins) -> RunConfig:
    """The checked, complete configuration. Raises :class:`rlcore.config.ConfigErrors` with every problem."""
    document = with_parameter_blocks(with_evaluation_origins(inherit_defaults(document)))
    problems = Problems(document)
    config = _Loader(document, plugins, problems).run_config()
    if isinstance(config, RunConfig):
        config = _join_num_envs(config, document, problems)
        check_data_source(config, plugins, problems)
        _check_curricula(config, plugins, problems)
        check_routes(config, problems)
        config = attrs.evolve(config, plugins=recorded(config.plugins, directory_of(document), plugins))
    _check_names(document.data, problems)
    problems.raise_any()
    assert isinstance(config, RunConfig)
    return config


def evaluation_environment(config: RunConfig, plugins: Plugins) -> EnvironmentSettings | None:
    """The environment that evaluations play in; None if ``config`` has none. ``num_envs`` is None if nobody gave it."""
    overrides = {} if config.evaluation is None else config.evaluation.environment
    if config.environment is None and not overrides:
        return None
    base = None if config.environment is None else plain(config.environment, ("environment",))
    block = evaluation_block(base, overrides)
    problems = Problems(Document(None, {}))
    settings = _Loader(problems.document, plugins, problems)._environment(block, ("evaluation", "environment"))
    problems.raise_any()
    assert isinstance(settings, EnvironmentSettings)
    return settings


class _Loader:
    """Builds the blocks whose settings class a plugin brings."""

    def __init__(self, document: Document, plugins: Plugins, problems: Problems) -> None:
        self.data = document.data
        self.plugins = plugins
        self.problems = problems

    def run_config(self) -> Any:
        data = self.data
        sections = self._sections()
        ready: dict[str, Any] = {}
        if data.get("default_settings") is not None:  # first, so that its errors are not told as a behavior's
            ready["default_settings"] = self._behavior(data["default_settings"], ("default_settings",))
        elif not data.get("behaviors"):
            self.problems.add(("behaviors",), "no behavior is given, and no default_settings")
        ready["behaviors"] = self._each(data.get("behaviors", {}), ("behaviors",), self._behavior)
        ready["stats"] = self._each(data.get("stats", {}), ("stats",), self._writer)
        ready["plugins"] = checked_block(data.get("plugins", {}), self.problems)
        if data.get("environment") is not None:
            ready["environment"] = self._environment(data["environment"], ("environment",))
        ready["environment_parameters"] = self._parameters(data.get("environment_parameters"), PLACES[0])
        if data.get("evaluation") is not None:
            ready["evaluation"] = self._evaluation(data["evaluation"], ("evaluation",))
        if "sections" in data:  # the attribute that holds plugins' blocks, not a key
            self.problems.add(("sections",), "unknown key; a plugin's block stands at the top level under its own name")
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
            elsewhere=self._elsewhere(),
        )

    def _elsewhere(self) -> dict[str, str]:
        """Keys that somebody may look for at the top level, and where they are."""
        behaviors = self.data.get("behaviors")
        name = next(iter(behaviors), "NAME") if isinstance(behaviors, Mapping) else "NAME"
        blocks: dict[str, type] = {
            "torch_settings": TorchSettings,
            "environment": EnvironmentSettings,
            "env_settings": EnvSettings,
            "checkpoint_settings": CheckpointSettings,
            dotted(("behaviors", name)): BehaviorSettings,
        }
        places = {key: f"{block}.{key}" for block, cls in blocks.items() for key in settings_fields(cls)}
        return {**places, "curriculum": "environment_parameters.NAME.curriculum"}

    def _behavior(self, data: Any, path: KeyPath) -> Any:
        if not isinstance(data, Mapping):
            self.problems.add(path, f"must be a mapping of settings, not {shown(data)}; write {{}} for all defaults")
            return INVALID
        rewards = data.get("reward_signals") or {"extrinsic": {}}
        ready = {
            "hyperparameters": self._hyperparameters(data, path),
            "reward_signals": self._each(rewards, (*path, "reward_signals"), self._reward),
        }
        outside = {key: f"{key} at the top level" for key in settings_fields(RunConfig)}
        return build(BehaviorSettings, data, path, self.problems, ready=ready, elsewhere=outside)

    def _hyperparameters(self, data: Mapping[str, Any], path: KeyPath) -> Any:
        """The trainer's own settings; refuses, on the way, what this trainer does not do."""
        given = data.get("hyperparameters")
        if given is not None and "trainer_type" not in data:
            self.problems.add((*path, "hyperparameters"), "trainer_type must be given when hyperparameters are")
            return INVALID
        reference = data.get("trainer_type", attrs.fields(BehaviorSettings).trainer_type.default)
        if not isinstance(reference, str):
            return INVALID  # build() says so
        spec = self._find("trainer", self.plugins.trainer, reference, (*path, "trainer_type"))
        if spec is INVALID:
            return INVALID
        if data.get("behavioral_cloning") is not None and not spec.behavioral_cloning:
            self.problems.add((*path, "behavioral_cloning"), f"trainer {spec.name!r} does not imitate demonstrations")
        return self._settings(spec, {} if given is None else given, (*path, "hyperparameters"))

    def _reward(self, data: Any, path: KeyPath) -> Any:
        spec = self._find("reward", self.plugins.reward_provider, str(path[-1]), path)
        return INVALID if spec is INVALID else self._settings(spec, data, path)

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
        return self._settings(spec, data, path)

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
                    ready["options"] = self._settings(spec, options, (*path, "options"))
        if "options" not in ready:
            ready["options"] = structure(options, dict[str, Any], (*path, "options"), self.problems)
        return build(EnvironmentSettings, data, path, self.problems, ready=ready)

    def _routes(self, spec: Any, data: Any, path: KeyPath) -> Any:
        """How each environment parameter reaches the environment."""
        if spec.parameters is None and data:
            self.problems.add(
                path, f"environments of type {spec.name!r} take parameters by their names; delete this block"
            )
            return INVALID
        return self._each(data, path, lambda block, at: self._settings(spec, block, at, "parameters"))

    def _evaluation(self, data: Any, path: KeyPath) -> Any:
        """The block as it is written; that its overrides make an environment block is checked beside it."""
        ready = {}
        if isinstance(data, Mapping):
            ready["environment_parameters"] = self._parameters(data.get("environment_parameters"), PLACES[1])
            if "interval" in data and data["interval"] is None and data.get("stop_at") is not None:
                self.problems.add((*path, "stop_at"), "without an interval no evaluation could stop the run")
        settings = build(EvaluationSettings, data, path, self.problems, ready=ready)
        overrides = data.get("environment", {}) if isinstance(data, Mapping) else None
        base = self.data.get("environment")
        if base is None and not overrides:
            self.problems.add(
                path, "there is no environment to evaluate in; give environment or evaluation.environment"
            )
        if overrides and isinstance(overrides, Mapping) and (base is None or isinstance(base, Mapping)):
            block = evaluation_block(base, overrides)
            if self._environment(block, (*path, "environment")) is INVALID:
                return INVALID
        return settings

    def _parameters(self, data: Any, path: KeyPath) -> Any:
        return {} if data is None else self._each(data, path, self._parameter)

    def _parameter(self, data: Any, path: KeyPath) -> Any:
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
            ready["curriculum"] = INVALID if spec is INVALID else self._settings(spec, block, path_of_block)
        return build(EnvironmentParameter, data, path, self.problems, ready=ready)

    def _sections(self) -> dict[str, Any]:
        """Plugins' own top-level blocks, those left out included, by name."""
        owners: dict[str, str] = {}
        sections = {}
        for record in self.plugins.records("section"):
            name = record.name
            if name in owners:
                raise PluginError(
                    f"{record.described} clashes with {owners[name]}; turn one off with -p no:DIST/PLUGIN"
                )
            owners[name] = record.described
            sections[name] = self._settings(record, self.data.get(name, {}), (name,), "target")
        return sections

    def _each(self, data: Any, path: KeyPath, build_one: Callable[[Any, KeyPath], Any]) -> Any:
        if not isinstance(data, Mapping):
            self.problems.add(path, f"must be a mapping from names to settings, not {shown(data)}")
            return INVALID
        if len(data) > MAX_NAMES:
            self.problems.add(path, f"has {len(data):,} entries; at most {MAX_NAMES:,} are allowed")
            return INVALID
        built = {name: build_one(value, (*path, name)) for name, value in data.items()}
        return INVALID if any(value is INVALID for value in built.values()) else built

    def _find(self, kind: str, find: Callable[[str], Any], reference: str, path: KeyPath) -> Any:
        try:
            return find(reference)
        except NotInstalled as error:
            part = NOT_BUILT.get((kind, reference))
            if part:
                self.problems.add(path, f"not supported yet: {part}")
            else:
                self.problems.add(path, str(error), error.package)
            return INVALID
        except PluginError as error:  # two plugins bring it: no fault of the file, but its place helps
            raise _at(self.problems, path, str(error)) from error

    def _settings(self, record: Record, data: Any, path: KeyPath, attribute: str = "settings") -> Any:
        """What the class that the record names in ``attribute`` makes of the data; its own errors are its plugin's."""
        cls = record.resolve(attribute)
        with blamed(record.described, f"in its settings class {cls.__name__}", partial(_at, self.problems, path)):
            return build(cls, data, path, self.problems)


def _at(problems: Problems, path: KeyPath, message: str) -> PluginError:
    """What is no fault of the file, with its place there."""
    origin = problems.document.origin(path)
    return PluginError(str(Problem(origin.place, dotted(origin.path), message)))


def _join_num_envs(config: RunConfig, document: Document, problems: Problems) -> RunConfig:
    """One number of copies under both keys, ``environment.num_envs`` and ML-Agents' ``env_settings.num_envs``."""
    if config.environment is None:
        return config
    ours, theirs = config.environment.num_envs, config.env_settings.num_envs
    if ours is not None and ours != theirs:
        if "num_envs" in document.data.get("env_settings", {}):
            problems.add(
                ("environment", "num_envs"),
                f"{ours} here, but {theirs} in env_settings.num_envs; give one of them, or both alike",
            )
        theirs = ours
    return attrs.evolve(
        config,
        environment=attrs.evolve(config.environment, num_envs=theirs),
        env_settings=attrs.evolve(config.env_settings, num_envs=theirs),
    )


def _check_curricula(config: RunConfig, plugins: Plugins, problems: Problems) -> None:
    """Notes what curricula have against the rest of the configuration; see :class:`CurriculumSettings`."""
    of_evaluation = {} if config.evaluation is None else config.evaluation.environment_parameters
    for place, blocks in zip(PLACES, (config.environment_parameters, of_evaluation), strict=True):
        for name, block in blocks.items():
            at = (*place, name, "curriculum")
            for path, message in _problems_of(block.curriculum, config, plugins, problems, at):
                problems.add((*at, *path), message)


def _problems_of(
    settings: Any, config: RunConfig, plugins: Plugins, problems: Problems, at: KeyPath
) -> list[tuple[KeyPath, str]]:
    """What a curriculum's settings have against the rest; PluginError for other than pairs of a path and a message."""
    check = getattr(settings, "problems", None)
    if check is None:
        return []

    owner = plugins.curriculum(settings.type).described
    with blamed(owner, "in problems() of its settings class", partial(_at, problems, at)):
        found = list(check(config, plugins))
    for each in found:
        if not (isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], tuple) and isinstance(each[1], str)):
            what = f"gave {each!r}, not a pair of a path, such as ('goal',), and a message"
            raise _at(problems, at, f"{owner}: problems() of its settings class {what}")
    return found


def _check_names(data: Mapping[str, Any], problems: Problems) -> None:
    """Names that become paths, and starts that exclude one another; also where other values are refused."""
    listed, start = data.get("behaviors"), data.get("checkpoint_settings")
    behaviors = tuple(listed) if isinstance(listed, Mapping) else ()
    unusable = behavior_name_problems(behaviors)
    for name in behaviors:
        if "?" in name:
            plain = name.partition("?")[0]
            problems.add(
                ("behaviors", name), f"a behavior's name has no '?team='; write {plain!r}, one block for all its teams"
            )
        elif name in unusable:
            problems.add(("behaviors", name), unusable[name])
    parameters = data.get("environment_parameters")
    if isinstance(parameters, Mapping) and "metadata" in parameters:
        problems.add(
            ("environment_parameters", "metadata"),
            "no parameter may have the name of rlcore's own section of training_status.json",
        )
    if not isinstance(start, Mapping):
        return
    for key in ("run_id", "initialize_from"):
        value = start.get(key)
        if isinstance(value, str) and (problem := name_problem("a run id", value)):
            problems.add(("checkpoint_settings", key), problem)
    keys = (("checkpoint_settings", "resume"), ("checkpoint_settings", "initialize_from"))
    # Where only the file has initialize_from, it is how the run that is resumed once began: nothing to choose.
    typed = {problems.document.origin(key).order >= AFTER_THE_FILE for key in keys}
    if start.get("resume") is True and start.get("initialize_from") is not None and len(typed) == 1:
        problems.add(keys[1], "resume goes on with a run and initialize_from starts a new one; give one of them")
