"""Tasks of EnvPool: ids and options, checked before any environment exists, and pools made from them.

EnvPool itself answers an unknown option with a Python error about a constructor, and some wrong values with the end of
the process, because they reach C++ unchecked.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
from gymnasium import spaces

from rlcore import ConfigError, EnvironmentFailed, did_you_mean, one_line, repeating

ID = ("environment", "id")
OPTIONS = ("environment", "options")

_ASYNCHRONOUS = (
    "all environments step together here: with a smaller batch, the environments that answer first would be those that "
    "a thread finished first, and equal seeds would not give equal episodes; leave it out"
)
_FILM = "films of EnvPool's environments are not supported; leave it out"
_IDENTITY = "says which task it is, as environment.id does; choose another id"
_SEED = "the seeds of a pool follow from `env_settings.seed`, the seed of the run; leave it out"
REFUSED: Mapping[str, str] = {
    "num_envs": "set environment.num_envs instead",
    "batch_size": _ASYNCHRONOUS,
    "seed": _SEED,
    "env_seed": _SEED,
    "max_num_players": "each environment has one agent here; leave it out",
    "gym_reset_return_info": "EnvPool itself allows only true; leave it out",
    "render_mode": _FILM,
    "render_env_id": _FILM,
    **dict.fromkeys(("adroit_task", "env_name", "hand_task", "scenario", "task", "task_name"), _IDENTITY),
}
"""Options of EnvPool that a configuration must not set, and why."""

# VizDoom waits for other players in these scenarios, and EnvPool ends the process.
IN_A_NETWORK = frozenset({"Cig-v1", "MultiDuel-v1"})

PIXELS: Mapping[str, int] = {"render_width": 84, "render_height": 84, "render_camera_id": -1}
"""Options of pictures as observations, with their defaults."""

# Below 1, these end the process, or every episode at its first step.
COUNTS = frozenset(
    {
        "frame_skip", "frame_stack", "img_height", "img_width", "max_episode_steps", "noop_max", "num_threads",
        "render_height", "render_width", "stack_num",
    }
)  # fmt: skip


@attrs.frozen(eq=False)
class Task:
    """A task of EnvPool with checked options.

    Attributes:
        id: The id in EnvPool's registry.
        options: Arguments of ``envpool.make_gymnasium`` besides the number of environments and the seeds.
        observation_space: The space of one observation, as EnvPool describes it.
        action_space: The space of one action, as EnvPool describes it.
        returned: EnvPool's description of each array that a step returns, by its name, such as ``info:lives``.
    """

    id: str
    options: Mapping[str, Any]
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    returned: Mapping[str, Any]

    def make_pool(self, seeds: Sequence[int]) -> Any:
        """Return a new pool of N = ``len(seeds)`` environments; environment i draws from the seed ``seeds[i]``.

        Raises EnvironmentFailed if EnvPool cannot make it.
        """
        import envpool

        options = {"num_threads": min(len(seeds), cores()), **self.options}
        try:
            with _without_warnings():
                # Procgen draws its levels from `seed` alone; the other tasks draw from `env_seed`.
                pool = envpool.make_gymnasium(
                    self.id, num_envs=len(seeds), seed=seeds[0], env_seed=list(seeds), **options
                )
                _ = pool.observation_space  # made now, and kept by the pool
        except (Exception, SystemExit) as error:
            raise _unmakable(self.id, self.options, error) from error
        return pool


def find_task(env_id: str | None, options: Mapping[str, Any]) -> Task:
    """Return the task with this id and these options.

    Raises :class:`~rlcore.ConfigError` for an unknown id, for an option that the task does not have or that rlcore
    sets, and for a task with several agents; :class:`~rlcore.EnvironmentFailed` if this machine lacks what the task
    needs.
    """
    import envpool

    known = envpool.list_all_envs()
    if env_id not in known:
        if not env_id:
            raise ConfigError("missing; name an environment of EnvPool, such as Pong-v5", key=ID)
        raise ConfigError(f"{env_id!r} is not an environment of EnvPool{_nearest_id(env_id, known)}", key=ID)
    if env_id in IN_A_NETWORK:
        raise ConfigError(f"{env_id!r} is played by several players in a network, which is not supported", key=ID)
    try:
        defaults = _defaults(env_id, from_pixels=options.get("from_pixels") is True)
    except (Exception, SystemExit) as error:
        raise _unmakable(env_id, {}, error) from error
    options = {name: _checked(env_id, name, value, defaults) for name, value in options.items()}
    if (players := defaults["max_num_players"]) != 1:
        raise ConfigError(
            f"{env_id!r} has {players} agents; EnvPool's environments are supported with one. For games of several, "
            "see environment.type: pettingzoo",
            key=ID,
        )
    try:
        spec = envpool.make_spec(env_id, **options)
        with _without_warnings():
            return Task(env_id, options, spec.observation_space, spec.action_space, spec.state_array_spec)
    except (Exception, SystemExit) as error:
        raise _unmakable(env_id, options, error) from error


def _defaults(env_id: str, from_pixels: bool) -> dict[str, Any]:
    """Return the options of a task with their defaults. Raises an exception if EnvPool's code cannot be loaded."""
    from envpool.registration import registry

    module, name, registered = registry.specs[env_id]
    config = getattr(importlib.import_module(module), name).gen_config(**registered)
    return {**config._asdict(), "from_pixels": False, **(PIXELS if from_pixels else {})}


def _checked(env_id: str, name: str, value: Any, defaults: Mapping[str, Any]) -> Any:
    """Return the value of an option in the type of its default. Raises ConfigError if it has no such type."""
    key = (*OPTIONS, name)
    if name in REFUSED:
        raise ConfigError(REFUSED[name], key=key)
    if name not in defaults:
        names = sorted(defaults.keys() - REFUSED.keys())
        hint = did_you_mean(name, names) or f"; it has {', '.join(names)}"
        raise ConfigError(f"{env_id} has no such option{hint}", key=key)
    if name == "reward_clip" and value is True:
        raise ConfigError(
            "would clip the returns that are reported too; set hyperparameters.clip_rewards: 1.0 of the behavior, "
            "which clips what is learned from",
            key=key,
        )
    default = defaults[name]
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    kind = next((kind for kind in (bool, int, float, str) if isinstance(default, kind)), None)
    if kind is not None and type(value) is not kind:
        what = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[kind]
        raise ConfigError(f"is {value!r} and must be {what}, such as its default {default!r}", key=key)
    if name in COUNTS and value < 1:
        raise ConfigError(f"is {value} and must be at least 1", key=key)
    return value


def _nearest_id(env_id: str, known: Sequence[str]) -> str:
    """Name the nearest id. Ids of Gymnasium, such as ``ALE/Pong-v5``, have a package in front."""
    return did_you_mean(env_id, known) or did_you_mean(env_id.rpartition("/")[2], known)


def _unmakable(env_id: str, options: Mapping[str, Any], error: BaseException) -> EnvironmentFailed:
    if isinstance(error, ImportError):
        return EnvironmentFailed(f"{env_id}: something it needs is not installed ({one_line(error)})")
    with_options = f" with options {dict(options)}" if options else ""
    return repeating(error, f"{env_id}: cannot be made{with_options}", EnvironmentFailed)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Hide what Gymnasium says about the bounds of spaces, which EnvPool writes in double precision."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
