"""The entries in the state of a checkpoint: checks before they are used, what agents see and do, and models.

The manifest's checksums find damage. The checks find what checksums cannot: a checkpoint that other software wrote, one
that was edited by hand, or one of a training that had diverged. :meth:`rlcore.run.state.TrainingState.capture` makes
the state. It describes the behaviors of a run, so that a policy can be read and used where there is no environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationKind, ObservationSpec
from rlcore.contracts.saved_values import (
    COUNT,
    EACH,
    FINITE,
    FLAG,
    LINE,
    MAPPING,
    NUMBER,
    TEXT,
    Kind,
    SavedValueError,
    require_form,
    saved_array,
    saved_mapping,
)
from rlcore.contracts.states import non_finite
from rlcore.errors import RunStateError
from rlcore.plugins.factories import FACTORIES, FACTORY_FIELDS

RUN = "run"  # the entry of the run itself; every other entry belongs to a behavior's trainer

PROMISE = {"promise": LINE, "reasons": [LINE], "notes": [LINE]}
SCORES = {"score?": FINITE, "step?": COUNT, "best_score?": FINITE, "best_step?": COUNT}
_PLUGINS = {FACTORIES: [dict.fromkeys(FACTORY_FIELDS, TEXT)]}
_STEPS = {"seed": COUNT, "steps": {EACH: COUNT}}
_FINGERPRINT = {
    **{name: {EACH: TEXT} for name in ("libraries", "environment", "plugins", "loaded", "computing", "processes")},
    "configuration": {"sha256": TEXT},
}
# The entry of the run in a checkpoint from which a run resumes.
_RESUMED = {
    **_STEPS,
    **_PLUGINS,
    "behaviors": {EACH: {"recent": [NUMBER], "recent_updates": MAPPING, "recent_info": MAPPING}},
    "specs": MAPPING,
    "overdue?": {EACH: Kind("null or a whole number from 0 up", lambda value: value is None or COUNT.fits(value))},
    "fingerprint": _FINGERPRINT,
    "resume": PROMISE,
    "sections": MAPPING,
    "wall_seconds": FINITE,
    "environment?": MAPPING,
    "environment_lost": FLAG,
    "generators": MAPPING,
    "curricula?": MAPPING,
    "evaluation?": SCORES,
}


def require_models(path: Path, state: Mapping[str, Any]) -> None:
    """Raises RunStateError unless the checkpoint at ``path`` has a seed, steps, and a finite model of each behavior."""
    try:
        require_form(state, {RUN: {**_STEPS, **_PLUGINS}})
        for name in state.keys() - {RUN}:
            require_form(state[name], {"model": MAPPING}, name)
            _require_finite(name, state[name])
    except SavedValueError as error:
        raise RunStateError(f"checkpoint {path}: cannot be used: {error}") from error


def require_run(path: Path, state: Mapping[str, Any]) -> None:
    """Raises RunStateError unless a run can resume from the checkpoint at ``path``; ``state`` may lack its arrays."""
    try:
        require_form(state, {RUN: _RESUMED, EACH: MAPPING})
        run = state[RUN]
        behaviors = run["steps"].keys()
        if behaviors != run["behaviors"].keys() or behaviors != state.keys() - {RUN}:
            raise SavedValueError("the entries 'steps' and 'behaviors' do not name the behaviors that have a state")
        for name in behaviors:
            _require_finite(name, state[name])
        overdue = run.get("overdue") or {}
        for name in overdue.keys() - behaviors:
            raise SavedValueError(f"the entry 'overdue' names {name[:60]!r}, which is not a behavior")
        if run.get("evaluation") is not None:
            require_scores(run["evaluation"])
        if not isinstance(run.get("episodes"), Mapping | None):  # a mark stands for the array where arrays are not read
            saved_array(run, "episodes", "int64", (None,))
    except SavedValueError as error:
        raise RunStateError(f"checkpoint {path}: cannot be used: {error}") from error


def require_scores(scores: Mapping[str, Any]) -> None:
    """Raises SavedValueError unless these are the scores of a run's evaluations."""
    require_form(scores, SCORES, "evaluation")
    names = [key.removesuffix("?") for key in SCORES]
    missing = {scores.get(name) is None for name in names}
    if len(missing) > 1:
        raise SavedValueError(f"the entry 'evaluation' has only some of {', '.join(names)}")


def _require_finite(behavior: str, state: Mapping[str, Any]) -> None:
    place = non_finite(state)
    if place is not None:
        raise SavedValueError(f"{behavior}/{place} is not finite; the training had diverged")


# ---------------------------------------------------------------- what agents see and do


ENTRY = "specs"  # in the entry of the run


def spec_state(spec: BehaviorSpec) -> dict[str, Any]:
    """The behavior as nested mappings of arrays and JSON values."""
    observations = []
    bounds: dict[str, Any] = {}
    for index, observation in enumerate(spec.observations):
        entry: dict[str, Any] = {
            "name": observation.name,
            "shape": list(observation.shape),
            "dtype": observation.dtype.name,
            "kind": observation.kind,
        }
        if observation.goal:
            entry["goal"] = True
        observations.append(entry)
        bounds[f"{index}"] = {}
        for end in ("low", "high"):
            bound = getattr(observation, end)
            if bound is not None:
                bounds[f"{index}"][end] = np.asarray(bound)
    state: dict[str, Any] = {
        "observations": observations,
        "bounds": bounds,
        "continuous": spec.continuous,
        "discrete": list(spec.discrete),
    }
    if spec.start:
        state["start"] = list(spec.start)
    for name in ("low", "high", "env_index", "team", "group"):
        array = getattr(spec, name)
        if array is not None:
            state[name] = array.copy()
    return state


_OBSERVATION = {
    "name": TEXT,
    "shape": [COUNT],
    "dtype": TEXT,
    "kind": Kind("a kind of observation", lambda value: value in get_args(ObservationKind)),
}
_SPEC = {
    "observations": [_OBSERVATION],
    "bounds": {EACH: MAPPING},
    "continuous": COUNT,
    "discrete": [Kind("a number of options", lambda value: COUNT.fits(value) and value > 0)],
}


def saved_spec(name: str, state: Mapping[str, Any]) -> BehaviorSpec:
    """The behavior ``name`` that :func:`spec_state` described. Raises SavedValueError for what it does not write."""
    require_form(state, _SPEC)
    observations = []
    for index, entry in enumerate(state["observations"]):
        bounds = saved_mapping(state["bounds"], f"{index}")
        observation = ObservationSpec(
            entry["name"],
            tuple(entry["shape"]),
            np.dtype(entry["dtype"]),
            cast(ObservationKind, entry["kind"]),
            low=bounds.get("low"),
            high=bounds.get("high"),
            goal=entry.get("goal") is True,
        )
        observations.append(observation)
    env_index = saved_array(state, "env_index", np.int64, (None,))
    continuous = state["continuous"]
    low = saved_array(state, "low", np.float32, (continuous,))
    high = saved_array(state, "high", np.float32, (continuous,))
    team = saved_array(state, "team", np.int64, env_index.shape) if "team" in state else None
    group = saved_array(state, "group", np.int64, env_index.shape) if "group" in state else None
    start = state.get("start", [])
    discrete = state["discrete"]
    are_whole = isinstance(start, list) and all(type(number) is int for number in start)
    if not are_whole or len(start) not in (0, len(discrete)):
        raise SavedValueError("the entry 'start' does not have a whole number for each branch")
    return BehaviorSpec(
        name,
        tuple(observations),
        continuous,
        tuple(discrete),
        low,
        high,
        env_index,
        team,
        group,
        start=tuple(start),
    )


def specs_in(run: Mapping[str, Any], path: object) -> dict[str, BehaviorSpec]:
    """The behaviors in the entry ``run`` of the checkpoint ``path``. Raises RunStateError if it has none."""
    try:
        specs = saved_mapping(run, ENTRY)
        return {name: saved_spec(name, saved_mapping(specs, name)) for name in specs}
    except (SavedValueError, TypeError, ValueError) as error:
        raise RunStateError(f"checkpoint {path}: cannot be used: the entry {ENTRY!r}: {error}") from error


# ---------------------------------------------------------------- models


def models_in(state: Mapping[str, Any]) -> dict[str, Any]:
    """The model of every behavior in the state of a checkpoint."""
    return {name: entry["model"] for name, entry in state.items() if name != RUN}


def model_of(models: Mapping[str, Any], behavior: str, origin: str) -> Any:
    """The model of ``behavior`` among ``models``. Raises RunStateError with ``origin`` if it is missing."""
    if behavior not in models:
        raise RunStateError(f"{origin}: that run has no behavior {behavior!r}; it has {', '.join(sorted(models))}")
    return models[behavior]
