"""A tensor environment as an environment of a run, whose other parts compute in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, BehaviorSpec, EpisodeSeeds, Parameters, refuse_unknown_parameters
from rlcore_torch.tensors.environment import TensorActions, TensorBatch, TensorEnvironment

__all__ = ["AsNumpy"]


class AsNumpy:
    """A :class:`rlcore_torch.TensorEnvironment` as a :class:`rlcore.Environment`: what a plugin returns to a run.

    Evaluations, workers, and trainers that compute in NumPy get NumPy arrays. It has no environment parameters.

    Attributes:
        tensors: The environment inside.
        name: The name of the environment in messages.
        behaviors: The behaviors by name.
        num_envs: N, the number of environments.
    """

    def __init__(self, tensors: TensorEnvironment, name: str = "the environment") -> None:
        self.tensors = tensors
        self.name = name
        self.behaviors: Mapping[str, BehaviorSpec] = tensors.behaviors
        self.num_envs = tensors.num_envs
        self._episodes: NDArray[np.int64] | None = None  # as they were last read from the device

    @property
    def episodes(self) -> NDArray[np.int64]:
        """[N] number of the episode that each environment is in."""
        if self._episodes is None:
            self._episodes = self.tensors.episodes
        return self._episodes

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Start an episode in every environment, as :meth:`rlcore.Environment.reset` says."""
        return self._given(self.tensors.reset(seeds, episodes))

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        """Move every environment once, as :meth:`rlcore.Environment.step` says."""
        device = self.tensors.device
        return self._given(self.tensors.step({name: TensorActions.of(each, device) for name, each in actions.items()}))

    def _given(self, batches: Mapping[str, TensorBatch]) -> dict[str, AgentBatch]:
        self._episodes = None
        return {name: batch.on_host() for name, batch in batches.items()}

    def set_parameters(self, parameters: Parameters) -> None:
        """Raise ConfigError for the first of the ``parameters``: there are none."""
        refuse_unknown_parameters(parameters, (), self.name)

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as :meth:`rlcore.SavesState.state_dict` says."""
        return self.tensors.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        """Continue from ``state``, as :meth:`rlcore.SavesState.load_state_dict` says."""
        return self._given(self.tensors.load_state_dict(state))

    def close(self) -> None:
        """Close the environment inside."""
        self.tensors.close()
