"""The tensor contract: N environments whose observations, rewards and flags are tensors on one device.

It is :class:`rlcore.Environment` for simulators that compute on a device: the same slots, the same automatic reset
within the step, and tensors instead of arrays. Nothing in a step needs a value on the host. A run gets such an
environment through :class:`rlcore_torch.AsNumpy`.

Shapes: S slots, N environments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import Actions, AgentBatch, BehaviorSpec, EpisodeSeeds
from rlcore_torch.arrays import Array

__all__ = ["TensorActions", "TensorBatch", "TensorEnvironment"]


@attrs.define(eq=False)
class TensorActions:
    """The next action of every slot, as :class:`rlcore.Actions`. Rows that need no action are present and ignored.

    Attributes:
        continuous: [S, continuous] float32, real parts in the environment's own units; None if the behavior has none.
        discrete: [S, branches] int64, index of the chosen option of each branch; None if the behavior has no branches.
    """

    continuous: Tensor | None = None
    discrete: Tensor | None = None

    @classmethod
    def of(cls, actions: Actions, device: torch.device) -> TensorActions:
        """Return ``actions`` on ``device``. On the CPU they share the memory of ``actions``."""
        on_device = cls()
        if actions.continuous is not None:
            on_device.continuous = torch.from_numpy(actions.continuous).to(device)
        if actions.discrete is not None:
            on_device.discrete = torch.from_numpy(actions.discrete).to(device)
        return on_device


@attrs.define(eq=False)
class TensorBatch:
    """The data that the agents of one behavior receive after one environment step, for S slots.

    The fields are those of :class:`rlcore.AgentBatch`, with these differences. There is no ``ended``, and the final
    observations have a row for every slot: to pick the rows that ended, the host would have to wait for the device.
    Rewards of groups, lost environments, lost lives and numbers of an episode are not reported. Where a flag is set,
    the row of ``observations`` already holds the first observation of the next episode.

    The tensors belong to the environment and hold their values until its next ``step``, ``reset`` or
    ``load_state_dict``. Only the environment writes into them.

    Attributes:
        observations: Observations by name, each [S, *shape] of the type of its spec.
        reward: [S] float32, sum of the rewards since the slot's last action; ignored where the transition stays open.
        terminated: [S] bool, the episode ended by the task's own rule.
        truncated: [S] bool, the episode was cut off. Never where ``terminated`` is set.
        final_observations: The last observation of each ended episode by name, each [S, *shape]. Rows without a flag
            hold any valid numbers. None only if no episode ended.
        needs_action: [S] bool, whether the slot acts next; None: every slot does.
        action_mask: [S, mask_size] bool, whether each option of each discrete branch is allowed, branches side by side.
            None: every option is.
        final_action_mask: [S, mask_size] bool, whether each option is allowed at the final observation of an ended
            episode; rows without a flag are ignored. None: every option is.
        group_reward: None: there are no groups. For code that takes either batch.
        aborted: None: no environment is lost.
        life_lost: None: lives are not reported.
    """

    group_reward: ClassVar[None] = None
    aborted: ClassVar[None] = None
    life_lost: ClassVar[None] = None

    observations: dict[str, Tensor]
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    final_observations: dict[str, Tensor] | None = None
    needs_action: Tensor | None = None
    action_mask: Tensor | None = None
    final_action_mask: Tensor | None = None

    def on_host(self) -> AgentBatch:
        """Return the batch as NumPy arrays, which waits for the device. On the CPU they share memory with the batch."""
        terminated = _on_host(self.terminated)
        truncated = _on_host(self.truncated)
        ended = np.flatnonzero(terminated | truncated)
        observations = {name: _on_host(tensor) for name, tensor in self.observations.items()}
        batch = AgentBatch(observations, _on_host(self.reward), terminated, truncated, ended)
        if self.needs_action is not None:
            batch.needs_action = _on_host(self.needs_action)
        if self.action_mask is not None:
            batch.action_mask = _on_host(self.action_mask)
        if len(ended):
            # Picked on the device: only the rows that ended are copied.
            rows = torch.from_numpy(ended).to(self.reward.device)
            batch.final_observations = {}
            for name, final in (self.final_observations or {}).items():
                batch.final_observations[name] = _on_host(final.index_select(0, rows))
            if self.final_action_mask is not None:
                batch.final_action_mask = _on_host(self.final_action_mask.index_select(0, rows))
        return batch


def _on_host(tensor: Tensor) -> Array:
    array: Array = tensor.cpu().numpy()
    return array


def first_batch(observations: dict[str, Tensor], slots: int, device: torch.device) -> TensorBatch:
    """Return the batch that episodes begin with: zero rewards and no flag set."""
    reward = torch.zeros(slots, device=device)
    never = torch.zeros(slots, dtype=torch.bool, device=device)
    return TensorBatch(observations, reward, never, never.clone())


@runtime_checkable
class TensorEnvironment(Protocol):
    """N environments of one kind that step together on one device.

    Rules, all checked by ``rlcore_devkit.TensorEnvironmentConformance``:

    * Episodes have numbers and seeds as :class:`rlcore.Environment` says: environment c plays the episode numbered
      ``episodes[c]``, and after an automatic reset the next number. What is random in an episode depends on
      ``seeds.run_seed``, ``seeds.first_env + c`` and the number of the episode, and on nothing else. The host's hash
      ``seeds(c, number)`` cannot be called on a device: :func:`rlcore_torch.fold_in` and ``jax.random.fold_in`` do the
      same there, first with the environment's number and then with the episode's.
    * Equal seeds and equal actions give equal batches, bit for bit.
    * ``load_state_dict`` continues bit for bit what ``state_dict`` saved, in another process too.
    * ``step`` neither reads a value on the host nor waits for the device, unless the simulator has to.

    Attributes:
        behaviors: The behaviors by name. They do not change while the environment is open.
        num_envs: N, the number of environments.
        device: The device of all tensors, given and returned.
        takes_turns: Whether batches may have ``needs_action``. It does not change.
    """

    behaviors: Mapping[str, BehaviorSpec]
    num_envs: int
    device: torch.device
    takes_turns: bool

    @property
    def episodes(self) -> NDArray[np.int64]:
        """[N] number of the episode that each environment is in, read from the device; a copy."""

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, TensorBatch]:
        """Start episode ``episodes[c]`` in every environment c; ``episodes`` is [N].

        Returns a batch for each behavior, by name, with zero rewards and no flag set.
        """

    def step(self, actions: Mapping[str, TensorActions]) -> dict[str, TensorBatch]:
        """Move every environment once with the actions of each behavior; return a batch for each behavior, by name.

        Every environment whose episode ends starts the next one at once. The actions are read before ``step``
        returns, or copied: their tensors may be overwritten then.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return the state as nested mappings of NumPy arrays and JSON values; arrays are copies.

        Save a tree of arrays by the path of each leaf, such as ``{"position": ..., "pieces/0": ...}``, and the run seed
        and ``first_env`` too.
        """

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, TensorBatch]:
        """Continue from ``state``; return the current batches, with zero rewards and no flag set.

        Raises RunStateError if the state does not fit.
        """

    def close(self) -> None:
        """Free what the environment holds; may be called twice."""
