"""Rollout buffers of an environment whose batches are tensors: observations and actions stay on one device.

They are a :class:`~rlcore_torch.on_policy.rollout.RolloutBuffer` whose large arrays are tensors, and an update reads
them as it reads arrays. Rewards and flags, a few bytes of a slot, are arrays on the host: from each step on where
agents act in turns, because the flags say which slot acts in which row, and before an update where all act together.

Shapes: T rows, S slots, K episodes that ended.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import attrs
import numpy as np
import torch
from torch import Tensor

from rlcore import Actions, AgentBatch, EnvironmentFailed, NonFiniteError, RunStateError, Transitions
from rlcore_torch.arrays import Array, Arrays, BoolArray, FloatArray, Indices, IntArray
from rlcore_torch.networks.actions import ActionLayout
from rlcore_torch.on_policy.rollout import ACTED, OF_SLOTS, RESULTS, Pairs, RolloutBuffer

__all__ = ["TensorRollout", "TurnsRollout"]

# What a rollout has on the host, and a checkpoint takes as it is.
ON_HOST = ("rows", "row", "ragged", *RESULTS, *OF_SLOTS, "open_log_prob", "cuts")


class DeviceRollout(RolloutBuffer):
    """A rollout whose observations, actions and masks are on a device; the base of both kinds.

    Attributes:
        device: The device.
        observed_at: How messages call the step of an observation or a reward, with its number and that of all steps.
        ended_at: How they call that of a final observation.
    """

    observed_at: str
    ended_at: str

    def __init__(self, device: torch.device, *sizes: Any) -> None:
        """``sizes`` are the arguments of :class:`RolloutBuffer`."""
        self.device = device
        self._sizes = sizes
        self._played: list[AgentBatch] = []  # steps that the run has not counted yet
        super().__init__(*sizes)

    # ------------------------------------------------------------ what is large

    def _zeros(self, shape: tuple[int, ...], dtype: Any) -> Tensor:
        empty = torch.from_numpy(np.empty(0, dtype))  # PyTorch's type of the same name
        return torch.zeros(shape, dtype=empty.dtype, device=self.device)

    def _place(self, rows: IntArray, slots: Indices) -> tuple[Any, Any]:
        slot_indices = self._tensor(slots)
        row_indices = self._tensor(rows)
        return (row_indices, slot_indices), slot_indices

    def _write(self, array: Tensor, at: Any, values: Tensor, slots: Any) -> None:
        array[at] = values[slots].to(array.dtype)

    def _concatenated(self, parts: list[Tensor]) -> Tensor:
        return torch.cat(parts)

    def act(self, raw: Any, choices: Any, columns: Any, logits: Any) -> None:
        """Store the actions of the slots that act; each is [S, ...] on the device, and on the CPU may be an array."""
        tensors = []
        for part in (raw, choices, columns, logits):
            tensors.append(None if part is None else torch.as_tensor(part))
        super().act(*tensors)

    # ------------------------------------------------------------ reading

    def transitions(self, layout: ActionLayout, rows: int, at: BoolArray | slice) -> Transitions:
        """Return the rewards and flags for the environment's reward, without observations and actions."""
        reward, terminated, truncated = (getattr(self, name)[:rows][at] for name in RESULTS)
        slot = None
        if not isinstance(at, slice):
            _, slot = np.nonzero(at)
        return Transitions({}, Actions(), reward, terminated, truncated, slot=slot)

    def require_finite(self, step: int) -> None:
        """Raise NonFiniteError if a reward or an observation of the rollout is NaN or infinite; ``step`` is the run's.

        Once an update, because the run does not look at batches that stay on a device.
        """
        for what, values, written in self._written():
            if not values.dtype.is_floating_point:
                continue
            # A sum is finite unless a number is not, or numbers are huge; looking at each takes several times as long.
            if bool(values.sum().isfinite()):
                continue
            wrong = ~values.isfinite()
            if wrong.dim() > 2:
                wrong = wrong.flatten(2).any(2)  # [rows, S]
            wrong &= torch.from_numpy(written).to(wrong.device)
            if bool(wrong.any()):
                row, slot = wrong.nonzero()[0].tolist()
                place = self.observed_at.format(row + 1, self.row)
                self._refuse_non_finite(what, slot, place, step)
        places, finals = self.finals()
        for name, values in finals.items():
            if not values.dtype.is_floating_point:
                continue
            wrong = ~values.isfinite()
            if bool(wrong.any()):
                first = wrong.nonzero()[0]
                row, slot = places[int(first[0])].tolist()
                place = self.ended_at.format(row + 1, self.row)
                self._refuse_non_finite(f"final observation {name!r}", slot, place, step)

    def _written(self) -> Iterator[tuple[str, Tensor, BoolArray]]:
        """Yield names, numbers [rows, S, ...], and which [rows, S] of them the rollout wrote."""
        raise NotImplementedError

    def _refuse_non_finite(self, what: str, slot: int, place: str, step: int) -> NoReturn:
        raise NonFiniteError(
            f"behavior {self.behavior.name!r}: {what} of {self._called(slot)} is NaN or infinite {place} steps before "
            f"agent step {step}; fix the environment"
        )

    def _refuse_missing_finals(self, slot: int) -> NoReturn:
        raise EnvironmentFailed(
            f"behavior {self.behavior.name!r}: an episode of {self._called(slot)} ended in a batch whose "
            "final_observations are None; fix the environment, so that it gives the last observation of each episode "
            "that ended"
        )

    def _called(self, slot: int) -> str:
        environment = int(self.behavior.env_index[slot])
        return f"slot {slot} (environment {environment})"

    def played(self) -> list[AgentBatch]:
        """Return the rewards and flags of the steps since the last call, in order."""
        played = self._played
        self._played = []
        return played

    # ------------------------------------------------------------ checkpoints

    def on_host(self) -> RolloutBuffer:
        """Return a copy of the rollout as arrays, for a checkpoint."""
        buffer = RolloutBuffer(*self._sizes)
        for name in ON_HOST:
            setattr(buffer, name, copy.copy(getattr(self, name)))
        for name in ACTED:
            setattr(buffer, name, _array(getattr(self, name)))
        buffer.seen = _arrays(self.seen)
        if self.masks is not None:
            buffer.masks = _array(self.masks)
        places, final_seen = self.finals()
        if len(places):
            buffer.final_rows = [places]
            buffer.final_seen = [_arrays(final_seen)]
        return buffer

    def load(self, buffer: RolloutBuffer) -> None:
        """Continue from a rollout as arrays, whose steps the run has counted."""
        for name in (*ON_HOST, "final_rows"):
            setattr(self, name, getattr(buffer, name))
        for name in ACTED:
            setattr(self, name, self._tensor(getattr(buffer, name)))
        self.seen = self._tensors(buffer.seen)
        self.masks = None
        if buffer.masks is not None:
            self.masks = self._tensor(buffer.masks)
        self.final_seen = [self._tensors(observations) for observations in buffer.final_seen]
        self._played = []

    def _tensors(self, arrays: Arrays) -> dict[str, Tensor]:
        return {name: self._tensor(array) for name, array in arrays.items()}

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self.device)


class TensorRollout(DeviceRollout):
    """Transitions of slots that all act in every step: nothing is read on the host while they are collected.

    Final observations are stored for every slot, because picking the rows that ended would wait for the device; they
    are the second half of the buffer's memory, from the first end of an episode on.
    """

    observed_at = ended_at = "after step {} of the {} environment"

    def __init__(self, device: torch.device, *sizes: Any) -> None:
        super().__init__(device, *sizes)
        # Each [T, S] on the device; the rows before `_read` are in the arrays of the host too.
        self._results: dict[str, Tensor] = {}
        for name in RESULTS:
            on_host = getattr(self, name)
            self._results[name] = self._tensor(np.zeros_like(on_host))
        self._read = 0
        self._final_seen: dict[str, Tensor] = {}  # each [T, S, *shape]
        self._without_final: set[int] = set()  # rows whose batch had no final observations

    def as_values(self, numbers: Tensor | Array) -> Tensor:
        """Return ``numbers`` in the form in which advantages of this rollout are computed: tensors on the device."""
        return torch.as_tensor(numbers).to(self.device)

    def begin(self, batch: Any, memory: FloatArray | None = None) -> None:
        """First observations of new episodes in all slots; trajectories that were going on are cut."""
        self._read_results()
        super().begin(batch)
        if self.final_rows:
            self._without_final.discard(self.row - 1)
            self._move_finals()

    def observe(self, batch: Any, memory: FloatArray | None = None, over: Indices | None = None) -> int:
        """Close the transitions of all slots; return how many."""
        for name, stored in self._results.items():
            stored[self.row] = getattr(batch, name)
        if batch.final_observations is None:
            self._without_final.add(self.row)
        else:
            for name, seen in batch.final_observations.items():
                self._finals_of(name)[self.row] = seen
        self.row += 1
        self._write_next(batch, None)
        return self.behavior.slots

    def _finals_of(self, name: str) -> Tensor:
        if name not in self._final_seen:
            of_steps = self.seen[name][1:]
            self._final_seen[name] = torch.zeros_like(of_steps)
        return self._final_seen[name]

    def _move_finals(self) -> None:
        """Store what :class:`RolloutBuffer` keeps in lists in the rows of the steps."""
        for pairs, final_seen in zip(self.final_rows, self.final_seen, strict=True):
            at, _ = self._place(*pairs.T)
            for name, seen in final_seen.items():
                self._finals_of(name)[at] = seen
        self.final_rows = []
        self.final_seen = []

    def _read_results(self) -> None:
        """Read the rewards and flags of the steps since the last call."""
        rows = slice(self._read, self.row)
        parts = [_array(stored[rows]) for stored in self._results.values()]
        for name, part in zip(RESULTS, parts, strict=True):
            getattr(self, name)[rows] = part
        for reward, terminated, truncated in zip(*parts, strict=True):
            self._played.append(AgentBatch({}, reward, terminated, truncated))
        self._read = self.row

    def restart(self) -> None:
        """Forget the closed transitions; the current observation stays."""
        self._read_results()
        super().restart()
        self._read = 0
        self._without_final.clear()

    def finals(self) -> tuple[Pairs, dict[str, Tensor]]:
        """``(row, slot)`` pairs [K, 2] that ended, and what their agents saw last, each [K, *shape] on the device.

        Raises EnvironmentFailed for an episode that ended without final observations.
        """
        self._read_results()
        ended = self.terminated[: self.row] | self.truncated[: self.row]
        places = np.argwhere(ended)
        without = np.isin(places[:, 0], list(self._without_final))
        if without.any():
            _, slot = places[without][0]
            self._refuse_missing_finals(int(slot))
        if not len(places):
            return places, {}
        at, _ = self._place(*places.T)
        return places, {name: seen[at] for name, seen in self._final_seen.items()}

    def _written(self) -> Iterator[tuple[str, Tensor, BoolArray]]:
        self._read_results()
        all_slots = np.ones((self.row, self.behavior.slots), np.bool_)
        yield "reward", torch.from_numpy(self.reward[: self.row]), all_slots
        for name, seen in self.seen.items():
            yield f"observation {name!r}", seen[1 : self.row + 1], all_slots

    def played(self) -> list[AgentBatch]:
        """Return the rewards and flags of the steps since the last call, in order."""
        self._read_results()
        return super().played()

    def load(self, buffer: RolloutBuffer) -> None:
        """Continue from a rollout as arrays, whose steps the run has counted.

        Raises RunStateError for a rollout in which some slots waited.
        """
        if buffer.ragged:
            raise RunStateError(
                f"behavior {self.behavior.name!r}: agents waited in the rollout of the checkpoint, and tensors cannot "
                "continue it; resume with the environment and the workers of the run"
            )
        super().load(buffer)
        self._read = self.row
        self._move_finals()


class TurnsRollout(DeviceRollout):
    """Transitions of slots that act in turns; slot s has ``lengths()[s]`` of them."""

    observed_at = "at action {} of its"
    ended_at = "after action {} of its"

    def __init__(self, device: torch.device, *sizes: Any) -> None:
        super().__init__(device, *sizes)
        self.ragged = True

    def begin(self, batch: Any, memory: FloatArray | None = None) -> None:
        """First observations of new episodes in all slots; trajectories that were going on are cut."""
        super().begin(self._with_tensors(self._flags(batch), batch))

    def observe(self, batch: Any, memory: FloatArray | None = None, over: Indices | None = None) -> int:
        """Close the transitions of slots that act next or whose episode ended; return how many."""
        flags = self._flags(batch)
        self._played.append(flags)
        return super().observe(self._with_tensors(flags, batch))

    def _flags(self, batch: Any) -> AgentBatch:
        """Rewards and flags on the host, copied: the environment may write into its tensors in the next step."""
        reward, terminated, truncated = (_array(getattr(batch, name)) for name in RESULTS)
        acts = None
        if batch.needs_action is not None:
            acts = _array(batch.needs_action)
        return AgentBatch({}, reward, terminated, truncated, final_observations={}, needs_action=acts)

    def _with_tensors(self, flags: AgentBatch, batch: Any) -> AgentBatch:
        """Return the batch with ``flags`` on the host, and its observations and masks on the device."""
        finals = batch.final_observations
        if finals is not None and flags.ended.size:
            ended = self._tensor(flags.ended)
            finals = {name: finals[name][ended] for name in self.seen}
        return attrs.evolve(
            flags, observations=batch.observations, final_observations=finals, action_mask=batch.action_mask
        )

    def _keep_final(self, ended: Indices, batch: AgentBatch, memory: FloatArray | None) -> None:
        if batch.final_observations is None:
            self._refuse_missing_finals(int(ended[0]))
        super()._keep_final(ended, batch, memory)

    def restart(self) -> None:
        """Forget the closed transitions; the current observation, and what was done at it, stays."""
        super().restart()
        self.ragged = True  # the device keeps to the cursors, wherever all slots act together again

    def _written(self) -> Iterator[tuple[str, Tensor, BoolArray]]:
        row = np.arange(self.rows + 1)[:, None]
        yield "reward", torch.from_numpy(self.reward), row[:-1] < self.cursor
        acted_or_next = self.cursor + (self.open | self.awaiting)
        for name, seen in self.seen.items():
            yield f"observation {name!r}", seen, row < acted_or_next

    def load(self, buffer: RolloutBuffer) -> None:
        """Continue from a rollout as arrays, whose steps the run has counted."""
        buffer.become_ragged()
        super().load(buffer)


def _array(tensor: Tensor) -> Array:
    """Return a copy on the host."""
    array: Array = tensor.cpu().numpy()
    return array.copy()


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    return {name: _array(tensor) for name, tensor in tensors.items()}
