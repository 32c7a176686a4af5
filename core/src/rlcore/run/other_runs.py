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
    other = config.checkpoint_settings.initialize_lessons_from
    origin = f"checkpoint_settings.initialize_from {run_id!r}"
    _load_models(state, None if run_id is None else models_at(directory.path.parent / run_id, origin), origin)
    if other is not None and state.curricula is not None:
        origin = f"checkpoint_settings.initialize_lessons_from {other!r}"
        loaded = state.curricula.load_status(status_of_run(directory, training.run.plugins, other, origin))
        lessons = ", ".join(f"{name} {number:g}" for name, number in loaded.items())
        if loaded:
            log.info("%s: begins with the lessons %s, counted from 0", origin, lessons)
        else:
            names = ", ".join(config.environment_parameters)
            log.warning("%s: its status has no lesson of %s; all begin with their first", origin, names)


def _load_models(run: TrainingState, models: Mapping[str, Any] | None, origin: str) -> None:
    """Load weights from a behavior's ``init_path``, else from ``models`` of ``origin``, if there are any."""
    for name, behavior in run.behaviors.items():
        path = behavior.settings.init_path
        if path is not None:
            taken_from = f"behaviors.{name}.init_path {path!r}"
            model = model_of(models_at(run.context.absolute(path), taken_from), name, taken_from)
        elif models is not None:
            taken_from = origin
            model = model_of(models, name, origin)
        else:
            continue
        load_into_trainer(behavior, "load_model", model, taken_from)


def load_policies(run: TrainingState, saved: Mapping[str, Any], where: Path) -> None:
    """Load what acting needs from a checkpoint; the environments, and how many there are, may differ."""
    checkpoint = f"checkpoint in {where}"
    if run.curricula is not None and saved["run"].get("curricula") is not None:
        with loading_state(checkpoint, "environment_parameters"):
            run.curricula.load_learned(saved["run"]["curricula"])
    require_alike(run, saved["run"], where, "behaviors")
    for name, behavior in run.behaviors.items():
        load_into_trainer(behavior, "load_model", saved[name]["model"], checkpoint)
        behavior.policy_steps = int(saved["run"]["steps"][name])


def require_alike(run: TrainingState, state: Mapping[str, Any], where: Path, *what: str) -> None:
    """Raise RunStateError unless the run of a checkpoint and this one have the same ``what``."""
    then = state.get("curricula")
    curricula = run.curricula
    names = [] if then is None else [name for each in then["curricula"].values() for name in each["parameters"]]
    found: dict[str, tuple[Iterable[Any], Iterable[Any]]] = {
        "behaviors": (state["behaviors"], run.behaviors),
        "environment_parameters": (names, () if curricula is None else curricula.parameters),
    }
    for each in what:
        saved, here = (", ".join(map(str, sorted(values))) or "none" for values in found[each])
        if saved != here:
            raise RunStateError(
                f"{where}: {each}: the checkpoint has {saved}, this configuration {here}; resume with the "
                "configuration of the run"
            )


def load_into_trainer(behavior: TrainedBehavior, method: str, state: Any, origin: str) -> None:
    """Call ``method`` of the trainer with ``state``; errors name the trainer and the ``origin`` of the state."""
    with blamed(trainer_named(behavior), f"in {method}"), loading_state(origin, trainer_named(behavior)):
        getattr(behavior.trainer, method)(state)
