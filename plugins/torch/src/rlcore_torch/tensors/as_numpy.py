"""A tensor environment as an environment of a run, whose other parts compute in NumPy."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlcore import AgentBatch, BehaviorSpec, EpisodeSeeds, Parameters, refuse_unknown_parameters
from rlcore_torch.tensors.environment import TensorActions, TensorBatch, TensorEnvironment
from rlcore_torch.tensors.form import BatchForm

__all__ = ["AsNumpy"]

if TYPE_CHECKING:
    from rlcore_torch.tensors.rsl_rl import RslRlTensors

log = logging.getLogger("rlcore.plugin.torch")


class UnsavedAsNumpy:
    """A tensor environment whose state cannot be saved, as a :class:`rlcore.Environment`.

    Each checkpoint then starts new episodes. Otherwise it is :class:`AsNumpy`.

    Attributes:
        tensors: The environment inside.
        name: The name of the environment in messages.
        behaviors: The behaviors by name.
        num_envs: N, the number of environments.
    """

    def __init__(self, tensors: TensorEnvironment | RslRlTensors, name: str = "the environment") -> None:
        self.tensors = tensors
        self.name = name
        self.behaviors: Mapping[str, BehaviorSpec] = tensors.behaviors
        self.num_envs = tensors.num_envs
        # Checked at every step: a tensor of another form may be broadcast or copied silently, and be learned from.
        self._form = BatchForm(tensors.behaviors, tensors.device, tensors.takes_turns, name)
        self._trainer: Any = None  # that takes tensors
        self._name = ""  # of the behavior that it learns
        self._episodes: NDArray[np.int64] | None = None  # as they were last read from the device

    @property
    def resume_limits(self) -> tuple[str, ...]:
        """Why a resumed run is not equal to one that was never stopped; see :class:`rlcore.Environment`."""
        return tuple(getattr(self.tensors, "resume_limits", ()))

    @property
    def episodes(self) -> NDArray[np.int64]:
        """[N] number of the episode that each environment is in."""
        if self._episodes is None:
            self._episodes = self.tensors.episodes
        return self._episodes

    def keep_batches(self, trainers: Sequence[Any]) -> bool:
        """Return whether the trainer takes tensors from now on, as :meth:`rlcore.KeepsBatches.keep_batches` says."""
        take = getattr(type(trainers[0]), "take_tensors", None)  # not that of a trainer that another one wraps
        if take is None:
            refusal = "the trainer computes in NumPy"
        elif len(trainers) > 1:
            refusal = "there are several behaviors"
        elif self.tensors.takes_turns:
            refusal = take(trainers[0], self.tensors.device, takes_turns=True)
        else:
            refusal = take(trainers[0], self.tensors.device)
        if refusal is None:
            [self._name] = self.behaviors
            [self._trainer] = trainers
            return True
        log.info("%s: its tensors go to the trainers as NumPy arrays: %s", self.name, refusal)
        return False

    def played(self) -> Mapping[str, Sequence[AgentBatch]]:
        """Return rewards and flags of the steps since the last call, as :meth:`rlcore.KeepsBatches.played` says."""
        return {self._name: self._trainer.played()}

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, Any]:
        """Start an episode in every environment, as :meth:`rlcore.Environment.reset` says."""
        batches = self.tensors.reset(seeds, episodes)
        return self._received(batches, "reset")

    def step(self, actions: Mapping[str, Any]) -> dict[str, Any]:
        """Move every environment once, as :meth:`rlcore.Environment.step` says."""
        if self._trainer is None:
            device = self.tensors.device
            actions = {name: TensorActions.of(arrays, device) for name, arrays in actions.items()}
        batches = self.tensors.step(actions)
        return self._received(batches, "step")

    def _received(self, batches: dict[str, TensorBatch], method: str) -> dict[str, Any]:
        """Return what the run gets of ``batches``, which ``method`` of the environment inside returned."""
        self._episodes = None
        self._form.require(batches, method)
        if self._trainer is not None:
            return batches
        return {name: batch.on_host() for name, batch in batches.items()}

    def set_parameters(self, parameters: Parameters) -> None:
        """Raise ConfigError for the first of the ``parameters``: there are none."""
        refuse_unknown_parameters(parameters, (), self.name)

    def close(self) -> None:
        """Close the environment inside."""
        self.tensors.close()


class AsNumpy(UnsavedAsNumpy):
    """A :class:`rlcore_torch.TensorEnvironment` as a :class:`rlcore.Environment`: what a plugin returns to a run.

    Evaluations, workers, and trainers that compute in NumPy get NumPy arrays. A trainer that takes tensors, such as
    PPO, gets the batches of the environment inside, and nothing is copied to the host between two updates. It has a
    method ``take_tensors(device, takes_turns=False)``, which returns None, or in words why not; ``played()`` is that of
    :class:`rlcore.KeepsBatches`. There are no environment parameters.

    Attributes:
        tensors: The environment inside.
        name: The name of the environment in messages.
        behaviors: The behaviors by name.
        num_envs: N, the number of environments.
    """

    tensors: TensorEnvironment

    @property
    def saves_rows(self) -> bool:
        """Whether the environment inside says that its state has rows; see :class:`rlcore.SavesRows`."""
        return bool(getattr(self.tensors, "saves_rows", False))

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as :meth:`rlcore.SavesState.state_dict` says."""
        return self.tensors.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Continue from ``state``, as :meth:`rlcore.SavesState.load_state_dict` says."""
        batches = self.tensors.load_state_dict(state)
        return self._received(batches, "load_state_dict")
