"""The state of single environments that are known exactly: classic control and MuJoCo, as Gymnasium makes them.

An environment is known if its class is listed here, each of its wrappers in :mod:`rlcore_gymnasium.saved_wrappers`, and
if all of its attributes are plain values or among those that hold no state. For any other environment, checkpoints end
episodes, because a state that is not saved would make a resumed run differ without notice.

The state is the random generator, the steps that ``TimeLimit`` counts, what other wrappers remember, every attribute
that differs from a new environment, and for MuJoCo the state of the physics (``mjSTATE_INTEGRATION``, the warm start of
the solver included) with the quantities that are computed from it: they are one substep behind the positions, and some
environments read them before the next step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    AgentBatch,
    EpisodeSeeds,
    SavedValueError,
    fill,
    generator_state,
    restore_generator,
    saved_array,
    saved_count,
    saved_entry,
    saved_mapping,
)
from rlcore_gymnasium.in_process import InProcessEnvironment
from rlcore_gymnasium.saved_wrappers import Env, are_known, chain, class_name, restore_wrappers, save_wrappers

_CLASSIC = "gymnasium.envs.classic_control"
_MUJOCO = "gymnasium.envs.mujoco"
_ROBOTS = {  # class by module
    "ant": "Ant",
    "half_cheetah": "HalfCheetah",
    "hopper": "Hopper",
    "humanoid": "Humanoid",
    "humanoidstandup": "HumanoidStandup",
    "inverted_double_pendulum": "InvertedDoublePendulum",
    "inverted_pendulum": "InvertedPendulum",
    "pusher": "Pusher",
    "reacher": "Reacher",
    "swimmer": "Swimmer",
    "walker2d": "Walker2d",
}
MUJOCO_CLASSES = frozenset(
    f"{_MUJOCO}.{module}_{version}.{name}Env" for module, name in _ROBOTS.items() for version in ("v4", "v5")
)
CLASSES = MUJOCO_CLASSES | {
    f"{_CLASSIC}.acrobot.AcrobotEnv",
    f"{_CLASSIC}.cartpole.CartPoleEnv",
    f"{_CLASSIC}.continuous_mountain_car.Continuous_MountainCarEnv",
    f"{_CLASSIC}.mountain_car.MountainCarEnv",
    f"{_CLASSIC}.pendulum.PendulumEnv",
}
# Attributes that hold no state of an episode: what it was made with, and what renders it.
_STATELESS = frozenset(
    {
        "_np_random", "_ezpickle_args", "_ezpickle_kwargs", "action_space", "observation_space",
        "observation_structure", "metadata", "spec", "model", "data", "mujoco_renderer", "screen", "clock", "surf",
    }
)  # fmt: skip
# What mj_step computes from the state of the physics at its beginning.
_DERIVED = (
    "xpos", "xquat", "xmat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "subtree_com",
    "cinert", "cvel", "cfrc_ext", "qfrc_actuator", "qfrc_constraint", "ten_length", "ten_velocity",
)  # fmt: skip
_TUPLE = "tuple"


class SavingEnvironment(InProcessEnvironment):
    """Environments of classes that this module knows."""

    saves_rows = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # By environment, the attributes that it was made with: a state has only those that differ.
        self._new = [attributes(env.unwrapped) for env in self.vector.envs]

    def try_resets(self) -> None:
        """Do nothing: all that environments of these classes draw from is saved."""

    def state_dict(self) -> dict[str, Any]:
        envs = self.vector.envs
        return {
            "episodes": self.episodes.copy(),
            "run_seed": self._seeds.run_seed,
            "first_env": self._seeds.first_env,
            "observations": {name: array.copy() for name, array in self._observations.items()},
            "environments": list(map(save, envs, self._new)),
            "physics": save_physics(envs) if has_physics(envs[0]) else None,
            "parameters": self.delivery.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        envs = self.vector.envs
        saved = saved_entry(state, "environments")
        if not isinstance(saved, list) or len(saved) != self.num_envs:
            raise SavedValueError(f"the entry 'environments' has not one state for each of {self.num_envs}")
        episodes = saved_array(state, "episodes", np.int64, (self.num_envs,))
        run_seed = saved_count(state, "run_seed")
        first_env = saved_count(state, "first_env")
        observations = saved_mapping(state, "observations")
        for name, array in self._observations.items():
            fill(array, observations, name)
        self._begin(EpisodeSeeds(run_seed, first_env), episodes)
        parameters = saved_mapping(state, "parameters")
        # Constructor arguments first: they make new environments, which lose what was restored before.
        self.delivery.remake(parameters)
        for index, (env, episode) in enumerate(zip(envs, saved, strict=True)):
            env.reset(seed=0)  # creates what the state replaces
            restore(env, episode, self._new[index])
        # Then the physics: a reset starts them again.
        if has_physics(envs[0]):
            restore_physics(envs, saved_mapping(state, "physics"))
        self.delivery.load_state_dict(parameters)
        return self._batch(self._observations)

    def _remake(self, index: int, arguments: Mapping[str, Any]) -> None:
        super()._remake(index, arguments)
        self._new[index] = attributes(self.vector.envs[index].unwrapped)


def is_known(env: Env) -> bool:
    """Whether the whole state of the environment can be saved."""
    *wrappers, bare = chain(env)
    if class_name(bare) not in CLASSES or not are_known(wrappers):
        return False
    try:
        attributes(bare)
    except TypeError:
        return False
    return True


def attributes(bare: Env) -> dict[str, Any]:
    """The plain values of an unwrapped environment by name, as a checkpoint holds them.

    Raises TypeError for an attribute that is neither plain nor known to hold no state.
    """
    plain = {}
    for name, value in vars(bare).items():
        if name not in _STATELESS:
            plain[name] = _plain(name, value)
    return plain


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):  # np.float64 is also a float
        return np.array(value)  # 0-d: its type is kept
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "biuf":
        return value.copy()
    if isinstance(value, tuple):
        return {_TUPLE: [_plain(name, part) for part in value]}
    raise TypeError(f"attribute {name!r} is a {type(value).__name__}, which is not saved")


def _from_plain(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value[()] if value.ndim == 0 else value.copy()
    if isinstance(value, Mapping):
        parts = value.get(_TUPLE)
        if value.keys() != {_TUPLE} or not isinstance(parts, Sequence):
            raise SavedValueError(f"the attribute {name!r} is not a value of an environment")
        return tuple(_from_plain(name, part) for part in parts)
    return value


def _equal(left: Any, right: Any) -> bool:
    """Return whether two plain values are equal bit for bit: NaN equals NaN, and 0.0 is not -0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        alike = left.dtype == right.dtype and left.shape == right.shape
        return alike and bool(left.tobytes() == right.tobytes())
    if isinstance(left, Mapping):
        parts = left[_TUPLE]
        others = right[_TUPLE]
        return len(parts) == len(others) and all(map(_equal, parts, others))
    return repr(left) == repr(right)


def save(env: Env, new: Mapping[str, Any]) -> dict[str, Any]:
    """The state of an environment in an episode, without its physics. ``new`` are the attributes of a new one."""
    changed = {}
    for name, value in attributes(env.unwrapped).items():
        if name not in new or not _equal(value, new[name]):
            changed[name] = value
    state: dict[str, Any] = {
        "classes": _classes(env),
        "generator": generator_state(env.unwrapped.np_random),
        "elapsed": [limit._elapsed_steps for limit in _time_limits(env)],
        "attributes": changed,
    }
    wrappers = save_wrappers(env)
    if wrappers:
        state["wrappers"] = wrappers
    return state


def restore(env: Env, state: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Continue the episode of :func:`save` in an environment that was reset. Raises SavedValueError."""
    classes = _classes(env)
    if saved_entry(state, "classes") != classes:
        raise SavedValueError(f"the state is of {state['classes']!r:.200}, and the environment is {classes}")
    limits = _time_limits(env)
    elapsed = saved_entry(state, "elapsed")
    if not isinstance(elapsed, list) or len(elapsed) != len(limits):
        raise SavedValueError("the entry 'elapsed' has not one number of steps for each time limit")
    counts = [saved_count({"elapsed": steps}, "elapsed") for steps in elapsed]
    saved = saved_mapping(state, "attributes")
    values = {}
    for name, value in {**new, **saved}.items():
        values[name] = _from_plain(name, value)
    bare = env.unwrapped
    # A checkpoint comes from a file: it must set nothing but what `save` writes.
    allowed = vars(bare).keys() - _STATELESS
    unknown = sorted(values.keys() - allowed)
    if unknown:
        raise SavedValueError(f"the attribute {unknown[0]!r:.100} is not one of those that are saved")
    restore_wrappers(env, state.get("wrappers", []))
    restore_generator(env.unwrapped.np_random, saved_mapping(state, "generator"))
    for limit, steps in zip(limits, counts, strict=True):
        limit._elapsed_steps = steps  # type: ignore[assignment]  # declared as None
    vars(bare).update(values)


def _classes(env: Env) -> list[str]:
    return [class_name(layer) for layer in chain(env)]


def _time_limits(env: Env) -> list[gymnasium.wrappers.TimeLimit[Any, Any]]:
    return [layer for layer in chain(env) if isinstance(layer, gymnasium.wrappers.TimeLimit)]


# ---------------------------------------------------------------- MuJoCo


def has_physics(env: Env) -> bool:
    """Whether the environment is one of MuJoCo."""
    return class_name(env.unwrapped) in MUJOCO_CLASSES


def save_physics(envs: Sequence[Env]) -> dict[str, NDArray[Any]]:
    """The physics of N environments of MuJoCo: ``state`` [N, size], and the derived quantities by name [N, ...]."""
    import mujoco

    bare: list[Any] = [env.unwrapped for env in envs]
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    size = mujoco.mj_stateSize(bare[0].model, kind)
    states = np.empty((len(bare), size))
    for row, env in zip(states, bare, strict=True):
        mujoco.mj_getState(env.model, env.data, row, kind)
    physics = {"state": states}
    for name in _DERIVED:
        arrays = [getattr(env.data, name) for env in bare]
        physics[name] = np.stack(arrays)
    return physics


def restore_physics(envs: Sequence[Env], saved: Mapping[str, Any]) -> None:
    """Continue from :func:`save_physics`. Raises SavedValueError unless all arrays fit, before anything is changed."""
    import mujoco

    bare: list[Any] = [env.unwrapped for env in envs]
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    size = mujoco.mj_stateSize(bare[0].model, kind)
    states = saved_array(saved, "state", np.float64, (len(bare), size))
    derived = {}
    for name in _DERIVED:
        first = getattr(bare[0].data, name)
        shape = (len(bare), *first.shape)
        derived[name] = saved_array(saved, name, first.dtype, shape)
    for index, env in enumerate(bare):
        mujoco.mj_setState(env.model, env.data, states[index], kind)
        # Written, not computed with mj_forward: that would take them from the positions of now, a substep too late.
        for name, values in derived.items():
            getattr(env.data, name)[...] = values[index]
