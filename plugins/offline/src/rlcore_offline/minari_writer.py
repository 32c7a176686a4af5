"""New Minari datasets, written by Minari's own storage."""

from __future__ import annotations

import copy
import os
import re
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
from gymnasium.envs.registration import EnvSpec
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage
from numpy.typing import NDArray

from rlcore import BehaviorSpec, Recording, RecordingAbout
from rlcore_gymnasium.spaces import OBSERVATION
from rlcore_offline.layout import RLCORE, action_space, notes, observation_keys, observation_space
from rlcore_offline.minari_reader import ACTION_MASK
from rlcore_offline.partial_recordings import PartialRecording

EPISODE_BYTES = 65_536  # of an episode's groups and names in HDF5


class MinariWriter(PartialRecording):
    """Writes into a hidden directory beside the final one, which takes its name when everything is on disk."""

    def __init__(self, path: Path, behavior: BehaviorSpec, about: RecordingAbout) -> None:
        self._behavior = behavior
        super().__init__(path)
        try:
            self._storage = MinariStorage.new(
                # Absolute: Minari puts a relative path together twice when it adds up the sizes of files.
                self.directory / "data",
                observation_space(behavior),
                action_space(behavior),
                env_spec_of(about),
                data_format="hdf5",
                jpeg_encoding=False,  # what comes back must be what was seen
            )
            self._storage.update_metadata(
                {
                    "dataset_id": dataset_id(path.name),
                    "minari_version": minari.__version__,
                    "description": about.description,
                    RLCORE: notes(behavior),
                }
                | ({"algorithm_name": about.trainer} if about.trainer else {})
            )
        except BaseException:
            self.discard()
            raise

    def write(self, recording: Recording) -> None:
        arrays = [*recording.observations.values(), recording.actions.continuous, recording.actions.discrete]
        arrays += [recording.reward, recording.terminated, recording.truncated, recording.action_mask]
        stored = sum(array.nbytes for array in arrays if array is not None)
        self.require_room(2 * stored + EPISODE_BYTES * len(recording.lengths))
        try:
            self._storage.update_episodes(
                self._buffer(recording, step, step + episode, length)
                for episode, (step, length) in enumerate(
                    zip(np.cumsum(recording.lengths) - recording.lengths, recording.lengths, strict=True)
                )
            )
        except (OSError, RuntimeError) as error:  # of HDF5, which says in its text alone that the disk is full
            number = re.search(r"errno = (\d+)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from error

    def _buffer(self, recording: Recording, step: int, row: int, length: int) -> EpisodeBuffer:
        """The episode of ``length`` transitions that begins with transition ``step``, whose observation is ``row``."""
        steps = slice(step, step + length)
        rows = slice(row, row + length + 1)
        seen = {key: recording.observations[spec.name][rows] for key, spec in observation_keys(self._behavior).items()}
        done: dict[str, NDArray[Any]] = {}
        if recording.actions.continuous is not None:
            done["continuous"] = recording.actions.continuous[steps]
        if recording.actions.discrete is not None:
            chosen = recording.actions.discrete[steps]
            done["discrete"] = chosen[:, 0] if len(self._behavior.discrete) == 1 else chosen
        return EpisodeBuffer(
            observations=seen[OBSERVATION] if list(seen) == [OBSERVATION] else seen,
            actions=done if len(done) > 1 else next(iter(done.values())),
            rewards=recording.reward[steps],
            terminations=recording.terminated[steps],
            truncations=recording.truncated[steps],
            infos=None if recording.action_mask is None else {ACTION_MASK: recording.action_mask[rows]},
        )


def env_spec_of(about: RecordingAbout) -> EnvSpec | None:
    """Return Gymnasium's specification of the environment, so that ``MinariDataset.recover_environment`` makes it."""
    if about.environment_type != "gymnasium" or about.environment_id is None:
        return None
    try:
        spec = copy.deepcopy(gymnasium.spec(about.environment_id))  # the registry's own must stay as it is
    except (gymnasium.error.Error, ImportError):
        return None
    spec.kwargs = {**spec.kwargs, **about.environment_options}
    return spec


def dataset_id(name: str) -> str:
    """An id that Minari accepts, ``name-v0``."""
    plain = re.sub(r"[^-\w]+", "_", name)
    return plain if re.search(r"\w-v\d+$", plain) else f"{plain}-v0"
