"""Restores a run from a checkpoint, in one order, which :func:`restore` and :func:`restore_state` show.

1. The checkpoint is read by rank 0; each rank gets what it saved.
2. Parts of the boundaries load their state, in the order of :mod:`rlcore.run.boundaries`.
3. Trainers and statistics of the behaviors do, and then which behaviors act.
4. The environment does; one that cannot starts the episodes it was in again, with equal seeds and parameters.
5. Generators of the process are set last: what was restored may have drawn from them.
6. Plugins get their sections of the status.
7. What is due is set: summaries, checkpoints, and what an abandoned evaluation left.

In a run with other environments, agents or ranks, 2 and 3 restore what was learned, and new episodes start. A new run
may begin with weights and lessons of other runs, and one under ``--inference`` loads policies alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.config.reading import in_collection
from rlcore.contracts.environment import Environment, SavesState
from rlcore.contracts.ranks import Ranks
from rlcore.contracts.saved_values import loading_state, saved_mapping
from rlcore.contracts.seeding import ProcessGenerators
from rlcore.contracts.trainer import PortableTrainer
from rlcore.errors import ConfigError, EnvironmentFailed, RunStateError
from rlcore.plugins.failures import blamed
from rlcore.plugins.known import PACKAGES
from rlcore.run.behaviors.behavior import TrainedBehavior, trainer_named
from rlcore.run.prepare import Preparation, plugin_files
from rlcore.run.saved.data import status_of_run
from rlcore.run.state import LOST, TrainingState
from rlcore.run.training import Training
from rlcore.settings.blocks import AUTO
from rlcore.storage.checkpoint_state import ENTRY as SPECS
from rlcore.storage.checkpoint_state import model_of
from rlcore.storage.checkpoints import models_at
from rlcore.storage.fingerprint import ANOTHER_CONFIGURATION

log = logging.getLogger(__name__)


def saved_state(run: Preparation, ranks: Ranks) -> dict[str, Any] | None:
    """The state of the checkpoint to continue from, as this rank saved it. Rank 0 reads the file."""
    settings = run.directory.settings
    store = run.store
    ranks.wait_for_all("opening the run directory")
    if not ranks.share(settings.resume or settings.inference):
        return None
    read = store.newest_state() if ranks.rank == 0 else None
    saved = ranks.load_state(read)
    if saved is not None and ranks.rank:
        store.saved_step = sum(saved["run"]["steps"].values())
    return saved


def restore(training: Training, saved: Mapping[str, Any] | None) -> None:
    """Restore the training from ``saved``, the state of a checkpoint; if it is None, start the first episodes."""
    run = training.run
    state = training.state
    if saved is None:
        _load_from_other_runs(training)
        state.begin_episodes(0)
    elif training.context.inference:
        load_policies(state, saved, run.directory.path)
        run.store.restore_status(training.context)
        state.begin_episodes(0)
    else:
        _resume(training, saved)
    for behavior in state.behaviors.values():
        behavior.set_boundaries()
    overdue = training.evaluations.overdue or {}
    for name, summary in overdue.items():
        state.behaviors[name].make_due(summary)
    training.nothing_left = training.resumed_from is not None and training.finished
    if not training.nothing_left:
        for part in state.parts:
            part.begin(state.steps)
    run.directory.begin(training.nothing_left, plugin_files(training.context))
    if saved is None:
        run.store.write_configuration()


def _resume(training: Training, saved: Mapping[str, Any]) -> None:
    """Continue the run that saved the state ``saved``."""
    run = training.run
    context = training.context
    ranks = context.ranks
    state = training.state
    others = ranks.other_number(saved)
    by = "by"
    # All ranks exchange what they found, and take the first: one of them alone may have other agents.
    for places in ranks.all_gather(other_places(state, saved)):
        if others is None and places is not None:
            others = places
            by = "with"
    if others is None:
        restore_state(state, saved, run.directory.path)
    else:
        then, now = others
        restore_state(state, saved, run.directory.path, f"{by} {then}")
        log.warning(
            "the checkpoint was saved %s %s and is resumed %s %s: weights, optimizers, counters and lessons "
            "continue, open episodes, rollouts and replay buffers start empty; the run is not equal to one that "
            "was never stopped",
            by,
            then,
            by,
            now,
        )
    training.session.seconds_before = float(saved["run"]["wall_seconds"])
    run.store.restore_status(context)
    training.evaluations.overdue = saved["run"].get("overdue")
    training.resumed_from = run.directory.checkpoints / str(run.store.saved_step)
    run.configure(context, state.behaviors.values())
    training.differences = _differences(training, saved)
    if others is not None:
        then, now = others
        training.differences += (f"{now} instead of {then}",)


def restore_state(run: TrainingState, saved: Mapping[str, Any], where: Path, saved_with: str | None = None) -> None:
    """Restore what :meth:`TrainingState.capture` saved. ``where`` is the run directory, for messages.

    With ``saved_with``, such as ``with 3 agents of 'Walk'``, the checkpoint is of a run with other environments,
    agents or ranks: what belongs to these is not restored, and new episodes start. ``run.episodes`` of ``saved``
    are the numbers of episodes then, or that of the latest.
    """
    state = saved["run"]
    portable = saved_with is not None
    method = "load_learned" if portable else "load_state_dict"
    step = sum(state["steps"].values())
    checkpoint = f"checkpoint {where / 'checkpoints' / str(step)}"
    _require_alike("behaviors", state["behaviors"], run.behaviors, where)
    parameters = () if run.curricula is None else run.curricula.parameters
    _require_alike("environment_parameters", _saved_parameters(state), parameters, where)
    for name, behavior in run.behaviors.items():
        _require_sections(saved[name], behavior, where)
        if portable and (run.environment is None or not isinstance(behavior.trainer, PortableTrainer)):
            raise RunStateError(
                f"{where}: was saved {saved_with}, and trainer {behavior.settings.trainer_type!r} cannot continue "
                "with another number; resume with as many"
            )
    for part in run.parts_with("load_state_dict"):
        of_part = state.get(part.name)
        if of_part is not None:
            with loading_state(checkpoint, part.described):
                getattr(part, method)(of_part)
    for name, behavior in run.behaviors.items():
        of_behavior = state["behaviors"][name]
        _load_into_trainer(behavior, method, saved[name], checkpoint)
        with loading_state(checkpoint, f"behavior {name!r}"):
            if portable:
                behavior.load_without_slots(of_behavior)
            else:
                behavior.load_state_dict(of_behavior)
    if portable:
        latest = int(np.max(state["episodes"], initial=0))
        run.begin_episodes(latest + 1)  # no episode that the checkpoint had begun is played twice
        return
    if run.acting is not None:
        with loading_state(checkpoint, "acting"):
            run.acting.load_state_dict(saved_mapping(state, "acting"))
    if state[LOST]:
        run.begin_episodes(np.asarray(state["episodes"]) + 1)
        return
    if run.environment is not None:
        _restore_environment(run, run.environment, state, checkpoint)
    with loading_state(checkpoint, "generators"):
        ProcessGenerators.load_state_dict(state["generators"])


def _restore_environment(
    run: TrainingState, environment: Environment, state: Mapping[str, Any], checkpoint: str
) -> None:
    curricula = run.curricula
    if isinstance(environment, SavesState) and state["environment"] is not None:
        doing = "load_state_dict"
        owner = run.environment_name.rstrip(",")  # a name with an id ends in a comma
        with blamed(owner, "in load_state_dict", EnvironmentFailed), loading_state(checkpoint, owner):
            batches = environment.load_state_dict(state["environment"])
    else:
        doing = "reset"
        if curricula is not None:
            curricula.replay()
        episodes = np.asarray(state["episodes"])
        with blamed(run.environment_name, "in reset", EnvironmentFailed):
            batches = run.reset(environment, episodes)
    if curricula is not None:
        run.context.ranks.episodes_of_all(environment.episodes)
        curricula.resume()
    for behavior in run.behaviors.values():
        _, behavior.batch = run.first_batch(behavior, batches, doing)


def other_places(run: TrainingState, saved: Mapping[str, Any]) -> tuple[str, str] | None:
    """How many environments and agents a checkpoint has, and how many there are here; None if they are the same.

    Both are in words. Agents that come and go are counted at each start, and a scene may have been built again.
    """
    state = saved["run"]
    environment = run.environment
    if environment is None or state["episodes"] is None:  # recorded data has no places
        return None
    then = np.size(state["episodes"])
    now = environment.num_envs
    if then != now:
        return f"environment.num_envs {then}", f"{now}"
    for name, behavior in run.behaviors.items():
        places = state[SPECS].get(name)
        if places is None:
            continue
        spec = behavior.spec
        count = len(places["env_index"])
        if count != spec.slots:
            return f"{count} agents of {name!r}", f"{spec.slots}"
        for what in ("env_index", "team", "group"):
            column = getattr(spec, what)  # [S], or None, as in the checkpoint
            if not np.array_equal(places.get(what), column):
                kind = what.removesuffix("_index")
                return f"other {kind}s of the agents of {name!r}", "those of this environment"
    return None


def _saved_parameters(state: Mapping[str, Any]) -> list[str]:
    """The names of the environment parameters of the run that saved ``state``."""
    saved = state.get("curricula")
    names: list[str] = []
    if saved is not None:
        for curriculum in saved["curricula"].values():
            names += curriculum["parameters"]
    return names


def _require_sections(saved: Mapping[str, Any], behavior: TrainedBehavior, where: Path) -> None:
    """Raise RunStateError for the entry of a block, such as ``self_play``, that the behavior does not have any more.

    The trainer inside may have another number of slots, and its own message would be about that.
    """
    for key in saved:
        if ("behavior", key) in PACKAGES and key not in behavior.settings.sections:
            raise RunStateError(
                f"{where}: behavior {behavior.spec.name!r} learned with {key}, this configuration has no such block; "
                "resume with the block of the run, or start a new run with initialize_from"
            )


def _differences(training: Training, saved: Mapping[str, Any]) -> tuple[str, ...]:
    """The differences from the checkpoint, in words; one warning says this, and what it does to the promise."""
    state = saved["run"]
    store = training.run.store
    path = training.run.directory.path
    differences = store.differences(saved)
    if isinstance(training.state.environment, SavesState) and state["environment"] is None:
        if state[LOST]:
            difference = "new episodes, because the environment had ended or failed when the checkpoint was saved"
        else:
            difference = "an environment that saves its state, instead of one that begins new episodes"
        differences.append(difference)
    then = {name for name in state if "/" in name}  # of plugins; no other entry has a slash
    now = {part.name for part in training.state.parts_with("state_dict") if "/" in part.name}
    differences += [f"no part {name}" for name in sorted(then - now)]
    differences += [f"a new part {name}" for name in sorted(now - then)]
    changed = [difference for difference in differences if difference.startswith(ANOTHER_CONFIGURATION)]
    if changed and training.context.config.checkpoint_settings.resume == AUTO:
        raise ConfigError(
            f"{path}: resumes with {changed[0]}; --resume continues with it, and --resume auto only with the same "
            "configuration"
        )
    # Changes of the configuration alone are reported when the run has started.
    if changed != differences:
        promise = training.promise.kind
        after = training.promise.after(tuple(differences)).kind
        weakened = after if after == promise else f"{after} instead of {promise}"
        log.warning("%s: resumes with %s; this resume is %s", path, ", ".join(differences), weakened)
    others = store.other_plugins(saved)
    if others:
        harmless = "nothing that is learned depends on that"
        log.warning("%s: resumes with %s; %s", path, ", ".join(others), harmless)
    return tuple(differences)


def _require_alike(what: str, saved: Iterable[str], here: Iterable[str], where: Path) -> None:
    """Raise RunStateError unless a checkpoint of the run in ``where`` has the same names of ``what`` as this run."""
    then = ", ".join(sorted(saved)) or "none"
    now = ", ".join(sorted(here)) or "none"
    if then != now:
        raise RunStateError(
            f"{where}: {what}: the checkpoint has {then}, this configuration {now}; resume with the configuration of "
            "the run"
        )


def _load_into_trainer(behavior: TrainedBehavior, method: str, state: Any, origin: str) -> None:
    """Call ``method`` of the trainer with ``state``; errors name the trainer and the ``origin`` of the state."""
    trainer = trainer_named(behavior)
    with blamed(trainer, f"in {method}"), loading_state(origin, trainer):
        getattr(behavior.trainer, method)(state)


# ---------------------------------------------------------------- a new run, and one that only acts


def _load_from_other_runs(training: Training) -> None:
    """Load the weights and lessons that a new run starts with."""
    config = training.context.config
    directory = training.run.directory
    state = training.state
    run_id = config.checkpoint_settings.initialize_from
    origin = f"checkpoint_settings.initialize_from {run_id!r}"
    models = None
    if run_id is not None:
        agent = in_collection(Path(run_id), "agents")
        models = models_at(agent or directory.path.parent / run_id, origin)
    _load_models(state, models, origin)
    other = config.checkpoint_settings.initialize_lessons_from
    if other is None or state.curricula is None:
        return
    origin = f"checkpoint_settings.initialize_lessons_from {other!r}"
    status = status_of_run(directory, training.run.plugins, other, origin)
    loaded = state.curricula.load_status(status)
    if loaded:
        lessons = ", ".join(f"{name} {number:g}" for name, number in loaded.items())
        log.info("%s: begins with the lessons %s, counted from 0", origin, lessons)
    else:
        names = ", ".join(config.environment_parameters)
        log.warning("%s: its status has no lesson of %s; all begin with their first", origin, names)


def _load_models(run: TrainingState, models: Mapping[str, Any] | None, origin: str) -> None:
    """Load weights from a behavior's ``init_path``, else from ``models`` of ``origin``, if there are any."""
    for name, behavior in run.behaviors.items():
        path = behavior.settings.init_path
        source = origin
        models_of_source = models
        if path is not None:
            source = f"behaviors.{name}.init_path {path!r}"
            models_of_source = models_at(run.context.absolute(path), source)
        if models_of_source is not None:
            model = model_of(models_of_source, name, source)
            _load_into_trainer(behavior, "load_model", model, source)


def load_policies(run: TrainingState, saved: Mapping[str, Any], where: Path) -> None:
    """Load what acting needs from a checkpoint; the environments, and how many there are, may differ."""
    checkpoint = f"checkpoint in {where}"
    state = saved["run"]
    if run.curricula is not None and state.get("curricula") is not None:
        with loading_state(checkpoint, "environment_parameters"):
            run.curricula.load_learned(state["curricula"])
    _require_alike("behaviors", state["behaviors"], run.behaviors, where)
    for name, behavior in run.behaviors.items():
        _load_into_trainer(behavior, "load_model", saved[name]["model"], checkpoint)
        behavior.policy_steps = int(state["steps"][name])
