"""The layout of a behavior in a Minari dataset: spaces in the metadata, and values of these spaces in each episode.

A dataset of another library is read by its spaces. A dataset that rlcore wrote also has the names, kinds and types of
the observations, which spaces do not express, so that reading it gives exactly the recorded behavior.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from rlcore import BehaviorSpec, ConfigError, ObservationSpec, one_line
from rlcore_gymnasium.spaces import OBSERVATION, ActionCodec, ObservationCodec, ObservationPart
from rlcore_offline.containment import require_small_space

RLCORE = "rlcore"  # what we add to the metadata: JSON in a string, as Minari keeps spaces


@attrs.frozen(eq=False)
class Layout:
    """A behavior, and how its values are read from those of the dataset's spaces."""

    behavior: BehaviorSpec  # of one slot
    observing: ObservationCodec
    acting: ActionCodec

    @classmethod
    def of(
        cls, observation: spaces.Space[Any], action: spaces.Space[Any], ours: str | None, name: str, where: str
    ) -> Layout:
        """Read the spaces; ``ours`` is the metadata's entry :data:`RLCORE`. UnsupportedSpace names ``where``."""
        acting = ActionCodec.of(action, where)
        observing = ObservationCodec.of(observation, where, None, acting) if ours is None else _noted(ours, where)
        observing.say_what_is_left_out()
        low, high = acting.bounds()
        behavior = BehaviorSpec(name, observing.specs, len(low), acting.discrete, low, high)
        return cls(behavior, observing, acting)


def observation_space(behavior: BehaviorSpec) -> spaces.Space[Any]:
    """One Box, or a Dict of a Box for each observation."""
    boxes: dict[str, spaces.Space[Any]] = {key: _box(spec) for key, spec in observation_keys(behavior).items()}
    if list(boxes) == [OBSERVATION]:
        return boxes[OBSERVATION]
    return spaces.Dict([*boxes.items()])  # of pairs: Gymnasium sorts the keys of a mapping


def action_space(behavior: BehaviorSpec) -> spaces.Space[Any]:
    """A Box, a Discrete or a MultiDiscrete; a Dict of ``continuous`` and ``discrete`` for hybrid actions."""
    parts: dict[str, spaces.Space[Any]] = {}
    if behavior.continuous:
        parts["continuous"] = spaces.Box(behavior.low, behavior.high, dtype=np.float32)
    if len(behavior.discrete) == 1:
        parts["discrete"] = spaces.Discrete(behavior.discrete[0])
    elif behavior.discrete:
        parts["discrete"] = spaces.MultiDiscrete(np.array(behavior.discrete))
    return spaces.Dict(parts) if len(parts) > 1 else next(iter(parts.values()))


def observation_keys(behavior: BehaviorSpec) -> dict[str, ObservationSpec]:
    """The observations by the keys they are stored under: HDF5 takes a slash for a path."""
    specs = {}
    for place, spec in enumerate(behavior.observations):
        key = spec.name
        if "/" in key:
            key = f"{place} {key.replace('/', ' ')}"
        specs[key] = spec
    return specs


def notes(behavior: BehaviorSpec) -> str:
    """The entry :data:`RLCORE` of the metadata."""
    observations = []
    for key, spec in observation_keys(behavior).items():
        note: dict[str, Any] = {
            "key": key,
            "name": spec.name,
            "shape": list(spec.shape),
            "dtype": spec.dtype.str,
            "kind": spec.kind,
        }
        if spec.goal:
            note["goal"] = True
        if spec.high is not None and spec.dtype.kind == "u":  # networks divide such images by it
            note["high"] = np.asarray(spec.high).tolist()
        observations.append(note)
    return json.dumps({"observations": observations})


def _noted(ours: str, where: str) -> ObservationCodec:
    """The observations as rlcore described them; ConfigError for a note that it did not write."""
    require_small_space(ours, f"{where}: its entry {RLCORE!r}")
    try:
        observations = json.loads(ours)["observations"]
        # One observation with this key is stored by itself, not in a Dict: see `observation_space`.
        alone = [note["key"] for note in observations] == [OBSERVATION]
        parts = []
        for note in observations:
            spec = ObservationSpec(
                note["name"],
                tuple(note["shape"]),
                note["dtype"],
                note["kind"],
                high=np.array(note["high"], np.float32) if "high" in note else None,
                goal=note.get("goal") is True,
            )
            parts.append(ObservationPart(spec, key=None if alone else (note["key"],)))
        return ObservationCodec(tuple(parts))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{where}: its entry {RLCORE!r} is damaged: {one_line(error)}") from error


def _box(spec: ObservationSpec) -> spaces.Box:
    if spec.dtype.kind == "f":
        low = -np.inf
        high = np.inf
    elif spec.dtype.kind == "b":
        low = 0
        high = 1
    else:
        low = np.iinfo(spec.dtype).min
        high = np.iinfo(spec.dtype).max
    if spec.kind == "image" and spec.dtype.kind == "u":
        largest = np.broadcast_to(spec.full_scale, spec.shape).astype(spec.dtype)
        return spaces.Box(np.zeros_like(largest), largest, dtype=spec.dtype.type)
    return spaces.Box(low, high, spec.shape, spec.dtype.type)
