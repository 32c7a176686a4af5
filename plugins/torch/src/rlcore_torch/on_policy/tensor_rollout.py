"""The rollout buffer of an environment whose batches are tensors: all that is collected stays on one device.

It is the twin of :class:`~rlcore_torch.on_policy.rollout.RolloutBuffer` for agents that act in every step, and the
parts of an update read both alike. Nothing is read on the host while a rollout is collected. An update reads rewards,
flags and values there, once. Final observations are stored for every slot, because picking the rows that ended would
wait for the device; they are the second half of the buffer's memory, from the first end of an episode on.

Shapes: T rows, S slots, K episodes that ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    EnvironmentFailed,
    NonFiniteError,
    RunStateError,
    Transitions,
)
from rlcore_torch.networks.actions import ActionLayout
from rlcore_torch.on_policy.rollout import RolloutBuffer
from rlcore_torch.tensors.environment import TensorBatch

__all__ = ["TensorRollout"]

# Arrays with a row for each step, and those that have a row more: what follows the last step.
ACTED = ("raw", "choices", "columns", "logits")
RESULTS = ("reward", "terminated", "truncated")


class StoredOnDevice:
    """Observations and actions of a rollout, as the parts of an update read them."""

    memory = None
    group_reward = None
    behavior: BehaviorSpec
    seen: dict[str, Tensor]
    _acted: dict[str, Tensor]

    @property
    def raw(self) -> Tensor:
        """[T, S, continuous] continuous parts of the actions before clipping."""
        return self._acted["raw"]

    @property
    def choices(self) -> Tensor:
        """[T, S, branches] chosen options."""
        return self._acted["choices"]

    @property
    def columns(self) -> Tensor:
        """[T, S, columns] what the distribution of the continuous parts was given."""
        return self._acted["columns"]

    @property
    def logits(self) -> Tensor:
        """[T, S, logits] those of the choices, masked."""
        return self._acted["logits"]

    @property
    def observations(self) -> dict[str, Tensor]:
        """The observations of the environment by name, each [T + 1, S, *shape]."""
        return self.seen

    def refuse_missing_finals(self, slot: int) -> NoReturn:
        """Raise EnvironmentFailed because an episode of ``slot`` ended without final observations."""
        raise EnvironmentFailed(
            f"behavior {self.behavior.name!r}: an episode of slot {slot} (environment "
            f"{int(self.behavior.env_index[slot])}) ended in a batch whose final_observations are None; fix the "
            "environment, so that it gives the last observation of each episode that ended"
        )


class TensorRollout(StoredOnDevice):
    """Transitions of all slots since the last update, on a device.

    Attributes:
        behavior: The behavior whose agents act.
        rows: T, the rows of the buffer.
        row: Rows that are filled.
        seen: Observations by name, each [T + 1, S, *shape].
        ragged: False: all slots act together.
    """

    ragged = False

    def __init__(self, behavior: BehaviorSpec, device: torch.device, new_buffer: Callable[[], RolloutBuffer]) -> None:
        """``new_buffer`` makes an empty buffer of NumPy arrays of the same size, the form of a checkpoint."""
        self.behavior = behavior
        self.device = device
        self._new_buffer = new_buffer
        like = new_buffer()
        self.rows = like.rows
        self.row = 0
        self.seen = {name: self._zeros(array) for name, array in like.seen.items()}
        self._acted = {name: self._zeros(getattr(like, name)) for name in ACTED}
        self._results = {name: self._zeros(getattr(like, name)) for name in RESULTS}
        self._final_seen: dict[str, Tensor] = {}  # each [T, S, *shape], from the first end of an episode on
        self._without_final: set[int] = set()  # rows whose batch had no final observations
        self._masks: Tensor | None = None  # [T + 1, S, mask_size], from the first mask on
        self._cut: Tensor | None = None  # [T, S] where an episode was cut by `begin`, from the first cut on
        self.open_log_prob = like.open_log_prob  # not used while all slots act together
        self._played: list[AgentBatch] = []  # steps that the run has not counted yet
        self._counted = 0  # rows of those that are in `_played`, or were

    def _zeros(self, array: NDArray[Any]) -> Tensor:
        return torch.zeros(array.shape, dtype=torch.from_numpy(array[:0]).dtype, device=self.device)

    # ------------------------------------------------------------ writing

    def begin(self, batch: TensorBatch, memory: None = None) -> None:
        """First observations of new episodes in all slots; trajectories that were going on are cut."""
        if self.row:
            last = self.row - 1
            terminated = self._results["terminated"][last]
            truncated = self._results["truncated"][last]
            cut = ~(terminated | truncated)
            if self._cut is None:
                self._cut = torch.zeros_like(self._results["truncated"])
            self._cut[last] = cut
            truncated |= cut
            self._without_final.discard(last)
            self._keep_final({name: seen[self.row] for name, seen in self.seen.items()}, last, cut)
        self._write_next(batch)

    def act(self, raw: Any, choices: Any, columns: Any, logits: Any) -> None:
        """Store the actions of all slots at their current observation, and what their distribution was given.

        They are tensors on the device; on the CPU, also arrays.
        """
        for name, part in zip(ACTED, (raw, choices, columns, logits), strict=True):
            if part is not None:
                self._acted[name][self.row] = torch.as_tensor(part)

    def observe(self, batch: TensorBatch, memory: None = None) -> int:
        """Close the transitions of all slots; return how many."""
        for name in RESULTS:
            self._results[name][self.row] = getattr(batch, name)
        if batch.final_observations is not None:
            self._keep_final(batch.final_observations, self.row)
        else:
            self._without_final.add(self.row)
        self.row += 1
        self.__dict__.pop("_on_host", None)
        self._write_next(batch)
        return self.behavior.slots

    def _write_next(self, batch: TensorBatch) -> None:
        """The observations on which the slots act next."""
        for name, stored in self.seen.items():
            stored[self.row] = batch.observations[name]
        if batch.action_mask is not None:
            if self._masks is None:
                shape = (self.rows + 1, self.behavior.slots, self.behavior.mask_size)
                self._masks = torch.ones(shape, dtype=torch.bool, device=self.device)
            self._masks[self.row] = batch.action_mask
        elif self._masks is not None:
            self._masks[self.row] = True

    def _keep_final(self, observations: Mapping[str, Tensor], row: int, where: Tensor | None = None) -> None:
        """Keep the ``observations`` [S, *shape] of ``row``, in the slots ``where`` [S]; None: in all."""
        for name, seen in observations.items():
            if name not in self._final_seen:
                self._final_seen[name] = torch.zeros_like(self.seen[name][1:])
            kept = self._final_seen[name][row]
            if where is None:
                kept.copy_(seen)
            else:
                kept[where] = seen[where]

    def restart(self) -> None:
        """Forget the closed transitions; the current observation stays."""
        self._note_played()
        for stored in self.seen.values():
            stored[0] = stored[self.row]
        if self._masks is not None:
            self._masks[0] = self._masks[self.row]
        self.row = self._counted = 0
        self._without_final.clear()
        self._cut = None
        self.__dict__.pop("_on_host", None)

    # ------------------------------------------------------------ reading on the device

    @property
    def size(self) -> int:
        """Closed transitions over all slots."""
        return self.row * self.behavior.slots

    def lengths(self) -> NDArray[np.int64]:
        """Closed transitions of each slot, [S]."""
        return np.full(self.behavior.slots, self.row, np.int64)

    @property
    def masks(self) -> Tensor | None:
        """[T + 1, S, mask_size] whether each option was allowed; None: every option was."""
        return self._masks

    def finals(self) -> tuple[NDArray[np.int64], dict[str, Tensor]]:
        """``(row, slot)`` pairs [K, 2] that ended, and what their agents saw last, each [K, *shape] on the device.

        Raises EnvironmentFailed for an episode that ended without final observations.
        """
        places = np.argwhere(self.terminated[: self.row] | self.truncated[: self.row])
        without = np.isin(places[:, 0], list(self._without_final))
        if without.any():
            self.refuse_missing_finals(int(places[without][0, 1]))
        if not len(places):
            return places, {}
        at = tuple(torch.from_numpy(column.copy()).to(self.device) for column in places.T)
        return places, {name: seen[at] for name, seen in self._final_seen.items()}

    def followed(self, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the next observation is stored after each of these transitions [K]: always."""
        return np.ones(len(rows), np.bool_)

    # ------------------------------------------------------------ reading on the host

    @cached_property
    def _on_host(self) -> dict[str, NDArray[Any]]:
        """Rewards and flags of the rows that are filled, each [row, S]. On the CPU they are views."""
        return {name: each[: self.row].cpu().numpy() for name, each in self._results.items()}

    @property
    def reward(self) -> NDArray[np.float32]:
        """[row, S] rewards of the closed transitions."""
        return self._on_host["reward"]

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """[row, S] whether each closed transition terminated its episode."""
        return self._on_host["terminated"]

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """[row, S] whether each closed transition was the last one of an episode that was cut off."""
        return self._on_host["truncated"]

    def cut_rows(self) -> NDArray[np.int64]:
        """``(row, slot)`` pairs [k, 2] after which an episode was cut: truncated for learning, not an end."""
        return np.empty((0, 2), np.int64) if self._cut is None else np.argwhere(self._cut[: self.row].cpu().numpy())

    def transitions(self, layout: ActionLayout, rows: int, at: NDArray[np.bool_] | slice) -> Transitions:
        """Return the rewards and flags [rows, S] for the environment's reward; there are no observations or actions."""
        return Transitions({}, Actions(), self.reward[:rows], self.terminated[:rows], self.truncated[:rows])

    def require_finite(self, step: int) -> None:
        """Raise NonFiniteError if a reward or an observation of the rollout is NaN or infinite; ``step`` is the run's.

        Once an update, because the run does not look at batches that stay on a device.
        """
        results = {"reward": self._results["reward"][: self.row]}
        seen = {f"observation {name!r}": each[1 : self.row + 1] for name, each in self.seen.items()}
        for what, values in {**results, **seen}.items():
            if values.dtype.is_floating_point and not bool(values.isfinite().all()):
                row, slot, *_ = (~values.isfinite()).nonzero()[0].tolist()
                refuse_non_finite(
                    self.behavior, what, slot, f"after step {row + 1} of the {self.row} environment", step
                )
        places, finals = self.finals()
        for name, values in finals.items():
            if values.dtype.is_floating_point and not bool(values.isfinite().all()):
                row, slot = places[int((~values.isfinite()).nonzero()[0][0])].tolist()
                place = f"after step {row + 1} of the {self.row} environment"
                refuse_non_finite(self.behavior, f"final observation {name!r}", slot, place, step)

    def played(self) -> list[AgentBatch]:
        """Return the rewards and flags of the steps since the last call, in order."""
        self._note_played()
        played = self._played
        self._played = []
        return played

    def _note_played(self) -> None:
        rows = slice(self._counted, self.row)
        parts = [each[rows].cpu().numpy().copy() for each in self._results.values()]
        self._played += [AgentBatch({}, *of_row) for of_row in zip(*parts, strict=True)]
        self._counted = self.row

    # ------------------------------------------------------------ checkpoints

    def on_host(self) -> RolloutBuffer:
        """Return the rollout as arrays, for a checkpoint."""
        buffer = self._new_buffer()
        buffer.row = rows = self.row
        for name, seen in self.seen.items():
            buffer.seen[name][: rows + 1] = seen[: rows + 1].cpu().numpy()
        for name, stored in {**self._acted, **self._results}.items():
            getattr(buffer, name)[:rows] = stored[:rows].cpu().numpy()
        if self._masks is not None:
            buffer.mask_rows()[: rows + 1] = self._masks[: rows + 1].cpu().numpy()
        places, final_seen = self.finals()
        if len(places):
            buffer.final_rows = [places]
            buffer.final_seen = [{name: seen.cpu().numpy() for name, seen in final_seen.items()}]
        if len(cuts := self.cut_rows()):
            buffer.cuts = [cuts]
        return buffer

    def load(self, buffer: RolloutBuffer) -> None:
        """Continue from a rollout as arrays. The run has counted its steps.

        Raises RunStateError for a rollout in which some slots waited.
        """
        if buffer.ragged:
            raise RunStateError(
                f"behavior {self.behavior.name!r}: agents waited in the rollout of the checkpoint, and tensors cannot "
                "continue it; resume with the environment and the workers of the run"
            )
        self.row = self._counted = rows = buffer.row
        self.__dict__.pop("_on_host", None)
        for name, array in buffer.seen.items():
            self.seen[name][: rows + 1] = torch.from_numpy(array[: rows + 1])
        for name, stored in {**self._acted, **self._results}.items():
            stored[:rows] = torch.from_numpy(getattr(buffer, name)[:rows])
        if buffer.masks is not None:
            self._masks = torch.from_numpy(buffer.masks.copy()).to(self.device)
        places, final_seen = buffer.finals()
        at = tuple(torch.from_numpy(column.copy()).to(self.device) for column in places.T)
        for name, array in final_seen.items():
            self._final_seen[name] = torch.zeros_like(self.seen[name][1:])
            self._final_seen[name][at] = torch.from_numpy(array).to(self.device)
        if len(cuts := buffer.cut_rows()):
            self._cut = torch.zeros_like(self._results["truncated"])
            self._cut[tuple(torch.from_numpy(column.copy()).to(self.device) for column in cuts.T)] = True


def refuse_non_finite(behavior: BehaviorSpec, what: str, slot: int, place: str, step: int) -> NoReturn:
    """Raise NonFiniteError for ``what`` of a slot, at the ``place`` among the steps before agent step ``step``."""
    raise NonFiniteError(
        f"behavior {behavior.name!r}: {what} of slot {slot} (environment {int(behavior.env_index[slot])}) is NaN or "
        f"infinite {place} steps before agent step {step}; fix the environment"
    )
