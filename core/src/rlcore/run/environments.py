"""Makes the environments of a run: in this process, in workers, or of what a program gave."""

from __future__ import annotations

from contextlib import suppress

from rlcore.config.rules import behavior_name_problems, behaviors_problem, workers_problem
from rlcore.contracts.environment import Environment
from rlcore.contracts.seeding import EpisodeSeeds, ProcessGenerators
from rlcore.errors import ConfigError, EnvironmentFailed, repeating
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.known import ENVIRONMENT_ADVICE, ENVIRONMENT_OPTIONS_EXAMPLE, PROGRAM
from rlcore.records import EnvironmentSpec, ExecutorSpec
from rlcore.settings import EnvironmentSettings, ExecutorSettings, RunConfig


def environment_settings(config: RunConfig) -> EnvironmentSettings:
    """The ``environment`` block, which a run cannot do without."""
    if config.environment is None:
        raise ConfigError(
            f"missing; say which environment to train or act in, for example {ENVIRONMENT_ADVICE}",
            key=("environment",),
        )
    return config.environment


def environment_name(settings: EnvironmentSettings, plugins: Plugins) -> str:
    """The name of an environment in messages: its type, the plugin that makes it, and its id."""
    described = plugins.record(EnvironmentSpec, settings.type).described
    return f"{described}, id {settings.id!r}," if settings.id else described


def make_environment(config: RunConfig, plugins: Plugins, context: RunContext) -> Environment:
    """The ``context.num_envs`` environments of ``config``."""
    settings = environment_settings(config)
    spec = plugins.record(EnvironmentSpec, settings.type)
    unnamed = behaviors_problem(spec, config)
    if unnamed:
        raise ConfigError(unnamed, key=("behaviors",))
    # An environment may draw from these generators while it is made: equal seeds are to make equal environments.
    ProcessGenerators.seed(EpisodeSeeds(context.seed, context.first_env))
    environment = _in_workers(config, plugins, context)
    if environment is None:
        environment = plugins.create(spec, settings=settings, run=context)
    problem = ""
    unusable = [*behavior_name_problems(environment.behaviors).values()]
    if unusable:
        problem = f"has a behavior whose name cannot be used: {unusable[0]}"
    elif not environment.behaviors:
        problem = "has no behaviors; at least one is required"
    elif environment.num_envs != context.num_envs:
        problem = f"was made with num_envs {environment.num_envs} where run.num_envs is {context.num_envs}"
    if problem:
        give_up(environment, context)
        raise EnvironmentFailed(f"environment {settings.id or settings.type!r}: {problem}")
    return environment


def make_given(settings: EnvironmentSettings, run: RunContext) -> Environment:
    """Create the environment from ``run.given``, with the adapter of the first plugin that knows its kind.

    Raises ConfigError if no program gave one, if an evaluation would need the one object that training uses, and if no
    plugin knows the kind of the object. Raises EnvironmentFailed if the function that makes it fails.
    """
    made = run.given
    if made is None:
        raise ConfigError(
            "is given by a Python program, in Run(config, environment=...), and a file cannot make it: run, resume and "
            f"evaluate it with that program, or name an environment with {ENVIRONMENT_OPTIONS_EXAMPLE}",
            key=("environment",),
        )
    if callable(made):
        try:
            made = made()
        except (Exception, SystemExit) as error:
            raise repeating(error, "Run(config, environment=...): the function failed", EnvironmentFailed) from error
    elif run.purpose == "evaluate":
        raise ConfigError(
            "is one object, which training uses, and an evaluation needs its own: give a function that makes one, "
            "such as Run(config, environment=lambda: MyEnv()), or name one in evaluation.environment",
            key=("environment",),
        )
    if isinstance(made, Environment):
        return made
    kinds = ["rlcore.Environment"]
    for record in run.plugins.records("environment"):
        if getattr(record, "adapter", None):
            kinds.append(record.name)
            adapted: Environment | None = record.resolve("adapter")(made, settings, run)
            if adapted is not None:
                return adapted
    kind = type(made)
    raise ConfigError(
        f"Run(config, environment=...): {kind.__module__}.{kind.__qualname__} is not an environment of a kind that a "
        f"plugin knows ({', '.join(kinds)}); give an environment, or a function without arguments that makes one"
    )


def kept_open(context: RunContext) -> bool:
    """Whether the environment is the program's own object, which the program closes."""
    return environment_settings(context.config).type == PROGRAM and not callable(context.given)


def give_up(environment: Environment, context: RunContext) -> None:
    """Close an environment that is not used, because of the error to report."""
    if not kept_open(context):
        with suppress(Exception, SystemExit):
            environment.close()


def _in_workers(config: RunConfig, plugins: Plugins, context: RunContext) -> Environment | None:
    """The environments of a run in workers; None without workers, and for what is measured or filmed."""
    chosen = environment_settings(config).executor
    if chosen is None or context.purpose == "evaluate" or context.video is not None:
        return None
    problem = workers_problem(config)
    if environment_settings(config).type == PROGRAM:
        problem = "workers cannot make the environment that a program gives; register it, and name it by its id"
    if problem:
        raise ConfigError(problem, key=("environment", "workers"))
    if chosen.count > context.num_envs:
        raise ConfigError(
            f"this process starts {chosen.count} workers for {context.num_envs} of the {config.num_envs} environments "
            "(environment.num_envs); each worker needs one or more",
            key=("environment", "workers"),
        )
    spec = plugins.record(ExecutorSpec, chosen.executor)
    if type(chosen) is ExecutorSettings:  # of a program that gives the number of workers
        chosen = spec.resolve("settings")(executor=chosen.executor, count=chosen.count)
    environment: Environment = plugins.create(spec, settings=chosen, run=context)
    return environment
