"""All episodes of a Minari dataset in arrays allocated once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from minari.dataset.minari_storage import MinariStorage
from numpy.typing import NDArray

from rlcore import ConfigError, NotInstalled, Recording, RlcoreError, one_line
from rlcore_gymnasium.spaces import MismatchedValue
from rlcore_offline.containment import require_contained
from rlcore_offline.layout import Layout
from rlcore_torch import require_memory

ACTION_MASK = "action_mask"  # the info entry in which Gymnasium environments, and our writer, list what is allowed


def read_episodes(path: Path, metadata: Mapping[str, Any], layout: Layout) -> Recording:
    """The dataset as one recording.

    An episode that stops without an end was cut off. One with an end in its midst is as many episodes: what was seen
    after that end is where the one led and where the next begins.
    """
    transitions, episodes = metadata["total_steps"], metadata["total_episodes"]
    require_memory(layout.behavior, transitions + episodes, what=f"Minari dataset {path}")
    reading = _Reading(path, layout, transitions, episodes)
    try:
        require_contained(path / "data" / "main_data.hdf5", f"Minari dataset {path}", episodes, transitions)
        for episode in _stored_episodes(path, episodes):
            reading.add(episode)
    except RlcoreError:
        raise
    except Exception as error:  # h5py, Minari and PIL raise errors of many kinds for files that are damaged
        raise ConfigError(f"Minari dataset {path} cannot be read: {one_line(error)}") from error
    return reading.finished()


def _stored_episodes(path: Path, episodes: int) -> Iterator[Mapping[str, Any]]:
    try:
        yield from MinariStorage.read(path / "data").get_episodes(range(episodes))
    except ImportError as error:  # Minari says which of its extras it needs
        raise NotInstalled(f"Minari dataset {path}: {error}") from error


class _Reading:
    """The arrays while they are filled."""

    def __init__(self, path: Path, layout: Layout, transitions: int, episodes: int) -> None:
        self.path, self.layout, self.transitions = path, layout, transitions
        specs = layout.observing.specs
        self.observations = {o.name: np.empty((transitions + episodes, *o.shape), o.dtype) for o in specs}
        self.actions = layout.acting.empty(transitions)
        self.reward = np.empty(transitions, np.float32)
        self.terminated, self.truncated = np.empty((2, transitions), np.bool_)
        self.masks: dict[int, NDArray[np.bool_]] = {}  # by the row each begins at
        self.lengths: list[int] = []
        self.step = 0  # transitions that are there

    def add(self, episode: Mapping[str, Any]) -> None:
        reward = np.asarray(episode["rewards"]).reshape(-1)
        length, first = len(reward), self.step
        try:
            converted = self.layout.observing.convert(episode["observations"])
        except MismatchedValue as error:
            self._refuse(f"episode {len(self.lengths)} has {error}")
        if any(len(array) != length + 1 for array in converted.values()) or first + length > self.transitions:
            self._refuse(f"episode {len(self.lengths)} has {length} rewards, which do not fit its observations")
        if not length:
            return
        rows, at = slice(first, first + length), first + len(self.lengths)
        for name, array in converted.items():
            self.observations[name][at : at + length + 1] = array
        self.layout.acting.read(episode["actions"], self.actions, rows)
        self.reward[rows] = reward
        self.terminated[rows] = np.asarray(episode["terminations"]).reshape(-1)
        self.truncated[rows] = np.asarray(episode["truncations"]).reshape(-1)
        self.truncated[first + length - 1] = True
        self._add_mask(episode.get("infos"), length + 1)
        self.lengths.append(length)
        self.step += length

    def _add_mask(self, infos: Mapping[str, Any] | None, rows: int) -> None:
        mask = infos.get(ACTION_MASK) if infos else None
        shape = (rows, self.layout.behavior.mask_size)
        if isinstance(mask, np.ndarray) and mask.shape == shape:
            self.masks[self.step + len(self.lengths)] = mask.astype(np.bool_)

    def _joined_masks(self) -> NDArray[np.bool_] | None:
        """Masks of all episodes; without one, everything is allowed."""
        if not self.masks:
            return None
        joined = np.ones((self.step + len(self.lengths), self.layout.behavior.mask_size), np.bool_)
        for first, mask in self.masks.items():
            joined[first : first + len(mask)] = mask
        return joined

    def finished(self) -> Recording:
        if self.step != self.transitions or not self.lengths:
            self._refuse(f"it has {self.step} transitions where its metadata promises {self.transitions}")
        lengths = np.array(self.lengths, np.int64)
        mask = self._joined_masks()
        self.truncated &= ~self.terminated
        ends = np.flatnonzero(self.terminated | self.truncated)
        observations = {name: array[: self.step + len(lengths)] for name, array in self.observations.items()}
        if len(ends) > len(lengths):
            rows = np.arange(self.step) + np.repeat(np.arange(len(lengths)), lengths)
            kept = np.insert(rows, ends + 1, rows[ends] + 1)
            observations = {name: array[kept] for name, array in observations.items()}
            mask = None if mask is None else mask[kept]
            lengths = np.diff(ends, prepend=-1)
        return Recording(
            self.layout.behavior,
            observations,
            self.actions,
            self.reward,
            self.terminated,
            self.truncated,
            lengths,
            mask,
        )

    def _refuse(self, problem: str) -> NoReturn:
        raise ConfigError(f"Minari dataset {self.path}: {problem}; it is damaged or was not written to its end")
