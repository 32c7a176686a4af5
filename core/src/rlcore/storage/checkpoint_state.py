"""The entries in the state of a checkpoint: checks before they are used, what agents see and do, and models.

The manifest's checksums find damage. The checks find what checksums cannot: a checkpoint that other software wrote, one
that was edited by hand, or one of a training that had diverged. :meth:`rlcore.run.state.RunState.capture` makes the
state. It describes the behaviors of a run, so that a policy can be read and used where there is no environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from rlcore.contracts.environment import BehaviorSpec, ObservationKind, ObservationSpec
from rlcore.contracts.saved_values import (
    SavedValueError,
    non_finite,
    saved_array,
    saved_count,
    saved_entry,
    saved_float,
    saved_mapping,
)
from rlcore.errors import RunStateError
from rlcore.plugins.context import FACTORIES, FACTORY_FIELDS
from rlcore.storage.files.access import is_number

RUN = "run"  # the entry of the run itself; every other entry belongs to a behavior's trainer


def require_models(path: Path, state: Mapping[str, Any]) -> None:
    """Raises RunStateError unless the checkpoint at ``path`` has a seed, steps, and a finite model of each behavior."""
    with usable(path):
        run = saved_mapping(state, RUN)
        saved_count(run, "seed")
        _require_factories(run.get(FACTORIES, []))
        for name in saved_mapping(run, "steps"):
            saved_count(run["steps"], name)
        for name in state:
            if name != RUN:
                saved_mapping(saved_mapping(state, name), "model")
                _require_finite(name, state[name])


def require_run(path: Path, state: Mapping[str, Any]) -> None:
    """Raises RunStateError unless a run can resume from the checkpoint at ``path``; ``state`` may lack its arrays."""
    with usable(path):
        _require_run(state)


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """For a block that checks a state: its SavedValueError becomes a RunStateError that names the checkpoint."""
    try:
        yield
    except SavedValueError as error:
        raise RunStateError(f"checkpoint {path}: cannot be used: {error}") from error


def _require_run(state: Mapping[str, Any]) -> None:
    run = saved_mapping(state, RUN)
    saved_count(run, "seed")
    steps, behaviors = saved_mapping(run, "steps"), saved_mapping(run, "behaviors")
    if steps.keys() != behaviors.keys() or steps.keys() != state.keys() - {RUN}:
        raise SavedValueError("the entries 'steps' and 'behaviors' do not name the behaviors that have a state")
    for name in steps:
        saved_count(steps, name)
        _require_numbers(saved_mapping(behaviors, name), "recent")
        _require_finite(name, saved_mapping(state, name))
        if not isinstance(behaviors[name].get("recent_updates", {}), Mapping):
            raise SavedValueError("the entry 'recent_updates' is not a mapping")
    overdue = saved_mapping(run, "overdue") if run.get("overdue") is not None else {}
    for name in overdue:
        if name not in steps:
            raise SavedValueError(f"the entry 'overdue' names {name[:60]!r}, which is not a behavior")
        if overdue[name] is not None:
            saved_count(overdue, name)
    for entry in {"fingerprint", "versions"} & run.keys():
        sections = saved_mapping(run, entry)
        if not all(isinstance(text, str) for name in sections for text in saved_mapping(sections, name).values()):
            raise SavedValueError(f"the entry {entry!r} holds something other than texts")
    if run.get("resume") is not None:
        require_promise(saved_mapping(run, "resume"))
    _require_factories(run.get(FACTORIES, []))
    saved_mapping(run, "sections")
    saved_float(run, "wall_seconds")
    for name in ("environment", "curricula", "evaluation"):
        if run.get(name) is not None:
            saved_mapping(run, name)
    if run.get("evaluation") is not None:
        require_scores(run["evaluation"])
    if saved_entry(run, "episodes") is not None and not isinstance(run["episodes"], Mapping):  # a mark of the array
        saved_array(run, "episodes", "int64", (None,))


def require_promise(resume: Mapping[str, Any]) -> None:
    """Raises SavedValueError unless this is the promise of a resume, as a checkpoint holds it."""
    reasons, notes = saved_entry(resume, "reasons"), saved_entry(resume, "notes")
    lists = isinstance(reasons, list) and isinstance(notes, list)
    if not lists or not all(isinstance(text, str) for text in (saved_entry(resume, "promise"), *reasons, *notes)):
        raise SavedValueError("the entry 'resume' is not a promise")


def require_scores(scores: Mapping[str, Any]) -> None:
    """Raises SavedValueError unless these are the scores of a run's evaluations."""
    for name in ("score", "best_score"):
        if scores.get(name) is not None:
            saved_float(scores, name)
    for name in ("step", "best_step"):
        if scores.get(name) is not None:
            saved_count(scores, name)
    parts = ("score", "step", "best_score", "best_step")
    if len({scores.get(name) is None for name in parts}) > 1:
        raise SavedValueError(f"the entry 'evaluation' has only some of {', '.join(parts)}")


def _require_factories(entries: Any) -> None:
    """Raises SavedValueError unless these are plugins, as :mod:`rlcore.plugins.context` names them."""
    sound = isinstance(entries, list) and all(
        isinstance(each, Mapping) and all(isinstance(each.get(name), str) for name in FACTORY_FIELDS)
        for each in entries
    )
    if not sound:
        raise SavedValueError(f"the entry {FACTORIES!r} is not a list of plugins")


def _require_numbers(state: Mapping[str, Any], name: str) -> None:
    value = saved_entry(state, name)
    if not isinstance(value, list) or not all(map(is_number, value)):
        raise SavedValueError(f"the entry {name!r} is not a list of numbers")


def _require_finite(behavior: str, state: Mapping[str, Any]) -> None:
    found = non_finite(state)
    if found is not None:
        raise SavedValueError(f"{behavior}/{found} is not finite; the training had diverged")


# ---------------------------------------------------------------- what agents see and do


ENTRY = "specs"  # in the entry of the run


def spec_state(spec: BehaviorSpec) -> dict[str, Any]:
    """The behavior as nested mappings of arrays and JSON values."""
    observations = [
        {"name": o.name, "shape": list(o.shape), "dtype": o.dtype.name, "kind": o.kind} for o in spec.observations
    ]
    bounds = {
        f"{index}": {end: np.asarray(value) for end in ("low", "high") if (value := getattr(o, end)) is not None}
        for index, o in enumerate(spec.observations)
    }
    slots = {name: values for name in ("team", "group") if (values := getattr(spec, name)) is not None}
    return {
        "observations": observations,
        "bounds": bounds,
        "continuous": spec.continuous,
        "discrete": list(spec.discrete),
        "low": spec.low.copy(),
        "high": spec.high.copy(),
        "env_index": spec.env_index.copy(),
        **{name: values.copy() for name, values in slots.items()},
    }


def saved_spec(name: str, state: Mapping[str, Any]) -> BehaviorSpec:
    """The behavior ``name`` that :func:`spec_state` described. Raises SavedValueError for what it does not write."""
    bounds = saved_mapping(state, "bounds")
    observations = tuple(
        _observation(entry, saved_mapping(bounds, f"{index}"))
        for index, entry in enumerate(_list(state, "observations"))
    )
    continuous = saved_count(state, "continuous")
    discrete = tuple(_list(state, "discrete"))
    if not all(isinstance(options, int) and options > 0 for options in discrete):
        raise SavedValueError("the entry 'discrete' has something other than numbers of options")
    slots = len(saved_array(state, "env_index", np.int64, (None,)))
    return BehaviorSpec(
        name,
        observations,
        continuous,
        discrete,
        saved_array(state, "low", np.float32, (continuous,)),
        saved_array(state, "high", np.float32, (continuous,)),
        state["env_index"],
        *(saved_array(state, key, np.int64, (slots,)) if key in state else None for key in ("team", "group")),
    )


def specs_in(run: Mapping[str, Any], path: object) -> dict[str, BehaviorSpec]:
    """The behaviors in the entry ``run`` of the checkpoint ``path``. Raises RunStateError if it has none."""
    if ENTRY not in run:
        raise RunStateError(
            f"checkpoint {path}: does not say what its agents see and do, because an earlier version of rlcore wrote "
            "it; resume the run for one more checkpoint"
        )
    specs = saved_mapping(run, ENTRY)
    try:
        return {name: saved_spec(name, saved_mapping(specs, name)) for name in specs}
    except (SavedValueError, TypeError, ValueError) as error:
        raise RunStateError(f"checkpoint {path}: cannot be used: the entry {ENTRY!r}: {error}") from error


def _observation(entry: Any, bounds: Mapping[str, Any]) -> ObservationSpec:
    kind, shape = saved_entry(entry, "kind"), _list(entry, "shape")
    if kind not in get_args(ObservationKind):
        raise SavedValueError(f"the entry 'kind' is {kind!r}, not a kind of observation")
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise SavedValueError("the entry 'shape' has something other than sizes")
    return ObservationSpec(
        str(saved_entry(entry, "name")),
        tuple(shape),
        np.dtype(saved_entry(entry, "dtype")),
        cast(ObservationKind, kind),
        low=bounds.get("low"),
        high=bounds.get("high"),
    )


def _list(state: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = saved_entry(state, name)
    if not isinstance(value, list):
        raise SavedValueError(f"the entry {name!r} is not a list")
    return value


# ---------------------------------------------------------------- models


def models_in(state: Mapping[str, Any]) -> dict[str, Any]:
    """The model of every behavior in the state of a checkpoint."""
    return {name: entry["model"] for name, entry in state.items() if name != RUN}


def model_of(models: Mapping[str, Any], behavior: str, origin: str) -> Any:
    """The model of ``behavior`` among ``models``. Raises RunStateError with ``origin`` if it is missing."""
    if behavior not in models:
        raise RunStateError(f"{origin}: that run has no behavior {behavior!r}; it has {', '.join(sorted(models))}")
    return models[behavior]
