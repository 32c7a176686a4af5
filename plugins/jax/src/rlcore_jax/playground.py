"""Tasks of MuJoCo Playground's control suite as simulators, from ``environment: {type: playground, id: ...}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from mujoco_playground import dm_control_suite, locomotion, manipulation

from rlcore import ConfigError, EnvironmentFailed, ObservationSpec, did_you_mean, repeating
from rlcore_jax.environment import environment_of
from rlcore_jax.simulator import Array, Result, View

if TYPE_CHECKING:
    from rlcore import EnvironmentSettings, RunContext
    from rlcore_jax.settings import PlaygroundSettings
    from rlcore_torch import AsNumpy

ID = ("environment", "id")
OVERRIDES = ("environment", "options", "config_overrides")
OBSERVATION = "observation"


def make_environment(settings: EnvironmentSettings, run: RunContext) -> AsNumpy:
    """Create ``run.num_envs`` environments of the task ``settings.id``.

    Raises :class:`~rlcore.ConfigError` for an unknown id, entry of the task's configuration or parameter.
    """
    options: PlaygroundSettings = settings.options
    task = PlaygroundTask(settings.id, options.config_overrides)
    return environment_of(task, run, options.max_episode_steps or task.episode_length, options.reset_rows)


def check_task(name: str | None) -> None:
    """Raise ConfigError for a task that the control suite does not have."""
    known = dm_control_suite.ALL_ENVS
    if not name:
        raise ConfigError("missing; name a task of Playground's control suite, such as CartpoleBalance", key=ID)
    if name in (*locomotion.ALL_ENVS, *manipulation.ALL_ENVS):
        raise ConfigError(
            f"{name!r} needs models of robots, which Playground downloads with git when it loads the task; "
            f"only its control suite is supported: {', '.join(known)}",
            key=ID,
        )
    if name not in known:
        hint = did_you_mean(name, known) or f"; it has {', '.join(known)}"
        raise ConfigError(f"{name!r} is not a task of Playground's control suite{hint}", key=ID)


class PlaygroundTask:
    """A task of the control suite, computed by MJX in JAX.

    Every part of an action is in [-1, 1], as for Playground's own trainers. A task ends by its own rule only where
    its physics fail; else its time limit cuts it off.

    Attributes:
        episode_length: Steps of an episode by the task's configuration.
    """

    players = 1
    teams = False
    discrete: tuple[int, ...] = ()

    def __init__(self, name: str | None, overrides: Mapping[str, Any]) -> None:
        check_task(name)
        self.name = f"playground {name}"
        config = _config_of(str(name), overrides)
        self.episode_length = int(config.episode_length)
        try:
            self.task = dm_control_suite.load(str(name), config=config)
            shown = jax.eval_shape(self.task.reset, jax.random.key(0)).obs
        except Exception as error:
            made_with = f" with {dict(overrides)}" if overrides else ""
            raise repeating(error, f"{self.name}: cannot be made{made_with}", EnvironmentFailed) from error
        self.observations: tuple[ObservationSpec, ...] = (ObservationSpec(OBSERVATION, shown.shape, np.float32),)
        self.low = np.full(self.task.action_size, -1, np.float32)
        self.high = np.full(self.task.action_size, 1, np.float32)

    def init(self, key: Array) -> Any:
        return self.task.reset(key)

    def step(self, state: Any, action: Array, key: Array) -> Any:
        return self.task.step(state, action[0])  # draws from the key in its state, which `init` put there

    def view(self, state: Any) -> View:
        return View({OBSERVATION: state.obs[None]})

    def result(self, state: Any) -> Result:
        return Result(state.reward[None], state.done != 0)


def _config_of(name: str, overrides: Mapping[str, Any]) -> Any:
    """Return the configuration of a task with ``overrides``, for physics in JAX.

    Raises ConfigError for an entry that the task does not have, a value of another type, and what is not supported.
    """
    config = dm_control_suite.get_default_config(name)
    config.impl = "jax"  # Playground's default, "warp", needs a GPU of NVIDIA
    known = list(config)
    for entry, value in overrides.items():
        key = (*OVERRIDES, entry)
        if entry not in known:
            has = f"it has {', '.join(known)}{did_you_mean(entry, known)}"
            raise ConfigError(f"playground {name} has no such entry in its configuration; {has}", key=key)
        try:
            config[entry] = value
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{value!r} is not a value of the type of {config[entry]!r}", key=key) from error
        if entry == "impl" and value != "jax":
            raise ConfigError(f"{value!r} is not supported; physics are computed with jax", key=key)
        if entry == "vision" and value:
            raise ConfigError("pixels are not supported; Playground renders them with a GPU only", key=key)
        if entry == "action_repeat" and value != 1:
            raise ConfigError("is not supported; set ctrl_dt, the seconds of a step, instead", key=key)
    return config
