"""Creates the environment, trainers and curricula of a run, and closes what was opened.

An error of a ``close()`` is reported, and keeps nothing else open. How long a ``close()`` may take is set here too;
:mod:`rlcore.cli.main` ends the process at these deadlines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

import attrs

from rlcore.contracts.behavior_spec import BehaviorSpec
from rlcore.contracts.curriculum import LessonChange
from rlcore.contracts.environment import Environment, KeepsBatches, SavesState, SendsSteps
from rlcore.contracts.ranks import IdleGroups
from rlcore.contracts.seeding import EpisodeSeeds, ProcessGenerators
from rlcore.errors import ConfigError, PluginError, RlcoreError, did_you_mean
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.failures import failure
from rlcore.records import TrainerSpec
from rlcore.run.behaviors.behavior import TrainedBehavior
from rlcore.run.environments import environment_name, environment_settings, give_up, make_environment
from rlcore.run.prepare import CloseDeadline, no_deadline
from rlcore.run.state import TrainingState
from rlcore.settings import BehaviorSettings, RunConfig

log = logging.getLogger(__name__)

# Seconds that a close() may take under `rlcore run` and `rlcore evaluate`; a writer may still have data to send.
CLOSE_ENVIRONMENT = 5.0
CLOSE_WRITER = 30.0


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
                "demo_path; declare this setting in their class"
            )
        specs[name] = context.recorded_behavior(demo_path, name)
    return specs


def make_behaviors(
    config: RunConfig, plugins: Plugins, context: RunContext, specs: Mapping[str, BehaviorSpec]
) -> dict[str, TrainedBehavior]:
    """A trainer for every behavior of the environment, or of the recorded data that the run learns from."""
    context.behaviors = dict(specs)
    chosen = {name: settings_of(config, name) for name in specs}  # all of them, before a trainer is made
    for name in sorted(config.behaviors.keys() - specs.keys()):
        log.warning(
            "behaviors.%s: has no effect, because the environment has no such behavior; it has %s%s",
            name,
            ", ".join(sorted(specs)),
            did_you_mean(name, specs),
        )
    behaviors = {}
    for name, settings in chosen.items():
        spec = specs[name]
        record = plugins.record(TrainerSpec, settings.trainer_type)
        if record.offline != context.offline:
            raise ConfigError(
                f"the environment has a behavior {name!r}, which trainer {settings.trainer_type!r} of "
                "default_settings would learn from recorded data; list it with a trainer that learns in an environment",
                key=("behaviors",),
            )
        trainer = plugins.create(record, settings=settings, behavior=spec, run=context)
        behavior = TrainedBehavior(spec, settings, trainer, context.seed, context.offline)
        if config.environment is not None:
            behavior.episodes.info = config.environment.info
        if not record.turns and not context.inference:
            behavior.checks.takes_no_turns = record.described
        behaviors[name] = behavior
    return behaviors


def make_state(
    context: RunContext,
    plugins: Plugins,
    lesson_changed: Callable[[int, LessonChange], None],
    environment: Environment | None = None,
) -> TrainingState:
    """Create the environment, unless it is given, and trainers and curricula of a run, before the first episode.

    There is no environment if the trainers learn from recorded data. ``lesson_changed`` is called with the run's step.
    """
    config = context.config
    if context.offline and not context.inference:
        # No environment is made or reset, which seeds them elsewhere: checkpoints of two such runs must be equal too.
        ProcessGenerators.seed(EpisodeSeeds(context.seed, context.first_env))
        specs = recorded_behaviors(config, plugins, context)
        return TrainingState(context, None, make_behaviors(config, plugins, context, specs))
    if environment is None:
        environment = make_environment(config, plugins, context)
    settings = environment_settings(config)
    name = environment_name(settings, plugins)
    try:
        context.ranks.wait_for_all("starting the environments")
        behaviors = make_behaviors(config, plugins, context, environment.behaviors)
        state = TrainingState(context, environment, behaviors, name)
        trainers = [behavior.trainer for behavior in behaviors.values()]
        if isinstance(environment, KeepsBatches) and environment.keep_batches(trainers):
            state.on_device = environment
        for behavior in behaviors.values():
            behavior.restarts = not isinstance(environment, SavesState)
            behavior.checks.environment = name
        state.updates_while_stepping = settings.executor is not None and isinstance(environment, SendsSteps)
        if state.updates_while_stepping and not context.inference:
            _require_updates_while_stepping(behaviors)
        if len(behaviors) > 1 and not context.inference:
            state.acting = IdleGroups(context.ranks, len(behaviors))
        environments, state.everywhere = context.ranks.join(environment, behaviors, config.num_envs, context.first_env)
        if config.environment_parameters:
            _add_curricula(state, plugins, environments, lesson_changed)
    except BaseException:
        give_up(environment, context)
        raise
    return state


def _add_curricula(
    state: TrainingState, plugins: Plugins, environments: Any, lesson_changed: Callable[[int, LessonChange], None]
) -> None:
    """Have curricula choose what the episodes of ``environments``, those of all ranks, begin with.

    Every rank has the curricula, which see all environments of the run and do the same.
    """
    context = state.context
    everywhere = attrs.evolve(context, num_envs=context.config.num_envs, first_env=0)
    curricula = plugins.parameter_source().train(
        everywhere,
        environments,
        state.everywhere,
        lambda change: lesson_changed(state.steps, change),
        state.environment_name,
    )
    state.curricula = curricula
    context.ranks.report = curricula.episodes_finished

    def described(env: int, latest: bool) -> str:
        return curricula.episode_described(context.first_env + env, latest)

    for behavior in state.behaviors.values():
        behavior.checks.began = described


def _require_updates_while_stepping(behaviors: Mapping[str, TrainedBehavior]) -> None:
    """Raise ConfigError for a trainer that cannot update while a step is under way."""
    for name, behavior in behaviors.items():
        if not getattr(behavior.trainer, "updates_while_stepping", False):
            raise ConfigError(
                f"updates is for off-policy trainers such as sac; behavior {name!r} has trainer "
                f"{behavior.settings.trainer_type!r}, which learns from complete steps: use half, or leave it out",
                key=("environment", "workers", "overlap"),
            )


def close_at_exit(
    stack: ExitStack,
    closable: Any,
    what: str,
    kind: type[RlcoreError],
    seconds: float,
    deadline: CloseDeadline = no_deadline,
) -> None:
    """Have ``stack`` close ``closable``, which messages call ``what`` and blame with an error of ``kind``.

    ``deadline`` is entered around ``close()`` and decides what happens after ``seconds``, or more if ``closable`` has
    an attribute ``close_seconds`` of more.

    An exception of ``close()`` is logged: as a warning, or for debugging if the stack is left by an error. A SystemExit
    must not end the process unnoticed: it is raised as an error of ``kind`` unless an error is reported already.
    """

    def close(raised: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            longest = max(seconds, getattr(closable, "close_seconds", 0.0))
            with deadline(what, longest):
                closable.close()
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            failed = problem
            if not isinstance(failed, RlcoreError):
                failed = failure(what, "to close", problem, kind)
            if error is None and isinstance(failed.__cause__, SystemExit):
                raise failed from failed.__cause__
            level = logging.WARNING if error is None else logging.DEBUG
            log.log(level, "%s", failed)

    stack.push(close)


@contextmanager
def closing(
    closable: Any,
    what: str,
    kind: type[RlcoreError],
    seconds: float = CLOSE_ENVIRONMENT,
    deadline: CloseDeadline = no_deadline,
) -> Iterator[None]:
    """Close ``closable`` after the block, as :func:`close_at_exit` says."""
    with ExitStack() as stack:
        close_at_exit(stack, closable, what, kind, seconds, deadline)
        yield
