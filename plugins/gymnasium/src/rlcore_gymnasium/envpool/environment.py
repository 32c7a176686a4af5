"""Environments of EnvPool: N environments stepped by threads in C++, from ``environment: {type: envpool, id: ...}``.

EnvPool starts the next episode of an environment in the step after the one that ended an episode, and ignores the
action of that step. Here the environments that ended are stepped once more at once, alone, so that the batch has the
final observation of the ended episode and the first one of the next. EnvPool's ``reset`` of some environments is not
used for that: after the loss of a life, it would start a whole new game.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    EnvironmentFailed,
    EnvironmentSettings,
    EpisodeSeeds,
    Parameters,
    refuse_unknown_parameters,
)
from rlcore_gymnasium.envpool.spaces import TaskSpaces
from rlcore_gymnasium.envpool.tasks import Task, find_task
from rlcore_gymnasium.failures import failing_as
from rlcore_gymnasium.repeated_resets import are_tried
from rlcore_gymnasium.spaces import Observations

if TYPE_CHECKING:
    from rlcore import RunContext


def make_environment(settings: EnvironmentSettings, run: RunContext) -> EnvPoolEnvironment:
    """Create ``run.num_envs`` environments of the task ``settings.id``.

    Raises :class:`~rlcore.ConfigError` for an id, an option, an observation or a parameter that the task does not have,
    :class:`~rlcore.UnsupportedSpace` for observations or actions that rlcore does not know, and
    :class:`~rlcore.EnvironmentFailed` if this machine lacks what the task needs.
    """
    task = find_task(settings.id, settings.options or {})
    refuse_unknown_parameters(run.config.environment_parameters, (), task.id)
    (behavior,) = run.behavior_names  # the record says that there must be one
    observations: Observations = getattr(settings, "observations", {})
    environment = EnvPoolEnvironment(task, behavior, run.num_envs, observations)
    if are_tried(run):
        environment.say_what_is_left_out()
    return environment


MODULES = {"mujoco": "envpool.mujoco.gym", "atari": "envpool.atari"}


class EnvPoolEnvironment:
    """N environments of one task, with one behavior and one agent each.

    Each environment has a generator, which cannot be seeded again: ``reset`` makes a new pool, in which the generator
    of environment i starts with ``seeds(i, episodes[i])``. The episodes that follow draw from where the generator is.
    So an episode depends on the last reset and on what environment i played since, and not on other environments.
    """

    def __init__(self, task: Task, behavior: str, num_envs: int, observations: Observations) -> None:
        """``observations`` says what becomes of single observations."""
        self.task = task
        self.num_envs = num_envs
        self.episodes: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N]
        self._where = f"{task.id}: all {num_envs} environments"
        self._behavior = behavior
        self._spaces = TaskSpaces.of(task, observations)
        specs = self._spaces.observing.specs
        spec = self._spaces.acting.behavior(behavior, specs, np.arange(num_envs))
        self.behaviors: Mapping[str, BehaviorSpec] = {behavior: spec}
        self._pool: Any = None  # made by `reset`

    @property
    def marks(self) -> frozenset[str]:
        """``{"mujoco"}`` for Gymnasium's robots, ``{"atari"}`` for games (:attr:`rlcore.EnvironmentSpec.presets`)."""
        from envpool.registration import registry

        module, *_ = registry.specs[self.task.id]
        return frozenset(mark for mark, start in MODULES.items() if module.startswith(start))

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        self.close()  # the old pool's memory and threads are free before the new one has its own
        self.episodes = np.array(episodes, np.int64)
        with failing_as(f"{self._where}: reset failed"):
            seeds_of_envs = [seeds(env, episode) for env, episode in enumerate(self.episodes.tolist())]
            self._pool = self.task.make_pool(seeds_of_envs)
            self._pool.async_reset()
            return {self._behavior: self._received(self.num_envs)}

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        with failing_as(f"{self._where}: step failed"):
            action = self._spaces.acting.batch(actions[self._behavior])
            self._pool.send(action)
            batch = self._received(self.num_envs)
            if batch.ended.size:
                self._start_episodes(batch, action)
        return {self._behavior: batch}

    def say_what_is_left_out(self) -> None:
        """Log a line for each observation that agents do not get because networks cannot read it."""
        self._spaces.observing.say_what_is_left_out()

    def set_parameters(self, parameters: Parameters) -> None:
        refuse_unknown_parameters(parameters, (), self.task.id)

    def close(self) -> None:
        self._pool = None  # its threads end with it

    def _received(self, rows: int) -> AgentBatch:
        """Wait until ``rows`` environments, to which something was sent, have answered; return their batch."""
        raw, reward, terminated, truncated, info = self._pool.recv()
        return AgentBatch(
            self._spaces.observations(raw, rows),
            reward.astype(np.float32, copy=False),
            terminated,
            truncated,
            action_mask=self._spaces.masks(raw, info, rows),
        )

    def _start_episodes(self, batch: AgentBatch, action: Any) -> None:
        """Start an episode in the environments that ended one, and write its beginning into the batch."""
        ended = batch.ended
        rows = len(batch.ended)
        batch.final_observations = {name: array[ended] for name, array in batch.observations.items()}
        batch.final_action_mask = self._spaces.final(batch.action_mask, ended)
        # EnvPool ignores the action; the other environments do not move.
        self._pool.send(action[ended], ended.astype(np.int32))
        first = self._received(rows)
        if first.ended.size:
            raise EnvironmentFailed(
                f"{self.task.id}: an episode of environment {int(ended[first.ended[0]])} ended before its first action"
            )
        for name, array in batch.observations.items():
            array[ended] = first.observations[name]
        if batch.action_mask is not None:
            batch.action_mask[ended] = first.action_mask
        self.episodes[ended] += 1
