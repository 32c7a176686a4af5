"""From a configuration to the things a run is made of: plugins, environment, trainers, writers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, cast

import attrs
import numpy as np

from rlcore.config.data_source import learns_offline
from rlcore.config.document import Document, document_from_mapping, object_hint, read_document
from rlcore.config.dump import dump_config
from rlcore.config.load import load_document
from rlcore.config.names import behavior_name_problems
from rlcore.config.plugins_block import load_plugins_for, recorded
from rlcore.config.problems import shown
from rlcore.config.rules import behaviors_problem, workers_problem
from rlcore.contracts.curriculum import Curriculum
from rlcore.contracts.environment import AgentBatch, BehaviorSpec, Environment
from rlcore.contracts.seeding import fresh_seed
from rlcore.errors import ConfigError, EnvironmentFailed, PluginError, did_you_mean
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext, StopRequests
from rlcore.plugins.factories import call_target, require_protocol
from rlcore.plugins.known import ENVIRONMENT_EXAMPLE
from rlcore.ranks.ranks import OneRank, Ranks
from rlcore.ranks.shares import share_environments
from rlcore.records import CurriculumSpec, StatsWriterSpec
from rlcore.run.absent_plugins import directory_to_continue, naming_absent_plugins
from rlcore.run.behavior import BehaviorRun
from rlcore.run.curricula.checked import CheckedCurriculum
from rlcore.run.rank_rules import refuse_wrappers
from rlcore.run.writers import OpenWriter
from rlcore.settings import BehaviorSettings, EnvironmentParameter, EnvironmentSettings, ExecutorSettings, RunConfig

log = logging.getLogger(__name__)


def resolve_config(
    config: RunConfig | Document | Mapping[str, Any] | str | Path, plugins: Plugins | None
) -> tuple[RunConfig, Plugins, Document]:
    """A checked configuration, the plugins it was checked with, and the document that gives errors their place.

    Loads plugins if none are given.
    """
    if isinstance(config, RunConfig):
        if plugins is None:
            plugins = load_plugins_for(document_from_mapping(dump_config(config)))
            config = attrs.evolve(config, plugins=recorded(config.plugins, None, plugins))
        return config, plugins, Document(None)
    if isinstance(config, Mapping):
        config = document_from_mapping(config)
    if not isinstance(config, Document | str | PathLike):
        raise ConfigError(
            f"a run is made from a configuration: a mapping, the path of a file, or a RunConfig, not {shown(config)}"
            + object_hint(config)
        )
    document = config if isinstance(config, Document) else read_document(Path(config))
    if plugins is None:
        plugins = load_plugins_for(document)
    with naming_absent_plugins(directory_to_continue(document), plugins):
        loaded, document = load_document(document, plugins)
    return loaded, plugins, document


def with_seed(config: RunConfig, seed: int | None) -> RunConfig:
    """The configuration with the run's seed in it: ``seed`` of a resumed run, the configured one, or a fresh one."""
    configured = config.env_settings.seed
    if seed is None:
        seed = configured if configured >= 0 else fresh_seed()
    elif configured not in (-1, seed):
        raise ConfigError(
            f"the run was started with seed {seed}, not {configured}; leave the seed out to resume",
            key=("env_settings", "seed"),
        )
    return attrs.evolve(config, env_settings=attrs.evolve(config.env_settings, seed=seed))


def fresh_start(config: RunConfig) -> RunConfig:
    """The configuration that starts this run again: without ``resume``, ``checkpoint``, ``force``, ``inference``."""
    start = config.checkpoint_settings
    settings = attrs.evolve(start, resume=False, checkpoint=None, force=False, inference=False)
    return attrs.evolve(config, checkpoint_settings=settings)


def with_intervals(config: RunConfig, behaviors: Iterable[BehaviorRun]) -> RunConfig:
    """The configuration with the intervals of checkpoints that the run chose; a new run with it does the same."""
    chosen = {
        each.name: attrs.evolve(each.settings, checkpoint_interval=each.chosen_interval)
        for each in behaviors
        if each.chosen_interval is not None and each.settings.checkpoint_interval is None
    }
    return attrs.evolve(config, behaviors={**config.behaviors, **chosen})


def run_context(
    config: RunConfig,
    plugins: Plugins,
    directory: Path,
    working_directory: Path,
    resumed_steps: Mapping[str, int] | None = None,
    stops: StopRequests | None = None,
    ranks: Ranks | None = None,
) -> RunContext:
    """The run as plugins see it, with the environments of this rank."""
    ranks = ranks or OneRank()
    share = share_environments(config.num_envs, ranks.rank, ranks.size)
    return RunContext(
        config=config,
        plugins=plugins,
        directory=directory,
        seed=config.env_settings.seed,
        num_envs=share.count,
        first_env=share.first,
        ranks=ranks,
        purpose="inference" if config.checkpoint_settings.inference else "train",
        resumed_steps=dict(resumed_steps or {}),
        offline=learns_offline(config, plugins),
        working_directory=working_directory,
        stops=StopRequests() if stops is None else stops,
    )


def plugin_files(context: RunContext, behaviors: Iterable[str]) -> list[str]:
    """Patterns of the files that plugins write, one for each behavior if a pattern names it."""
    return [
        pattern.replace("{behavior}", name)
        for pattern in context.files
        for name in (behaviors if "{behavior}" in pattern else ("",))
    ]


def environment_settings(config: RunConfig) -> EnvironmentSettings:
    """The ``environment`` block, which a run cannot do without."""
    if config.environment is None:
        raise ConfigError(
            f"missing; say which environment to train or act in, for example {ENVIRONMENT_EXAMPLE}",
            key=("environment",),
        )
    return config.environment


def environment_name(settings: EnvironmentSettings, plugins: Plugins) -> str:
    """The name of an environment in messages: its type, the plugin that makes it, and its id."""
    described = plugins.environment(settings.type).described
    return f"{described}, id {settings.id!r}," if settings.id else described


def make_environment(config: RunConfig, plugins: Plugins, context: RunContext) -> Environment:
    """The ``context.num_envs`` environments of ``config``."""
    settings = environment_settings(config)
    spec = plugins.environment(settings.type)
    unnamed = behaviors_problem(spec, config)
    if unnamed:
        raise ConfigError(unnamed, key=("behaviors",))
    environment = _in_workers(config, plugins, context) or plugins.create_environment(spec, settings, context)
    unusable = behavior_name_problems(environment.behaviors)
    problem = ""
    if unusable:
        problem = f"has a behavior whose name cannot be used: {next(iter(unusable.values()))}"
    elif not environment.behaviors:
        problem = "has no behaviors; at least one is required"
    elif environment.num_envs != context.num_envs:
        problem = f"was made with num_envs {environment.num_envs} where run.num_envs is {context.num_envs}"
    if problem:
        with suppress(Exception, SystemExit):  # the first error is the one to report
            environment.close()
        raise EnvironmentFailed(f"environment {settings.id or settings.type!r}: {problem}")
    return environment


def _in_workers(config: RunConfig, plugins: Plugins, context: RunContext) -> Environment | None:
    """The environments of a run in workers; None without workers, and for what is measured or filmed."""
    chosen = environment_settings(config).executor
    if chosen is None or context.purpose == "evaluate" or context.video is not None:
        return None
    problem = workers_problem(config)
    if problem:
        raise ConfigError(problem, key=("environment", "workers"))
    ranks = context.ranks.size
    fewest = share_environments(config.num_envs, ranks - 1, ranks).count
    if chosen.count > fewest:
        raise ConfigError(
            f"each of the {ranks} ranks starts {chosen.count} workers, and has as few as {fewest} of the "
            f"{config.num_envs} environments (environment.num_envs); each worker needs one or more",
            key=("environment", "workers"),
        )
    spec = plugins.executor(chosen.executor)
    if type(chosen) is ExecutorSettings:  # of a program that gives the number of workers
        chosen = spec.resolve("settings")(executor=chosen.executor, count=chosen.count)
    environment = call_target(spec, "ExecutorSpec.target", settings=chosen, run=context)
    require_protocol(environment, Environment, spec.described)
    return cast(Environment, environment)


def make_curricula(
    parameters: Mapping[str, EnvironmentParameter], plugins: Plugins, context: RunContext
) -> dict[str, Curriculum]:
    """The curricula that ``parameters`` name, each with all of its parameters, by the name it was first given.

    Parameters are in the order of their names, whatever the file's, so that a state fits the file in any order.
    """
    blocks: dict[str, dict[str, Any]] = {}
    specs: dict[str, CurriculumSpec] = {}
    for name, parameter in sorted(parameters.items()):
        spec = plugins.curriculum(parameter.curriculum.type)
        kind = next((known for known, other in specs.items() if other is spec), parameter.curriculum.type)
        specs[kind] = spec
        blocks.setdefault(kind, {})[name] = parameter.curriculum
    return {
        kind: cast(
            Curriculum,
            CheckedCurriculum(
                plugins.create_curriculum(spec, blocks[kind], context),
                tuple(blocks[kind]),
                spec.described,
                spec.reference,
            ),
        )
        for kind, spec in specs.items()
    }


def settings_of(config: RunConfig, behavior: str) -> BehaviorSettings:
    """A behavior's block, or ``default_settings`` for one that is not listed."""
    settings = config.behaviors.get(behavior, config.default_settings)
    if settings is None:
        raise ConfigError(
            f"the environment has a behavior {behavior!r}, which the configuration does not list"
            f"{did_you_mean(behavior, config.behaviors)}; add it, or default_settings for all that are not listed",
            key=("behaviors",),
        )
    return settings


def recorded_behaviors(config: RunConfig, plugins: Plugins, context: RunContext) -> dict[str, BehaviorSpec]:
    """Return the behaviors that the recorded data of a run without an environment has."""
    specs = {}
    for name, settings in config.behaviors.items():
        demo_path = getattr(settings.hyperparameters, "demo_path", None)
        if demo_path is None:
            raise PluginError(
                f"trainer {settings.trainer_type!r} learns from recorded data, but its hyperparameters have no "
                "demo_path; derive them from rlcore_torch.OfflineSettings"
            )
        specs[name] = context.recorded_behavior(demo_path, name)
    return specs


def make_behavior_runs(
    config: RunConfig, plugins: Plugins, context: RunContext, specs: Mapping[str, BehaviorSpec], offline: bool
) -> dict[str, BehaviorRun]:
    """A trainer for every behavior of the environment, or, ``offline``, of the recorded data."""
    context.behaviors = dict(specs)
    chosen = {name: settings_of(config, name) for name in specs}
    for idle in sorted(set(config.behaviors) - set(specs)):
        log.warning(
            "behaviors.%s: has no effect, because the environment has no such behavior; it has %s%s",
            idle, ", ".join(sorted(specs)), did_you_mean(idle, specs),
        )  # fmt: skip
    runs = {}
    for name, spec in specs.items():
        settings = chosen[name]
        record = plugins.trainer(settings.trainer_type)
        if record.offline != offline:
            raise ConfigError(
                f"the environment has a behavior {name!r}, which trainer {settings.trainer_type!r} of "
                "default_settings would learn from recorded data; list it with a trainer that learns in an environment",
                key=("behaviors",),
            )
        trainer = plugins.create_trainer(record, settings, spec, context)
        if context.ranks.size > 1:
            refuse_wrappers(trainer, name)
        runs[name] = BehaviorRun(spec, settings, trainer, empty_batch(spec), context.seed, offline)
        if not record.turns and not context.inference:
            runs[name].checks.takes_no_turns = record.described
    return runs


def empty_batch(spec: BehaviorSpec) -> AgentBatch:
    """The batch of a behavior before its first reset: all zeros."""
    return AgentBatch(
        observations={o.name: np.zeros((spec.slots, *o.shape), o.dtype) for o in spec.observations},
        reward=np.zeros(spec.slots, np.float32),
        terminated=np.zeros(spec.slots, np.bool_),
        truncated=np.zeros(spec.slots, np.bool_),
    )


def make_writers(config: RunConfig, plugins: Plugins, context: RunContext) -> list[OpenWriter]:
    """The writers that are on by default and not turned off, and those the ``stats`` block names."""
    configured = {plugins.stats_writer(reference): settings for reference, settings in config.stats.items()}
    chosen: dict[StatsWriterSpec, Any] = {
        record: None
        for record in plugins.records("writer")
        if isinstance(record, StatsWriterSpec) and record.default_on and record not in configured
    }
    chosen |= {spec: settings for spec, settings in configured.items() if settings is not False}
    writers: list[OpenWriter] = []
    if context.ranks.rank:
        return writers
    try:
        for spec, settings in chosen.items():
            if context.inference and not spec.inference:
                continue
            if settings is None and spec.settings is not None:
                settings = spec.resolve("settings")()
            writer = plugins.create_stats_writer(spec, settings, context)
            writers.append(OpenWriter(writer, spec.described))
    except BaseException:
        for opened in writers:
            with suppress(Exception, SystemExit):  # the first error is the one to report
                opened.close()
        raise
    return writers
