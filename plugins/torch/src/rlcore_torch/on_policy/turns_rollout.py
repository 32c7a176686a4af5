"""The rollout buffer of a tensor environment whose agents act in turns: observations and actions stay on the device.

It is :class:`~rlcore_torch.on_policy.rollout.RolloutBuffer` in two parts. Which slot acted in which row depends on
flags. Rewards and flags, a few bytes of a slot, are therefore read on the host in every step, where a ``RolloutBuffer``
without observations keeps the books. What is large stays on the device, in the rows that the books name. The parts of
an update read it as they read arrays.

Shapes: T rows, S slots, K episodes that ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import Actions, AgentBatch, BehaviorSpec, Transitions
from rlcore_torch.networks.actions import ActionLayout
from rlcore_torch.on_policy.rollout import RolloutBuffer
from rlcore_torch.on_policy.tensor_rollout import ACTED, RESULTS, StoredOnDevice, refuse_non_finite
from rlcore_torch.tensors.environment import TensorBatch

__all__ = ["TurnsRollout"]

BOOKS = (*RESULTS, "cursor", "open", "awaiting", "open_log_prob", "kept_log_prob")  # arrays that both buffers have


class TurnsRollout(StoredOnDevice):
    """Transitions since the last update of slots that act in turns; slot s has ``lengths()[s]`` of them.

    Attributes:
        behavior: The behavior whose agents act.
        books: Rewards, flags, and the row of each slot, on the host.
        seen: Observations by name, each [T + 1, S, *shape], on the device.
        masks: [T + 1, S, mask_size] whether each option was allowed, on the device; None: every option was.
        ragged: True: slots do not act together.
    """

    ragged = True
    books: RolloutBuffer
    masks: Tensor | None
    _final_seen: list[dict[str, Tensor]]  # of each entry of `books.final_rows`, [k, *shape]
    _played: list[AgentBatch]  # steps that the run has not counted yet

    def __init__(self, behavior: BehaviorSpec, device: torch.device, new_buffer: Callable[[], RolloutBuffer]) -> None:
        """``new_buffer`` makes an empty buffer of NumPy arrays of the same size, the form of a checkpoint."""
        self.behavior = behavior
        self.device = device
        self._new_buffer = new_buffer
        self.load(new_buffer())

    def _on_device(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array.copy()).to(self.device)

    # ------------------------------------------------------------ writing

    def begin(self, batch: TensorBatch, memory: None = None) -> None:
        """First observations of new episodes in all slots; trajectories that were going on are cut."""
        cuts = len(self.books.cuts)
        self.books.begin(self._for_books(batch))
        if len(self.books.cuts) > cuts:
            row, slot = (self._on_device(column) for column in self.books.cuts[-1].T)
            self._final_seen.append({name: seen[row + 1, slot] for name, seen in self.seen.items()})
        self._write_next(batch)

    def act(self, raw: Any, choices: Any, columns: Any, logits: Any) -> None:
        """Store the actions of the slots that act, and what their distribution was given; each is [S, ...]."""
        acting, places = self._acting()
        for name, part in zip(ACTED, (raw, choices, columns, logits), strict=True):
            if part is not None:
                self._acted[name].flatten(0, 1).index_copy_(0, places, torch.as_tensor(part).index_select(0, acting))
        self.books.act(None, None, None, None)

    def observe(self, batch: TensorBatch, memory: None = None) -> int:
        """Close the transitions of slots that act next or whose episode ended; return how many."""
        on_host = self._for_books(batch)
        finals = len(self.books.final_rows)
        self._played.append(on_host)
        closed = self.books.observe(on_host)
        if len(self.books.final_rows) > finals:
            slots = self.books.final_rows[-1][:, 1]
            if batch.final_observations is None:
                self.refuse_missing_finals(int(slots[0]))
            ended = self._on_device(slots)
            self._final_seen.append({name: batch.final_observations[name][ended] for name in self.seen})
        if len(self._acted["raw"]) < self.books.rows:
            self._grow()
        self._write_next(batch)
        return closed

    def _for_books(self, batch: TensorBatch) -> AgentBatch:
        """Rewards and flags on the host, copied: the environment may write into its tensors in the next step."""
        acts = None if batch.needs_action is None else _copied(batch.needs_action)
        reward, terminated, truncated = (_copied(getattr(batch, name)) for name in RESULTS)
        return AgentBatch({}, reward, terminated, truncated, final_observations={}, needs_action=acts)

    def _write_next(self, batch: TensorBatch) -> None:
        """The observations on which slots act next."""
        acting, places = self._acting()
        for name, stored in self.seen.items():
            stored.flatten(0, 1).index_copy_(0, places, batch.observations[name].index_select(0, acting))
        if batch.action_mask is not None:
            if self.masks is None:
                shape = (self.books.rows + 1, self.behavior.slots, self.behavior.mask_size)
                self.masks = torch.ones(shape, dtype=torch.bool, device=self.device)
            self.masks.flatten(0, 1).index_copy_(0, places, batch.action_mask.index_select(0, acting))
        elif self.masks is not None:
            self.masks.flatten(0, 1).index_fill_(0, places, True)

    def _acting(self) -> tuple[Tensor, Tensor]:
        """The slots that act next, and the places of their rows among the T * S of the buffer, on the device."""
        slots = np.flatnonzero(self.books.awaiting)
        return self._on_device(slots), self._on_device(self.books.cursor[slots] * self.behavior.slots + slots)

    def _grow(self) -> None:
        """As many rows as the books have: one slot acts far more often than the others."""

        def longer(stored: Tensor, rows: int) -> Tensor:
            return torch.cat([stored, stored.new_zeros((rows - len(stored), *stored.shape[1:]))])

        self.seen = {name: longer(seen, self.books.rows + 1) for name, seen in self.seen.items()}
        self._acted = {name: longer(stored, self.books.rows) for name, stored in self._acted.items()}
        self.masks = None if self.masks is None else longer(self.masks, self.books.rows + 1)

    def restart(self) -> None:
        """Forget the closed transitions; the current observation, and what was done at it, stays."""
        lengths = self.books.lengths()
        still = np.flatnonzero(self.books.open)
        last = self._on_device(lengths)
        slots = torch.arange(len(lengths), device=self.device)
        for stored in (*self.seen.values(), *(() if self.masks is None else (self.masks,))):
            stored[0] = stored[last, slots]
        row = self._on_device(lengths[still])
        slot = self._on_device(still)
        for stored in self._acted.values():
            stored[0, slot] = stored[row, slot]
        self._final_seen.clear()
        self.books.restart()
        self.books.ragged = True  # the device keeps to the cursors, wherever all slots act together again

    # ------------------------------------------------------------ reading

    @property
    def rows(self) -> int:
        """T, the rows of the buffer."""
        return self.books.rows

    @property
    def size(self) -> int:
        """Closed transitions over all slots."""
        return self.books.size

    def lengths(self) -> NDArray[np.int64]:
        """Closed transitions of each slot, [S]; rows past them hold nothing."""
        return self.books.lengths()

    @property
    def reward(self) -> NDArray[np.float32]:
        """[T, S] rewards of the closed transitions, summed since the slot acted."""
        return self.books.reward

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """[T, S] whether each closed transition terminated its episode."""
        return self.books.terminated

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """[T, S] whether each closed transition was the last one of an episode that was cut off."""
        return self.books.truncated

    @property
    def open_log_prob(self) -> NDArray[np.float32]:
        """[S] log-probabilities of open actions under the weights that acted, as an update finds them."""
        return self.books.open_log_prob

    @open_log_prob.setter
    def open_log_prob(self, values: NDArray[np.float32]) -> None:
        self.books.open_log_prob = values

    @property
    def kept_log_prob(self) -> NDArray[np.float32]:
        """[S] those of first actions that were chosen before the latest update; NaN for the others."""
        return self.books.kept_log_prob

    def finals(self) -> tuple[NDArray[np.int64], dict[str, Tensor]]:
        """``(row, slot)`` pairs [K, 2] that ended, and what their agents saw last, each [K, *shape] on the device."""
        places, _ = self.books.finals()
        kept = self._final_seen
        return places, {name: torch.cat([each[name] for each in kept]) for name in self.seen} if kept else {}

    def followed(self, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the next observation on which its agent acts is stored after each of these transitions [K]."""
        return self.books.followed(rows, slots)

    def cut_rows(self) -> NDArray[np.int64]:
        """``(row, slot)`` pairs [k, 2] after which an episode was cut: truncated for learning, not an end."""
        return self.books.cut_rows()

    def transitions(self, layout: ActionLayout, rows: int, at: NDArray[np.bool_]) -> Transitions:
        """Return the N rewards and flags ``at`` [rows, S] for the environment's reward, without observations."""
        reward, terminated, truncated = (getattr(self.books, name)[:rows][at] for name in RESULTS)
        return Transitions({}, Actions(), reward, terminated, truncated, slot=np.nonzero(at)[1])

    def require_finite(self, step: int) -> None:
        """Raise NonFiniteError if a reward or an observation of the rollout is NaN or infinite; ``step`` is the run's.

        Once an update, because the run does not look at batches that stay on a device.
        """
        books = self.books
        places = np.arange(self.rows + 1)[:, None]
        filled = {"reward": (self._on_device(books.reward), places[:-1] < books.lengths())}
        seen = places < books.lengths() + (books.open | books.awaiting)
        filled |= {f"observation {name!r}": (values, seen) for name, values in self.seen.items()}
        for what, (values, where) in filled.items():
            # A sum is finite unless a number is not, or numbers are huge; looking at each takes several times as long.
            if values.dtype.is_floating_point and not bool(values.sum().isfinite()):
                wrong = ~values.isfinite().flatten(2).all(2) if values.dim() > 2 else ~values.isfinite()
                wrong &= self._on_device(where)
                if bool(wrong.any()):
                    row, slot = wrong.nonzero()[0].tolist()
                    refuse_non_finite(self.behavior, what, slot, f"at action {row + 1} of its", step)
        ends, finals = self.finals()
        for name, values in finals.items():
            if values.dtype.is_floating_point and not bool(values.isfinite().all()):
                row, slot = ends[int((~values.isfinite()).nonzero()[0][0])].tolist()
                refuse_non_finite(
                    self.behavior, f"final observation {name!r}", slot, f"after action {row + 1} of its", step
                )

    def played(self) -> list[AgentBatch]:
        """Return the rewards and flags of the steps since the last call, in order."""
        played = self._played
        self._played = []
        return played

    # ------------------------------------------------------------ checkpoints

    def on_host(self) -> RolloutBuffer:
        """Return the rollout as arrays, for a checkpoint."""
        buffer = self._new_buffer()
        while buffer.rows < self.rows:
            buffer.grow()
        buffer.ragged = True
        for name in BOOKS:
            getattr(buffer, name)[...] = getattr(self.books, name)
        for name, seen in self.seen.items():
            buffer.seen[name][...] = seen.cpu().numpy()
        for name, stored in self._acted.items():
            getattr(buffer, name)[...] = stored.cpu().numpy()
        if self.masks is not None:
            buffer.mask_rows()[...] = self.masks.cpu().numpy()
        places, final_seen = self.finals()
        if len(places):
            buffer.final_rows = [places]
            buffer.final_seen = [{name: seen.cpu().numpy() for name, seen in final_seen.items()}]
        buffer.cuts = list(self.books.cuts)
        return buffer

    def load(self, buffer: RolloutBuffer) -> None:
        """Continue from a rollout as arrays, which becomes the books. The run has counted its steps."""
        if not buffer.ragged:
            buffer.ragged = True
            buffer.cursor[:] = buffer.row
        self.seen = {name: self._on_device(array) for name, array in buffer.seen.items()}
        self._acted = {name: self._on_device(getattr(buffer, name)) for name in ACTED}
        self.masks = None if buffer.masks is None else self._on_device(buffer.masks)
        _, final_seen = buffer.finals()
        final = {name: self._on_device(array) for name, array in final_seen.items()}
        self._final_seen = [final] if final else []
        buffer.seen = {}
        buffer.masks = None
        buffer.final_seen = [{} for _ in buffer.final_rows]
        for name in ACTED:
            setattr(buffer, name, getattr(buffer, name)[..., :0])
        self.books = buffer
        self._played = []


def _copied(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.cpu().numpy().copy()
    return array
