"""Makes the environment of a run from ``environment: {type: gymnasium, id: ..., options: {...}}``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import SyncVectorEnv

from rlcore.config import EnvironmentSettings
from rlcore.environment import Environment
from rlcore.errors import ConfigError, EnvironmentFailed, RlcoreError, did_you_mean, one_line
from rlcore_gymnasium.cartpole import CartPoleEnvironment
from rlcore_gymnasium.in_process import InProcessEnvironment
from rlcore_gymnasium.native import ADAPTERS
from rlcore_gymnasium.video import filming

if TYPE_CHECKING:
    from rlcore import RunContext


def make_environment(settings: EnvironmentSettings, run: RunContext) -> Environment:
    """``run.num_envs`` copies of ``settings.id``, natively vectorised where the environment can be.

    Where ``run.video`` is a directory, every copy is made by itself and films its episodes there.

    Raises :class:`ConfigError` for an id that is not registered and :class:`EnvironmentFailed` for one that cannot be
    constructed.
    """
    env_id = settings.id
    if not env_id:
        raise ConfigError("environment.id is missing; name a Gymnasium environment, such as CartPole-v1")
    options = dict(settings.options or {})
    behavior = _only_behavior(run.behavior_names, env_id)
    spec = _registered(env_id)
    if spec.vector_entry_point is not None and not spec.additional_wrappers and run.video is None:
        native = _native(env_id, behavior, run.num_envs, options)
        if native is not None:
            return native
    if spec.entry_point is None and run.video is not None:
        raise EnvironmentFailed(f"{env_id}: has a vectorised form alone, which cannot be filmed")
    if spec.entry_point is None:
        raise EnvironmentFailed(
            f"{env_id}: its vectorised form does not say when it resets (metadata['autoreset_mode']), and it has no"
            " other form"
        )
    film = {} if run.video is None else filming(env_id, run.video)
    make = _maker(env_id, run.num_envs, "sync", options | film)
    vector = _made(env_id, options, lambda: make(disable_env_checker=True))
    assert isinstance(vector, SyncVectorEnv)
    return InProcessEnvironment(env_id, behavior, vector)


def _native(env_id: str, behavior: str, num_envs: int, options: Mapping[str, Any]) -> Environment | None:
    """None for an environment that does not say when it resets; guessing would mix two episodes."""
    vector = _made(env_id, options, _maker(env_id, num_envs, "vector_entry_point", options))
    if type(vector) is CartPoleVectorEnv:
        return CartPoleEnvironment(env_id, behavior, vector)
    adapter = ADAPTERS.get(vector.metadata.get("autoreset_mode"))
    if adapter is None:
        vector.close()
        return None
    return adapter(env_id, behavior, vector)


def _maker(env_id: str, num_envs: int, mode: str, options: Mapping[str, Any]) -> Callable[..., Any]:
    def make(**extra: Any) -> Any:
        return gymnasium.make_vec(env_id, num_envs=num_envs, vectorization_mode=mode, **{**extra, **options})

    return make


def _made(env_id: str, options: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """Calls the constructor; whatever it raises becomes one line that says what to do."""
    try:
        return make()
    except RlcoreError:
        raise
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise EnvironmentFailed(
            f"{env_id}: a package it needs is not installed{_install_hint(error)} ({one_line(error)})"
        ) from error
    except Exception as error:
        given = f" with options {dict(options)}" if options else ""
        raise EnvironmentFailed(f"{env_id}: cannot be made{given}: {one_line(error)}") from error


def _install_hint(error: BaseException) -> str:
    text = str(error).lower()
    if "moviepy" in text:
        return "; run: pip install 'rlcore-gymnasium[video]'"
    if "mujoco" in text:
        return "; run: pip install 'rlcore-gymnasium[mujoco]'"
    for extra, word in (("box2d", "box2d"), ("classic-control", "pygame"), ("toy-text", "toy"), ("jax", "jax")):
        if word in text:
            return f"; run: pip install 'gymnasium[{extra}]'"
    return ""


def _only_behavior(names: tuple[str, ...], env_id: str) -> str:
    """A single-agent environment does not name its agents, so the file's only behavior is theirs."""
    if len(names) != 1:
        found = "none" if not names else f"{len(names)}: {', '.join(names)}"
        raise ConfigError(
            f"{env_id} has one agent, which takes the name of the file's only entry in behaviors; there are {found}"
        )
    return names[0]


def _registered(env_id: str) -> EnvSpec:
    """The registration of ``[module:]Name-vN``; the module is imported first, which registers its environments."""
    module, _, name = env_id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise ConfigError(f"environment.id {env_id!r}: cannot import {module!r}: {one_line(error)}") from error
    spec = gymnasium.registry.get(name)
    if spec is None:
        raise ConfigError(
            f"environment.id {env_id!r} is not registered with Gymnasium{did_you_mean(name, gymnasium.registry)}"
            + ("" if module else " (an environment of another package is written 'its_module:Name-v0')")
        )
    return spec
