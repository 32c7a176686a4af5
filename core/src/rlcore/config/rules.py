"""Rules between blocks, and for names: each adds to the problems what is wrong with the configuration as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from rlcore.config.document import AFTER_THE_FILE, value_at
from rlcore.config.problems import Problems, short_repr
from rlcore.config.rewriting import PLACES
from rlcore.errors import KeyPath, did_you_mean, dotted
from rlcore.plugins.failures import blamed
from rlcore.records import (
    BehaviorSection,
    ConfigSection,
    CurriculumSpec,
    EnvironmentSpec,
    EvaluationSection,
    ExecutorSpec,
    ExporterSpec,
    RewardProviderSpec,
    StatsWriterSpec,
    TrainerSpec,
)
from rlcore.settings import BehaviorSettings, EnvironmentSettings, ExportSettings, RunConfig
from rlcore.settings.blocks import AbsentRewardSettings

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins
    from rlcore.records import Record

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
"""What a name matches that becomes part of a path."""

# Names beside a behavior's files in a run directory, and beside its entry in a checkpoint and in the status.
_FILES = ("configuration.yaml", "metrics.jsonl", "metrics.jsonl.damaged", "result.json", "rlcore_run.json")
RESERVED = frozenset({"run", "metadata", "checkpoints", "run_logs", *_FILES})


def name_problem(what: str, name: str) -> str | None:
    """Return the problem of a name that becomes part of a path, or None."""
    if re.fullmatch(NAME_PATTERN, name) and ".." not in name:
        return None
    return (
        f"{what} is 1 to 100 letters, digits, '.', '_' or '-', begins with a letter or digit and has no '..', "
        f"not {short_repr(name)}"
    )


def behavior_name_problems(names: Iterable[str]) -> dict[str, str]:
    """Return the problems of the names of one run's behaviors, by name; a valid name has no entry.

    Files are named after behaviors, also on file systems that do not distinguish upper and lower case.
    """
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.casefold(), []).append(name)
    problems: dict[str, str] = {}
    for folded, twins in alike.items():
        for name in twins:
            problem = name_problem("a behavior's name", name)
            if folded in RESERVED:
                problem = f"{name!r} is a name that rlcore uses itself in a run; give the behavior another name"
            elif len(twins) > 1:
                other = next(twin for twin in twins if twin != name)
                problem = f"{name!r} and {other!r} differ only in upper and lower case, and files are named after them"
            if problem is not None:
                problems[name] = problem
    return problems


def learns_offline(config: RunConfig, plugins: Plugins) -> bool:
    """Whether the trainers of ``config`` learn from recorded data, without an environment."""
    return any(_is_offline(settings, plugins) for settings in config.behaviors.values())


def _is_offline(settings: BehaviorSettings, plugins: Plugins) -> bool:
    return plugins.record(TrainerSpec, settings.trainer_type).offline


def environment_blocks(config: RunConfig) -> dict[KeyPath, EnvironmentSettings]:
    """The environments of training and of evaluations that the file describes, by the path of their blocks."""
    blocks: dict[KeyPath, EnvironmentSettings] = {}
    if config.environment is not None:
        blocks["environment",] = config.environment
    evaluation = config.evaluation
    if evaluation is not None and evaluation.environment is not None:
        blocks["evaluation", "environment"] = evaluation.environment
    return blocks


def check_config(config: RunConfig, plugins: Plugins, problems: Problems, measuring: bool) -> None:
    """Check a whole configuration. ``measuring``: it is for measuring policies only."""
    rules = _Rules(config, plugins, problems)
    rules.check_data_source()
    rules.check_curricula()
    if not measuring:
        rules.check_behavior_blocks()
        rules.check_blocks()
    rules.check_exporters()
    rules.check_routes()
    rules.check_workers()
    rules.check_behaviors()


class _Rules:
    """The rules between the blocks of one configuration; each adds to the problems what breaks it."""

    def __init__(self, config: RunConfig, plugins: Plugins, problems: Problems) -> None:
        self.config = config
        self.plugins = plugins
        self.problems = problems
        self.environments = environment_blocks(config)

    def check_data_source(self) -> None:
        """Refuse trainers of both kinds in one run, and recorded data without the name of its behavior."""
        behaviors = self.config.behaviors
        defaults = self.config.default_settings
        if not behaviors and defaults is not None and _is_offline(defaults, self.plugins):
            self.problems.add(
                ("behaviors",),
                f"trainer {defaults.trainer_type!r} learns from recorded data, and no environment names the behavior; "
                "list the behavior here by the name it was recorded under",
            )
        offline: list[str] = []
        online: list[str] = []
        for name, settings in behaviors.items():
            names = offline if _is_offline(settings, self.plugins) else online
            names.append(name)
        if not offline or not online:
            return
        name = offline[0]
        other = online[0]
        self.problems.add(
            ("behaviors", name, "trainer_type"),
            f"{behaviors[name].trainer_type!r} learns from recorded data, but "
            f"{behaviors[other].trainer_type!r} of {dotted(('behaviors', other))} learns in an environment; one "
            "run cannot do both, so write a configuration for each",
        )

    def check_curricula(self) -> None:
        """Let curricula check the rest of the configuration; see :class:`rlcore.CurriculumSettings`."""
        of_training, of_evaluations = PLACES
        blocks = {of_training: self.config.environment_parameters}
        if self.config.evaluation is not None:
            blocks[of_evaluations] = self.config.evaluation.environment_parameters
        for path, parameters in blocks.items():
            for name, parameter in parameters.items():
                curriculum = parameter.curriculum
                record = self.plugins.record(CurriculumSpec, curriculum.type)
                self._ask(curriculum, record, (*path, name, "curriculum"))

    def check_behavior_blocks(self) -> None:
        """Let the blocks of behaviors that plugins declare check the rest of the configuration, with ``problems()``.

        ``problems(behavior, config, plugins)`` of a settings class yields pairs of a path within the block and a
        message.
        """
        if self.config.default_settings is not None:  # first: a problem of it is not to appear as a behavior's
            self._check_behavior(self.config.default_settings, ("default_settings",))
        for name, behavior in self.config.behaviors.items():
            self._check_behavior(behavior, ("behaviors", name))

    def _check_behavior(self, behavior: BehaviorSettings, path: KeyPath) -> None:
        trainer = self.plugins.record(TrainerSpec, behavior.trainer_type)
        for key in ("network_settings", "hyperparameters"):
            self._ask(getattr(behavior, key), trainer, (*path, key), behavior)
        for name, settings in behavior.reward_signals.items():
            if not isinstance(settings, AbsentRewardSettings):
                reward = self.plugins.record(RewardProviderSpec, name)
                self._ask(settings, reward, (*path, "reward_signals", name), behavior)
        for name, settings in behavior.sections.items():
            section = self.plugins.record(BehaviorSection, name)
            owner = section.described if section.plugin is None else section.plugin.described
            self._ask(settings, section, (*path, name), behavior, owner=owner)

    def check_blocks(self) -> None:
        """Let every other block of a plugin check the rest of the configuration, with ``problems(config, plugins)``.

        These are sections, keys of evaluations, environments with their options and parameters, writers and exporters.
        """
        for name, settings in self.config.sections.items():
            section = self.plugins.record(ConfigSection, name)
            self._ask(settings, section, (name,), owner=section.described)
        if self.config.evaluation is not None:
            for name, settings in self.config.evaluation.sections.items():
                self._ask(settings, self.plugins.record(EvaluationSection, name), ("evaluation",))
        for path, environment in self.environments.items():
            spec = self.plugins.record(EnvironmentSpec, environment.type)
            self._ask(environment, spec, path)
            self._ask(environment.options, spec, (*path, "options"))
            for name, settings in environment.parameters.items():
                self._ask(settings, spec, (*path, "parameters", name))
        for name, settings in self.config.stats.items():
            self._ask(settings, self.plugins.record(StatsWriterSpec, name), ("stats", name))
        for name, settings in self.config.export.items():
            self._ask(settings, self.plugins.record(ExporterSpec, name), ("export", name))

    def check_exporters(self) -> None:
        """Check that each exporter of the ``export`` block writes files of its own."""
        references: dict[str, str] = {}  # by the ending of the files
        for reference, settings in self.config.export.items():
            spec = self.plugins.record(ExporterSpec, reference)
            path = ("export", reference)
            if not isinstance(settings, ExportSettings):
                problem = f"its settings class {type(settings).__name__} is not an ExportSettings"
                raise self.problems.plugin_error(path, f"{spec.described}: {problem}")
            other = references.setdefault(spec.suffix, reference)
            if other != reference:
                problem = f"writes files with the ending {spec.suffix}, as export.{other} does; delete one of them"
                self.problems.add(path, problem)

    def check_routes(self) -> None:
        """Check that every entry of ``environment.parameters`` names an environment parameter."""
        names = dict.fromkeys(self.config.environment_parameters)
        evaluation = self.config.evaluation
        if evaluation is not None and evaluation.environment is not None:
            names |= dict.fromkeys(evaluation.environment_parameters)
        for path, environment in self.environments.items():
            for name in environment.parameters:
                if name not in names:
                    problem = f"environment_parameters has no {name!r}{did_you_mean(name, names)}"
                    self.problems.add((*path, "parameters", name), problem)

    def check_workers(self) -> None:
        """Check that each worker has an environment, that its executor agrees, and that evaluations have no workers."""
        path = ("environment", "workers")
        problem = workers_problem(self.config)
        if problem:
            self.problems.add(path, problem)
        environment = self.config.environment
        executor = None if environment is None else environment.executor
        if executor is not None:
            self._ask(executor, self.plugins.record(ExecutorSpec, executor.executor), path)
        played = self.environments.get(("evaluation", "environment"))
        if played is not None and played.executor is not None:
            problem = "the environments of evaluations are stepped in the process of the run; leave it out"
            self.problems.add(("evaluation", *path), problem)

    def check_behaviors(self) -> None:
        """Check that an environment whose only behavior has no name finds one in ``behaviors``."""
        for environment in self.environments.values():
            spec = self.plugins.record(EnvironmentSpec, environment.type)
            problem = behaviors_problem(spec, self.config)
            if problem:
                self.problems.add(("behaviors",), problem)
                return

    def _ask(self, settings: Any, record: Record, path: KeyPath, *behavior: BehaviorSettings, owner: str = "") -> None:
        """Add what ``problems()`` of the settings of a record yields; nothing without the method.

        The block of a behavior gets its ``behavior``. Messages about a section name its ``owner``. Raises PluginError
        unless the answers are pairs of path and message.
        """
        check = getattr(settings, "problems", None)
        if check is None:
            return
        with blamed(record.described, "in problems() of its settings class", partial(self.problems.plugin_error, path)):
            answers = list(check(*behavior, self.config, self.plugins))
        for answer in answers:
            is_pair = isinstance(answer, tuple) and len(answer) == 2
            if not is_pair or not isinstance(answer[0], tuple) or not isinstance(answer[1], str):
                expected = "a pair of a path, such as ('goal',), and a message"
                problem = f"problems() of its settings class gave {answer!r}, not {expected}"
                raise self.problems.plugin_error(path, f"{record.described}: {problem}")
            below, message = answer
            if owner:
                message += f"; section of {owner}"
            self.problems.add((*path, *below), message)


def behaviors_problem(environment: EnvironmentSpec, config: RunConfig) -> str | None:
    """Return why ``behaviors`` does not fit an environment of this kind, or None."""
    count = len(config.behaviors)
    if environment.names_behaviors or count == 1:
        return None
    entries = f"{count}: {', '.join(config.behaviors)}" if count else "none"
    return (
        f"environments of type {environment.name!r} have one behavior, which has the name of the only entry here; "
        f"there must be one entry, not {entries}"
    )


def workers_problem(config: RunConfig) -> str | None:
    """Return why there are too many workers, or None."""
    executor = None if config.environment is None else config.environment.executor
    if executor is None or executor.count <= config.num_envs:
        return None
    return (
        f"there are {executor.count} workers for {config.num_envs} environments (environment.num_envs); "
        "each worker needs one or more"
    )


def check_names(problems: Problems) -> None:
    """Check names that become paths. The check does not need valid settings."""
    data = problems.document.data
    behaviors = data.get("behaviors")
    names = tuple(behaviors) if isinstance(behaviors, Mapping) else ()
    unusable = behavior_name_problems(names)
    for name in names:
        path = ("behaviors", name)
        if "?" in name:  # ML-Agents' full names of behaviors: Soccer?team=1
            plain = name.partition("?")[0]
            problems.add(path, f"a behavior's name has no '?team='; write {plain!r}, one block for all its teams")
        elif name in unusable:
            problems.add(path, unusable[name])
    parameters = data.get("environment_parameters")
    if isinstance(parameters, Mapping) and "metadata" in parameters:
        problem = "a parameter may not have the name of rlcore's own section of training_status.json"
        problems.add(("environment_parameters", "metadata"), problem)
    for key in ("run_id", "initialize_from"):
        run_id = value_at(data, ("checkpoint_settings", key))
        run_id_problem = name_problem("a run id", run_id) if isinstance(run_id, str) else None
        # COLLECTION:FILE is found, or refused, when the run starts; C:\file is none.
        if run_id_problem and not (key == "initialize_from" and re.match(r"[\w-]{2,}:", run_id)):
            problems.add(("checkpoint_settings", key), run_id_problem)


def check_start(problems: Problems) -> None:
    """Check that the run is resumed or starts from another run, not both. The check does not need valid settings."""
    data = problems.document.data
    resume = ("checkpoint_settings", "resume")
    initialize = ("checkpoint_settings", "initialize_from")
    if value_at(data, resume) is not True or value_at(data, initialize) is None:
        return
    # If only the file has initialize_from, it says how the resumed run once started: there is nothing to choose.
    resume_origin = problems.document.origin(resume)
    initialize_origin = problems.document.origin(initialize)
    if (resume_origin.order >= AFTER_THE_FILE) == (initialize_origin.order >= AFTER_THE_FILE):
        problems.add(initialize, "resume continues a run and initialize_from starts a new one; give one of them")
