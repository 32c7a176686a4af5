"""Makes a training, new or resumed, from a prepared run: all that is created, restored and reported at the start."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any

from rlcore.config.load import located
from rlcore.config.presets import misfits
from rlcore.contracts.policy import read_by
from rlcore.contracts.ranks import Ranks
from rlcore.contracts.seeding import ProcessGenerators
from rlcore.errors import ConfigError, EnvironmentFailed, PluginError
from rlcore.plugins.context import RunContext
from rlcore.plugins.installing import or_turn_on
from rlcore.plugins.known import RANKS
from rlcore.run.boundaries import Boundaries
from rlcore.run.components import CLOSE_ENVIRONMENT, CLOSE_WRITER, close_at_exit, make_state
from rlcore.run.environments import kept_open
from rlcore.run.evaluation.evaluate import Evaluator
from rlcore.run.evaluation.evaluations import Evaluations
from rlcore.run.exports import Exports
from rlcore.run.prepare import Preparation, plugin_files, run_context, with_seed
from rlcore.run.resume import restore, saved_state
from rlcore.run.session import Notifications, Session
from rlcore.run.summaries import OpenWriter, make_writers
from rlcore.run.training import Training, outcome_of
from rlcore.storage.fingerprint import described

log = logging.getLogger(__name__)


def assemble(run: Preparation) -> Training:
    """Join the ranks, create the run directory, environment, trainers and writers, and restore a resumed run.

    An error closes what was opened.
    """
    with located(run.document):
        ranks = _join_ranks(run)
    try:
        return _assembled(run, ranks)
    except BaseException as error:
        ranks.close(error)
        raise


def _join_ranks(run: Preparation) -> Ranks:
    """Meet the other ranks of the run, if there are some. Raises RanksFailed if one of them does not come."""
    launch = run.launch
    if launch is None or launch.size == 1:
        return Ranks()
    ranks = run.plugins.create_ranks(launch, run.config, run.stops)
    if ranks is None:
        advice = or_turn_on(*RANKS)
        raise ConfigError(f"torchrun started {launch.size} ranks, and no plugin exchanges between them; {advice}")
    return ranks


def _assembled(run: Preparation, ranks: Ranks) -> Training:
    """Environments are closed last: the process may be ended because one hangs, and the directory must be in order."""
    with ExitStack() as opened:
        environments = opened.enter_context(ExitStack())
        run.directory.open(lambda: run.stops.first is not None)
        opened.callback(run.directory.close)
        with located(run.document):
            saved = saved_state(run, ranks)
            training = _create(run, ranks, saved, environments)
            restore(training, saved)
        with ProcessGenerators.kept():  # a resumed run starts twice: what plugins draw at a start must change nothing
            _open_outputs(training, opened)
            _report_start(training)
        training.opened = opened.pop_all()
    return training


def _open_outputs(training: Training, opened: ExitStack) -> None:
    """Create exporters and writers; ``opened`` closes the writers."""
    run = training.run
    context = training.context
    boundaries = training.boundaries
    writers: list[OpenWriter] = []
    with located(run.document):
        if context.config.export:
            boundaries.exports.open()
        if not training.nothing_left:
            writers = make_writers(context.config, run.plugins, context)
    boundaries.summaries.writers = writers
    for writer in reversed(writers):  # an exit stack closes what was added last first
        close_at_exit(opened, writer, writer.described, PluginError, CLOSE_WRITER, run.deadline)


def _create(run: Preparation, ranks: Ranks, saved: Mapping[str, Any] | None, environments: ExitStack) -> Training:
    """Create all but exporters and writers. The configuration of the training has the seed of the run."""
    plugins = run.plugins
    seed = run.directory.begun_seed if run.config.env_settings.seed < 0 else None
    resumed: dict[str, int] = {}
    if saved is not None:
        seed = int(saved["run"]["seed"])
        resumed = {name: int(steps) for name, steps in saved["run"]["steps"].items()}
    config = with_seed(run.config, seed, ranks)
    place = run.directory.path
    start = run.directory.working_directory

    def declare(context: RunContext) -> None:
        run.directory.declare_files(plugin_files(context))

    context = run_context(config, plugins, place, start, resumed, run.stops, ranks, declare)
    context.given = run.given
    if saved is not None:
        context.factories.require(saved["run"])
    context.held_checkpoints.changed = run.directory.write_holds  # for `rlcore checkpoints`
    plugins.check_config(config)
    notifications = Notifications(plugins, context)
    state = make_state(context, plugins, notifications.lesson_changed)
    for name, behavior in state.behaviors.items():
        for problem in misfits(run.document, plugins, behavior.spec):
            log.warning("%s: %s", name, problem)
    run.configure(context)  # now the plugins are known that took part

    def close(environment: Any, name: str) -> None:
        close_at_exit(environments, environment, name, EnvironmentFailed, CLOSE_ENVIRONMENT, run.deadline)

    if state.environment is not None and not kept_open(context):
        close(state.environment, state.environment_name)
    specs = {}  # evaluations need no observations that critics alone read
    for name, behavior in state.behaviors.items():
        specs[name] = read_by(behavior.trainer.policy, behavior.spec)
    evaluator = Evaluator(config, plugins, context, specs)
    close(evaluator, "the environment of evaluations")
    session = Session(run, context, state, notifications)
    settings = None if context.inference else config.evaluation
    evaluations = Evaluations(settings, evaluator, session)
    boundaries = Boundaries(session, evaluations, Exports(session))
    return Training(session, boundaries)


def _report_start(training: Training) -> None:
    """Report the start to plugins, and mark the run directory as started."""
    run = training.run
    context = training.context
    store = run.store
    for plugin in run.plugins.loaded:
        log.debug("plugin %s (%s %s): %s", plugin.name, plugin.distribution, plugin.version, plugin.because)
    try:
        if context.ranks.rank == 0:
            run.plugins.notify("rlcore_run_started", run=context)
        if not context.inference:
            run.directory.started()
        if training.resumed_from is not None and not training.nothing_left:
            changed = store.configuration_changes()
            if changed:
                log.info("%s: resumes with another configuration: %s", run.directory.path, described(changed))
            store.forget_result()
            store.write_configuration()
    except BaseException as error:  # plugins that got the start get the end too
        training.outcome = outcome_of(error)
        with suppress(Exception):
            training.report_end(error)
        raise
