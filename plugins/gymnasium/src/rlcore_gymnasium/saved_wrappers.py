"""Saves what known wrappers of Gymnasium remember within an episode, for checkpoints.

A wrapper is known if its whole state is: the attributes that are listed here. Its next reset replaces what it
remembers of a finished episode.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np

from rlcore import SavedValueError

Env = gymnasium.Env[Any, Any]

_MODULE = "gymnasium.wrappers"
_STATELESS = {
    # The first two remember only that something was checked once. TimeLimit is saved beside the others.
    "common": ("OrderEnforcing", "PassiveEnvChecker", "TimeLimit"),
    "stateful_action": ("RepeatAction",),
    "transform_action": ("ClipAction", "DiscretizeAction", "RescaleAction"),
    "transform_observation": (
        "DiscretizeObservation", "DtypeObservation", "FilterObservation", "FlattenObservation", "GrayscaleObservation",
        "RescaleObservation", "ReshapeObservation", "ResizeObservation",
    ),
    "transform_reward": ("ClipReward",),
}  # fmt: skip
STATES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {f"{_MODULE}.{module}.{name}": () for module, names in _STATELESS.items() for name in names}
    | {
        f"{_MODULE}.common.RecordEpisodeStatistics": ("episode_returns", "episode_lengths"),
        f"{_MODULE}.stateful_action.StickyAction": (
            "last_action", "is_sticky_actions", "num_repeats", "repeats_taken",
        ),
        f"{_MODULE}.stateful_observation.DelayObservation": ("observation_queue",),
        f"{_MODULE}.stateful_observation.FrameStackObservation": ("obs_queue",),
        f"{_MODULE}.stateful_observation.MaxAndSkipObservation": ("_obs_buffer",),
        f"{_MODULE}.stateful_observation.TimeAwareObservation": ("timesteps",),
    }
)  # fmt: skip
"""The attributes that hold the state of each known wrapper, by class."""
_PARTS = "parts"  # of a tuple or a queue
_KEYS = "keys"


def class_name(env: Env) -> str:
    """The module and the name of the class of an environment or a wrapper."""
    return f"{type(env).__module__}.{type(env).__qualname__}"


def stacked_frames(env: Env) -> int:
    """The number of frames that the outermost FrameStackObservation stacks; 1 without one."""
    for layer in chain(env):
        if isinstance(layer, gymnasium.wrappers.FrameStackObservation):
            return int(layer.stack_size)
    return 1


def chain(env: Env) -> Iterator[Env]:
    """The wrappers of an environment, outermost first, and the environment."""
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
    yield env


def are_known(wrappers: list[Env]) -> bool:
    """Whether the whole state of all wrappers can be saved."""
    return all(class_name(wrapper) in STATES for wrapper in wrappers)


def start_afresh(env: Env) -> None:
    """Clear what a wrapper would carry over from one episode into the next; call it before a reset.

    If an episode ends within the steps that ``MaxAndSkipObservation`` skips, its last observation is the maximum over a
    picture of the step before; in the first step, this would be a picture of another episode.
    """
    for layer in chain(env):
        if isinstance(layer, gymnasium.wrappers.MaxAndSkipObservation):
            layer._obs_buffer.fill(0)


def save_wrappers(env: Env) -> list[dict[str, Any]]:
    """Return what the wrappers of an environment remember, outermost first, without those that remember nothing."""
    states = []
    for wrapper in _remembering(env):
        state = {}
        for name in STATES[class_name(wrapper)]:
            value = getattr(wrapper, name)
            state[name] = _plain(value)
        states.append(state)
    return states


def restore_wrappers(env: Env, saved: Any) -> None:
    """Continue from :func:`save_wrappers` after a reset. Raises SavedValueError, before anything is changed."""
    wrappers = _remembering(env)
    if not isinstance(saved, list) or len(saved) != len(wrappers):
        raise SavedValueError("the entry 'wrappers' has not one state for each wrapper that remembers something")
    values = []
    for wrapper, state in zip(wrappers, saved, strict=True):
        names = STATES[class_name(wrapper)]
        if not isinstance(state, Mapping) or state.keys() != set(names):
            raise SavedValueError(f"the state of {class_name(wrapper)} has not the entries {', '.join(names)}")
        values.append({name: _restored(wrapper, name, state[name]) for name in names})
    for wrapper, restored in zip(wrappers, values, strict=True):
        for name, value in restored.items():
            if isinstance(value, deque):
                queue = getattr(wrapper, name)  # kept, with its greatest length
                queue.clear()
                queue.extend(value)
            else:
                setattr(wrapper, name, value)


def _remembering(env: Env) -> list[Env]:
    """The wrappers of an environment that have a state, outermost first."""
    return [layer for layer in chain(env) if STATES.get(class_name(layer))]


def _plain(value: Any) -> Any:
    # Tuples, queues and Dict observations get a key that says what they are: a checkpoint has only JSON and arrays.
    if isinstance(value, np.ndarray | np.generic):
        return np.array(value)
    if isinstance(value, Mapping):
        entries = {str(key): _plain(entry) for key, entry in value.items()}
        return {_KEYS: entries}
    if isinstance(value, tuple | list | deque):
        return {_PARTS: [_plain(part) for part in value]}
    return value


def _restored(wrapper: Env, name: str, value: Any) -> Any:
    """Return a saved value as the attribute ``name`` had it, checked against the one of now."""
    current = getattr(wrapper, name)  # after a reset: a queue has an observation, if it ever has one
    if name == "last_action":  # None after a reset, so a sample shows its form
        if value is None:
            return None
        return _like(wrapper.action_space.sample(), value, name)
    if not isinstance(current, deque):
        return _like(current, value, name)
    parts = value.get(_PARTS) if isinstance(value, Mapping) else None
    # The queue of DelayObservation is unbounded; the wrapper itself keeps it to its delay.
    longest = current.maxlen
    if longest is None:
        longest = getattr(wrapper, "delay", 0)
    if not isinstance(parts, list) or len(parts) > longest:
        raise _unlike(name)
    if parts and not current:  # no observation to compare them with
        raise _unlike(name)
    return deque(_like(current[-1], part, name) for part in parts)


def _like(template: Any, value: Any, name: str) -> Any:
    """Return a saved value as one of the type and the shape of ``template``. Raises SavedValueError."""
    if isinstance(template, Mapping):
        parts = value.get(_KEYS) if isinstance(value, Mapping) else None
        if not isinstance(parts, Mapping) or parts.keys() != {str(key) for key in template}:
            raise _unlike(name)
        return {key: _like(entry, parts[str(key)], name) for key, entry in template.items()}
    if isinstance(template, tuple):
        parts = value.get(_PARTS) if isinstance(value, Mapping) else None
        if not isinstance(parts, list) or len(parts) != len(template):
            raise _unlike(name)
        pairs = zip(template, parts, strict=True)
        return tuple(_like(entry, part, name) for entry, part in pairs)
    if isinstance(template, np.ndarray):
        if not isinstance(value, np.ndarray):
            raise _unlike(name)
        alike = value.shape == template.shape and value.dtype == template.dtype
        if not alike:
            raise _unlike(name)
        return value.copy()
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "biuf":
        return value[()]
    # A count may have become a real number, such as the sum of rewards; a bool stays one.
    if isinstance(value, bool | int | float) and isinstance(value, bool) == isinstance(template, bool):
        return value
    raise _unlike(name)


def _unlike(name: str) -> SavedValueError:
    return SavedValueError(f"the entry {name!r} of a wrapper has another form than in this environment")
