"""Rules between blocks, and for names: each adds to the problems what is wrong with the configuration as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from rlcore.config.document import AFTER_THE_FILE, value_at
from rlcore.config.problems import Problems, shown
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
from rlcore.settings import BehaviorSettings, ExportSettings, RunConfig
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
        f"not {shown(name)}"
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


def check_data_source(config: RunConfig, plugins: Plugins, problems: Problems) -> None:
    """Refuse trainers of both kinds in one run, and recorded data without the name of its behavior."""
    defaults = config.default_settings
    if not config.behaviors and defaults is not None and _is_offline(defaults, plugins):
        problems.add(
            ("behaviors",),
            f"trainer {defaults.trainer_type!r} learns from recorded data, and no environment names the behavior; list "
            "the behavior here by the name it was recorded under",
        )
    offline = [name for name, settings in config.behaviors.items() if _is_offline(settings, plugins)]
    online = [name for name in config.behaviors if name not in offline]
    if offline and online:
        name = offline[0]
        other = online[0]
        problems.add(
            ("behaviors", name, "trainer_type"),
            f"{config.behaviors[name].trainer_type!r} learns from recorded data, but "
            f"{config.behaviors[other].trainer_type!r} of {dotted(('behaviors', other))} learns in an environment; one "
            "run cannot do both, so write a configuration for each",
        )


def _is_offline(settings: BehaviorSettings, plugins: Plugins) -> bool:
    return plugins.record(TrainerSpec, settings.trainer_type).offline


def check_config(config: RunConfig, plugins: Plugins, problems: Problems, measuring: bool) -> None:
    """Check a whole configuration. ``measuring``: it is for measuring policies only."""
    check_data_source(config, plugins, problems)
    check_curricula(config, plugins, problems)
    if not measuring:
        check_blocks(config, plugins, problems)
        check_sections(config, plugins, problems)
    check_exporters(config, plugins, problems)
    check_routes(config, problems)
    check_workers(config, plugins, problems)
    check_behaviors(config, plugins, problems)


def check_exporters(config: RunConfig, plugins: Plugins, problems: Problems) -> None:
    """Check that each exporter of the ``export`` block writes files of its own."""
    first: dict[str, str] = {}
    for reference, settings in config.export.items():
        spec = plugins.record(ExporterSpec, reference)
        path = ("export", reference)
        if not isinstance(settings, ExportSettings):
            kind = type(settings).__name__
            raise problems.plugin_error(path, f"{spec.described}: its settings class {kind} is not an ExportSettings")
        other = first.setdefault(spec.suffix, reference)
        if other != reference:
            problems.add(
                path, f"writes files with the ending {spec.suffix}, as export.{other} does; delete one of them"
            )


def check_names(problems: Problems) -> None:
    """Check names that become paths. The check does not need valid settings."""
    data = problems.document.data
    listed = data.get("behaviors")
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
            "a parameter may not have the name of rlcore's own section of training_status.json",
        )
    for path in (("checkpoint_settings", "run_id"), ("checkpoint_settings", "initialize_from")):
        value = value_at(data, path)
        if isinstance(value, str) and (problem := name_problem("a run id", value)):
            problems.add(path, problem)


def check_start(problems: Problems) -> None:
    """Check that the run is resumed or starts from another run, not both. The check does not need valid settings."""
    data = problems.document.data
    resume = ("checkpoint_settings", "resume")
    initialize = ("checkpoint_settings", "initialize_from")
    if value_at(data, resume) is not True or value_at(data, initialize) is None:
        return
    # If only the file has initialize_from, it says how the resumed run once started: there is nothing to choose.
    on_command_line = {problems.document.origin(path).order >= AFTER_THE_FILE for path in (resume, initialize)}
    if len(on_command_line) == 1:
        problems.add(initialize, "resume continues a run and initialize_from starts a new one; give one of them")


def check_behaviors(config: RunConfig, plugins: Plugins, problems: Problems) -> None:
    """Check that an environment whose only behavior has no name finds one in ``behaviors``."""
    played = None if config.evaluation is None else config.evaluation.environment
    for environment in (config.environment, played):
        problem = (
            None
            if environment is None
            else behaviors_problem(plugins.record(EnvironmentSpec, environment.type), config)
        )
        if problem:
            problems.add(("behaviors",), problem)
            return


def behaviors_problem(environment: EnvironmentSpec, config: RunConfig) -> str | None:
    """Return why ``behaviors`` does not fit an environment of this kind, or None."""
    if environment.names_behaviors or len(config.behaviors) == 1:
        return None
    found = f"{len(config.behaviors)}: {', '.join(config.behaviors)}" if config.behaviors else "none"
    return (
        f"environments of type {environment.name!r} have one behavior, which has the name of the only entry here; "
        f"there must be one entry, not {found}"
    )


def check_workers(config: RunConfig, plugins: Plugins, problems: Problems) -> None:
    """Check that every worker has an environment, what the executor checks, and that evaluations have no workers."""
    problem = workers_problem(config)
    if problem:
        problems.add(("environment", "workers"), problem)
    executor = None if config.environment is None else config.environment.executor
    at = ("environment", "workers")
    if executor is not None:
        _ask(executor, plugins.record(ExecutorSpec, executor.executor).described, problems, at, config, plugins)
    played = None if config.evaluation is None else config.evaluation.environment
    if played is not None and played.executor is not None:
        problem = "the environments of evaluations are stepped in the process of the run; leave it out"
        problems.add(("evaluation", "environment", "workers"), problem)


def workers_problem(config: RunConfig) -> str | None:
    """Return why there are too many workers, or None."""
    executor = None if config.environment is None else config.environment.executor
    if executor is None or executor.count <= config.num_envs:
        return None
    return (
        f"there are {executor.count} workers for {config.num_envs} environments (environment.num_envs); "
        "each worker needs one or more"
    )


def check_routes(config: RunConfig, problems: Problems) -> None:
    """Check that every entry of ``environment.parameters`` names an environment parameter."""
    names = dict.fromkeys(config.environment_parameters)
    routes: dict[KeyPath, Iterable[str]] = {}
    if config.environment is not None:
        routes["environment", "parameters"] = config.environment.parameters
    if config.evaluation is not None and config.evaluation.environment is not None:
        names |= dict.fromkeys(config.evaluation.environment_parameters)
        routes["evaluation", "environment", "parameters"] = config.evaluation.environment.parameters
    for path, routed in routes.items():
        for name in routed:
            if name not in names:
                problems.add((*path, name), f"environment_parameters has no {name!r}{did_you_mean(name, names)}")


def check_blocks(config: RunConfig, plugins: Plugins, problems: Problems) -> None:
    """Let the blocks of behaviors that plugins declare check the rest of the configuration, with ``problems()``.

    ``problems(behavior, config, plugins)`` of a settings class yields pairs of a path within the block and a message.
    """
    defaults = [] if config.default_settings is None else [(("default_settings",), config.default_settings)]
    behaviors: list[tuple[KeyPath, BehaviorSettings]] = [
        *defaults,  # first: a problem of it is not to appear as a behavior's
        *((("behaviors", name), behavior) for name, behavior in config.behaviors.items()),
    ]
    for path, behavior in behaviors:
        trainer = plugins.record(TrainerSpec, behavior.trainer_type)
        blocks: list[tuple[KeyPath, Any, Record]] = [
            (("network_settings",), behavior.network_settings, trainer),
            (("hyperparameters",), behavior.hyperparameters, trainer),
        ]
        for name, settings in behavior.reward_signals.items():
            if not isinstance(settings, AbsentRewardSettings):
                blocks.append((("reward_signals", name), settings, plugins.record(RewardProviderSpec, name)))
        for key, settings, record in blocks:
            _ask(settings, record.described, problems, (*path, *key), behavior, config, plugins)
        for name, settings in behavior.sections.items():
            record = plugins.record(BehaviorSection, name)
            owner = record.described if record.plugin is None else record.plugin.described
            whose = f"; section of {owner}"
            _ask(settings, record.described, problems, (*path, name), behavior, config, plugins, whose=whose)


def check_sections(config: RunConfig, plugins: Plugins, problems: Problems) -> None:
    """Let every other block of a plugin check the rest of the configuration, with ``problems(config, plugins)``.

    These are sections, keys of evaluations, environments with their options and parameters, writers and exporters.
    """
    for name, settings in config.sections.items():
        owner = plugins.record(ConfigSection, name).described
        _ask(settings, owner, problems, (name,), config, plugins, whose=f"; section of {owner}")
    for name, settings in ({} if config.evaluation is None else config.evaluation.sections).items():
        owner = plugins.record(EvaluationSection, name).described
        _ask(settings, owner, problems, ("evaluation",), config, plugins)
    played = None if config.evaluation is None else config.evaluation.environment
    for at, block in ((("environment",), config.environment), (("evaluation", "environment"), played)):
        if block is not None:
            owner = plugins.record(EnvironmentSpec, block.type).described
            _ask(block, owner, problems, at, config, plugins)
            _ask(block.options, owner, problems, (*at, "options"), config, plugins)
            for name, settings in block.parameters.items():
                _ask(settings, owner, problems, (*at, "parameters", name), config, plugins)
    for name, settings in config.stats.items():
        _ask(settings, plugins.record(StatsWriterSpec, name).described, problems, ("stats", name), config, plugins)
    for name, settings in config.export.items():
        _ask(settings, plugins.record(ExporterSpec, name).described, problems, ("export", name), config, plugins)


def check_curricula(config: RunConfig, plugins: Plugins, problems: Problems) -> None:
    """Let curricula check the rest of the configuration; see :class:`rlcore.CurriculumSettings`."""
    of_evaluation = {} if config.evaluation is None else config.evaluation.environment_parameters
    for place, blocks in zip(PLACES, (config.environment_parameters, of_evaluation), strict=True):
        for name, block in blocks.items():
            owner = plugins.record(CurriculumSpec, block.curriculum.type).described
            _ask(block.curriculum, owner, problems, (*place, name, "curriculum"), config, plugins)


def _ask(settings: Any, owner: str, problems: Problems, at: KeyPath, *arguments: Any, whose: str = "") -> None:
    """Add what ``problems(*arguments)`` of the settings of a plugin, the ``owner``, yields; nothing without the method.

    Raises PluginError unless these are pairs of path and message.
    """
    check = getattr(settings, "problems", None)
    if check is None:
        return
    with blamed(owner, "in problems() of its settings class", partial(problems.plugin_error, at)):
        found = list(check(*arguments))
    for each in found:
        if not (isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], tuple) and isinstance(each[1], str)):
            what = f"gave {each!r}, not a pair of a path, such as ('goal',), and a message"
            raise problems.plugin_error(at, f"{owner}: problems() of its settings class {what}")
        problems.add((*at, *each[0]), f"{each[1]}{whose}")
