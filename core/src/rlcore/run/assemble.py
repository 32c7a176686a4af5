"""Makes a training, new or resumed, from a prepared run: all that is created, restored and reported at the start."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any

import attrs

from rlcore.config.load import located
from rlcore.contracts.environment import SavesState
from rlcore.contracts.policy import read_by
from rlcore.contracts.process_generators import ProcessGenerators
from rlcore.contracts.ranks import Ranks
from rlcore.errors import ConfigError, EnvironmentFailed, PluginError
from rlcore.plugins.installing import or_turn_on
from rlcore.plugins.known import RANKS
from rlcore.run.boundaries import Boundaries
from rlcore.run.components import CLOSE_ENVIRONMENT, CLOSE_WRITER, close_at_exit, kept_open, make_state, make_writers
from rlcore.run.evaluation.evaluate import Evaluator
from rlcore.run.evaluation.evaluations import Evaluations
from rlcore.run.export import Exports
from rlcore.run.prepare import PreparedRun, plugin_files, run_context, with_seed
from rlcore.run.saved.data import status_of_run
from rlcore.run.session import Notifications, Session
from rlcore.run.state import LOST
from rlcore.run.training import Training, outcome_of
from rlcore.storage.checkpoints import models_at
from rlcore.storage.fingerprint import ANOTHER_CONFIGURATION, described

log = logging.getLogger(__name__)


def assemble(run: PreparedRun) -> Training:
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


def _join_ranks(run: PreparedRun) -> Ranks:
    """Meet the other ranks of the run, if there are some. Raises RanksFailed if one of them does not come."""
    launch = run.launch
    if launch is None or launch.size == 1:
        return Ranks()
    ranks = run.plugins.create_ranks(launch, run.config, run.stops)
    if ranks is None:
        advice = or_turn_on(*RANKS)
        raise ConfigError(f"torchrun started {launch.size} ranks, and no plugin exchanges between them; {advice}")
    return ranks


def _assembled(run: PreparedRun, ranks: Ranks) -> Training:
    """Environments are closed last: the process may be ended because one hangs, and the directory must be in order."""
    training: Training | None = None

    def close_directory() -> None:
        run.directory.close([] if training is None else plugin_files(training.context, training.behaviors))

    with ExitStack() as opened:
        environments = opened.enter_context(ExitStack())
        run.directory.open()
        opened.callback(close_directory)
        with located(run.document):
            saved = _saved_state(run, ranks)
            training = _create(run, ranks, saved, environments)
            _restore(training, saved)
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
    with located(run.document):
        if run.config.export:
            boundaries.exports.open()
        writers = [] if training.nothing_left else make_writers(run.config, run.plugins, context)
    boundaries.summaries.writers = writers
    for writer in reversed(writers):
        close_at_exit(opened, writer, writer.described, PluginError, CLOSE_WRITER, run.deadline)


def _saved_state(run: PreparedRun, ranks: Ranks) -> dict[str, Any] | None:
    """The state of the checkpoint to continue from, as this rank saved it. Rank 0 reads the file."""
    settings = run.config.checkpoint_settings
    store = run.store
    if not ranks.share(settings.resume or settings.inference):
        return None
    read = store.newest_state() if ranks.rank == 0 else None
    saved = ranks.load_state(read)
    if saved is not None and ranks.rank:
        store.saved_step = sum(saved["run"]["steps"].values())
    return saved


def _create(run: PreparedRun, ranks: Ranks, saved: Mapping[str, Any] | None, environments: ExitStack) -> Training:
    """Create all but exporters and writers. The configuration of ``run`` has the seed of the run from here on."""
    plugins = run.plugins
    config = with_seed(run.config, None if saved is None else int(saved["run"]["seed"]))
    seed = ranks.share(config.env_settings.seed)
    config = run.config = attrs.evolve(config, env_settings=attrs.evolve(config.env_settings, seed=seed))
    resumed = {} if saved is None else {name: int(steps) for name, steps in saved["run"]["steps"].items()}
    place = run.directory.path
    start = run.directory.working_directory
    context = run_context(config, plugins, place, start, resumed, run.stops, ranks)
    context.given = run.given
    if saved is not None:
        context.factories.require(saved["run"])
    context.held_checkpoints.changed = run.directory.write_holds
    plugins.check_config(config)
    notifications = Notifications(plugins, context)
    state = make_state(context, plugins, notifications.lesson_changed)
    run.configure(context)  # now the plugins are known that took part

    def close(environment: Any, name: str) -> None:
        close_at_exit(environments, environment, name, EnvironmentFailed, CLOSE_ENVIRONMENT, run.deadline)

    if state.environment is not None and not kept_open(context):
        close(state.environment, state.environment_name)
    specs = {name: read_by(behavior.trainer.policy, behavior.spec) for name, behavior in state.behaviors.items()}
    evaluator = Evaluator(config, plugins, context, specs)
    close(evaluator, "the environment of evaluations")
    settings = None if context.inference else config.evaluation
    session = Session(run, context, state, notifications)
    return Training(session, Boundaries(session, Evaluations(settings, evaluator, session), Exports(session)))


def _restore(training: Training, saved: Mapping[str, Any] | None) -> None:
    """Restore the training from ``saved``, the state of a checkpoint; if it is None, start the first episodes."""
    run = training.run
    context = training.context
    state = training.state
    evaluations = training.evaluations
    directory = run.directory
    store = run.store
    ranks = training.context.ranks
    if saved is None:
        _load_from_other_runs(training)
        state.begin_episodes(0)
    elif context.inference:
        state.load_policies(saved, directory.path)
        store.restore_status(context)
        state.begin_episodes(0)
    else:
        places = next(filter(None, ranks.all_gather(state.other_places(saved))), None)
        others = ranks.other_number(saved) or places
        by = "with" if others is places else "by"
        if others is not None:
            then, now = others
            state.restore(saved, directory.path, f"{by} {then}")
            log.warning(
                "the checkpoint was saved %s %s and is resumed %s %s: weights, optimizers, counters and lessons "
                "continue, open episodes, rollouts and replay buffers start empty; the run is not equal to one that "
                "was never stopped",
                by,
                then,
                by,
                now,
            )
        else:
            state.restore(saved, directory.path)
        training.session.seconds_before = float(saved["run"]["wall_seconds"])
        store.restore_status(context)
        evaluations.overdue = saved["run"].get("overdue")
        training.resumed_from = directory.checkpoints / str(store.saved_step)
        run.configure(context, state.behaviors.values())
        training.differences = _differences(training, saved)
        if others is not None:
            training.differences += (f"{others[1]} instead of {others[0]}",)
    for behavior in state.behaviors.values():
        behavior.set_boundaries()
    for name, summary in (evaluations.overdue or {}).items():
        state.behaviors[name].make_due(summary)
    training.nothing_left = training.resumed_from is not None and training.finished
    for part in () if training.nothing_left else state.parts:
        part.begin(state.steps)
    directory.begin(training.nothing_left)
    if saved is None:
        store.write_configuration()


def _differences(training: Training, saved: Mapping[str, Any]) -> tuple[str, ...]:
    """The differences from the checkpoint, in words; one warning says this, and what it does to the promise."""
    found = training.run.store.differences(saved)
    if isinstance(training.state.environment, SavesState) and saved["run"]["environment"] is None:
        lost = saved["run"][LOST]
        found.append(
            "new episodes, because the environment had ended or failed when the checkpoint was saved"
            if lost
            else "an environment that saves its state, instead of one that begins new episodes"
        )
    then = {name for name in saved["run"] if "/" in name}  # of plugins; no other entry has a slash
    now = {part.name for part in training.state.parts_with("state_dict") if "/" in part.name}
    found += [f"no part {name}" for name in sorted(then - now)] + [f"a new part {name}" for name in sorted(now - then)]
    # Changes of the configuration alone are reported when the run has started.
    if any(not each.startswith(ANOTHER_CONFIGURATION) for each in found):
        promise = training.promise.kind
        after = training.promise.after(tuple(found)).kind
        weakened = after if after == promise else f"{after} instead of {promise}"
        path = training.run.directory.path
        log.warning("%s: resumes with %s; this resume is %s", path, ", ".join(found), weakened)
    if others := training.run.store.other_plugins(saved):
        what = "nothing that is learned depends on that"
        log.warning("%s: resumes with %s; %s", training.run.directory.path, ", ".join(others), what)
    return tuple(found)


def _load_from_other_runs(training: Training) -> None:
    """Load the weights and lessons that a new run starts with."""
    config = training.run.config
    directory = training.run.directory
    state = training.state
    run_id = config.checkpoint_settings.initialize_from
    other = config.checkpoint_settings.initialize_lessons_from
    origin = f"checkpoint_settings.initialize_from {run_id!r}"
    state.load_models(None if run_id is None else models_at(directory.path.parent / run_id, origin), origin)
    if other is not None and state.curricula is not None:
        origin = f"checkpoint_settings.initialize_lessons_from {other!r}"
        loaded = state.curricula.load_status(status_of_run(directory, training.run.plugins, other, origin))
        lessons = ", ".join(f"{name} {number:g}" for name, number in loaded.items())
        if loaded:
            log.info("%s: begins with the lessons %s, counted from 0", origin, lessons)
        else:
            names = ", ".join(config.environment_parameters)
            log.warning("%s: its status has no lesson of %s; all begin with their first", origin, names)


def _report_start(training: Training) -> None:
    """Report the start to plugins, and mark the run directory as started."""
    run = training.run
    context = training.context
    for plugin in run.plugins.loaded:
        log.debug("plugin %s (%s %s): %s", plugin.name, plugin.distribution, plugin.version, plugin.because)
    try:
        if context.ranks.rank == 0:
            run.plugins.notify("rlcore_run_started", run=context)
        if not context.inference:
            run.directory.started(plugin_files(context, training.behaviors))
        if training.resumed_from is not None and not training.nothing_left:
            changed = run.store.configuration_changes()
            if changed:
                log.info("%s: resumes with another configuration: %s", run.directory.path, described(changed))
            run.store.forget_result()
            run.store.write_configuration()
    except BaseException as error:  # plugins that got the start get the end too
        with suppress(Exception):
            if context.ranks.rank == 0:
                outcome = outcome_of(error)
                results = training.state.results()
                run.plugins.notify("rlcore_run_finished", run=context, outcome=outcome, error=error, results=results)
        raise
