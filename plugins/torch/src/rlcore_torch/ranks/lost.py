"""Environments that take the place of a rank's own, which ended or failed, until all ranks of the run stop together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlcore import Actions, AgentBatch, BehaviorSpec, Environment, EpisodeSeeds, Parameters
from rlcore_torch.arrays import Array, IntArray


class LostEnvironments:
    """Environments in which nothing happens: the first step drops all open episodes, and no agent acts.

    The other ranks are within the same step, and exchange what they learn in each one. So this rank takes part, and
    adds nothing, until the ranks agree to stop.
    """

    def __init__(self, environment: Environment) -> None:
        self.behaviors: Mapping[str, BehaviorSpec] = environment.behaviors
        self.num_envs = environment.num_envs
        self.episodes: IntArray = np.array(environment.episodes, np.int64)
        self._lost = environment
        self._dropped = False  # whether open episodes were: the first step drops them

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        return self.receive()

    def send(self, actions: Mapping[str, Actions]) -> None:
        """Send nothing: no agent acts."""

    def receive(self) -> dict[str, AgentBatch]:
        batches = self._nothing()
        if not self._dropped:
            for name, batch in batches.items():
                slots = self.behaviors[name].slots
                batch.aborted = np.ones(slots, np.bool_)
        self._dropped = True
        return batches

    def reset(self, seeds: EpisodeSeeds, episodes: IntArray) -> dict[str, AgentBatch]:
        return self._nothing()

    def set_parameters(self, parameters: Parameters) -> None:
        """Nothing begins any more."""

    def close(self) -> None:
        self._lost.close()

    def _nothing(self) -> dict[str, AgentBatch]:
        return {name: _nothing_for(spec) for name, spec in self.behaviors.items()}


def _nothing_for(spec: BehaviorSpec) -> AgentBatch:
    slots = spec.slots
    observations = {}
    for observation in spec.observations:
        observations[observation.name] = np.zeros((slots, *observation.shape), observation.dtype)
    never: Array = np.zeros(slots, np.bool_)
    reward = np.zeros(slots, np.float32)
    batch = AgentBatch(observations, reward, never, never.copy(), needs_action=never.copy())
    if spec.group is not None:
        batch.group_reward = reward.copy()
    return batch
