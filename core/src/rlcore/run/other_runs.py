"""Inheritance from other runs: weights and lessons of a new run, and the policies that only act."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rlcore.contracts.saved_values import loading_state
from rlcore.errors import RunStateError
from rlcore.plugins.failures import blamed
from rlcore.run.behaviors.behavior import TrainedBehavior, trainer_named
from rlcore.run.saved.data import status_of_run
from rlcore.run.state import TrainingState
from rlcore.run.training import Training
from rlcore.storage.checkpoint_state import model_of
from rlcore.storage.checkpoints import models_at

log = logging.getLogger(__name__)


def load_from_other_runs(training: Training) -> None:
    """Load the weights and lessons that a new run starts with."""
    config = training.context.config
    directory = training.run.directory
    state = training.state
    run_id = config.checkpoint_settings.initialize_from
    origin = f"checkpoint_settings.initialize_from {run_id!r}"
    models = None
    if run_id is not None:
        models = models_at(directory.path.parent / run_id, origin)
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
            load_into_trainer(behavior, "load_model", model, source)


def load_policies(run: TrainingState, saved: Mapping[str, Any], where: Path) -> None:
    """Load what acting needs from a checkpoint; the environments, and how many there are, may differ."""
    checkpoint = f"checkpoint in {where}"
    state = saved["run"]
    if run.curricula is not None and state.get("curricula") is not None:
        with loading_state(checkpoint, "environment_parameters"):
            run.curricula.load_learned(state["curricula"])
    require_alike("behaviors", state["behaviors"], run.behaviors, where)
    for name, behavior in run.behaviors.items():
        load_into_trainer(behavior, "load_model", saved[name]["model"], checkpoint)
        behavior.policy_steps = int(state["steps"][name])


def require_alike(what: str, saved: Iterable[str], here: Iterable[str], where: Path) -> None:
    """Raise RunStateError unless a checkpoint of the run in ``where`` has the same names of ``what`` as this run."""
    then = ", ".join(sorted(saved)) or "none"
    now = ", ".join(sorted(here)) or "none"
    if then != now:
        raise RunStateError(
            f"{where}: {what}: the checkpoint has {then}, this configuration {now}; resume with the configuration of "
            "the run"
        )


def load_into_trainer(behavior: TrainedBehavior, method: str, state: Any, origin: str) -> None:
    """Call ``method`` of the trainer with ``state``; errors name the trainer and the ``origin`` of the state."""
    trainer = trainer_named(behavior)
    with blamed(trainer, f"in {method}"), loading_state(origin, trainer):
        getattr(behavior.trainer, method)(state)
