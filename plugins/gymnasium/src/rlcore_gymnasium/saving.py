"""Environments in this process that save their state: checkpoints do not end their episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlcore import AgentBatch, EpisodeSeeds, SavedValueError, fill, saved_array, saved_count, saved_entry, saved_mapping
from rlcore_gymnasium.in_process import InProcessEnvironment
from rlcore_gymnasium.saved_state import attributes, has_physics, restore, restore_physics, save, save_physics


class SavingEnvironment(InProcessEnvironment):
    """Environments of classes that :mod:`rlcore_gymnasium.saved_state` knows."""

    saves_rows = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # By environment, the attributes that it was made with: a state has only those that differ.
        self._new = [attributes(env.unwrapped) for env in self.vector.envs]

    def state_dict(self) -> dict[str, Any]:
        envs = self.vector.envs
        return {
            "episodes": self.episodes.copy(),
            "run_seed": self._seeds.run_seed,
            "first_env": self._seeds.first_env,
            "observations": {name: array.copy() for name, array in self._observations.items()},
            "environments": [save(env, new) for env, new in zip(envs, self._new, strict=True)],
            "physics": save_physics(envs) if has_physics(envs[0]) else None,
            "parameters": self._delivery.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        envs, saved = self.vector.envs, saved_entry(state, "environments")
        if not isinstance(saved, list) or len(saved) != self.num_envs:
            raise SavedValueError(f"the entry 'environments' has not one state for each of {self.num_envs}")
        episodes = saved_array(state, "episodes", np.int64, (self.num_envs,))
        seeds = EpisodeSeeds(saved_count(state, "run_seed"), saved_count(state, "first_env"))
        observations = saved_mapping(state, "observations")
        for name, array in self._observations.items():
            fill(array, observations, name)
        self._begin(seeds, episodes)
        self._delivery.remake(saved_mapping(state, "parameters"))
        for index, (env, own) in enumerate(zip(envs, saved, strict=True)):
            env.reset(seed=0)  # creates what the state replaces
            restore(env, own, self._new[index])
        if has_physics(envs[0]):
            restore_physics(envs, saved_mapping(state, "physics"))
        self._delivery.load_state_dict(saved_mapping(state, "parameters"))
        return self._first_batch(self._observations)

    def _remake(self, index: int, arguments: Mapping[str, Any]) -> None:
        super()._remake(index, arguments)
        self._new[index] = attributes(self.vector.envs[index].unwrapped)
