"""The behaviors of a run in its checkpoints: a policy can be read and used where there is no environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import numpy as np

from rlcore.contracts.environment import BehaviorSpec, ObservationKind, ObservationSpec
from rlcore.contracts.saved_values import SavedValueError, saved_array, saved_count, saved_entry, saved_mapping
from rlcore.errors import RunStateError

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
