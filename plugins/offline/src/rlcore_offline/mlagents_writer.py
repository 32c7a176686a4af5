"""Recordings as demonstrations that ML-Agents reads.

Its loader takes the action beside an observation for the one that was chosen at it, and drops the last step of a file.
Here the last step has no action, by which :mod:`rlcore_offline.mlagents_reader` knows such files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.internal.encoder import _VarintBytes
from numpy.typing import NDArray

from rlcore import BehaviorSpec, ObservationSpec, Recording
from rlcore_offline.mlagents_file import BRAIN_START
from rlcore_offline.partial_recordings import PartialRecording
from rlcore_unity.mlagents_messages import (
    EQUIVARIANT,
    NONE,
    VARIABLE,
    AgentInfoActionPair,
    BrainParameters,
    DemonstrationMeta,
    ObservationType,
)

NAME_LENGTH = 10  # bytes of a demonstration's name for which its metadata fits before the behavior, whatever it counts


class MLAgentsWriter(PartialRecording):
    """Writes ``path/NAME`` with ``suffix`` in a hidden directory, which takes its name when the file is on disk.

    Images are written uncompressed with channels first, as ML-Agents reads them since release 21; other observations
    are flattened. Continuous actions with bounds are scaled to ML-Agents' [-1, 1].
    """

    def __init__(self, path: Path, suffix: str, behavior: BehaviorSpec) -> None:
        super().__init__(path)
        self._behavior = behavior
        self._name = path.name
        self._episodes = 0
        self._steps = 0
        self._sum = 0.0
        self._held: Any = None  # the last step of an episode, whose action depends on whether another follows
        try:
            self._file = (self.directory / f"{path.name}{suffix}").open("xb")
            self._file.seek(BRAIN_START)
            brain = BrainParameters(brain_name=f"{behavior.name}?team=0")
            brain.action_spec.num_continuous_actions = behavior.continuous
            brain.action_spec.num_discrete_actions = len(behavior.discrete)
            brain.action_spec.discrete_branch_sizes.extend(behavior.discrete)
            self._write(brain)
        except BaseException:
            super().discard()
            raise

    def write(self, recording: Recording) -> None:
        continuous = self._scaled(recording)
        step = row = 0
        for length in recording.lengths:
            for place in range(length + 1):
                self._write_held(last=False)
                pair = self._pair(recording, row + place)
                if place:
                    before = step + place - 1
                    pair.agent_info.reward = recording.reward[before]
                    pair.agent_info.max_step_reached = bool(recording.truncated[before])
                if place < length:
                    pair.action_info.continuous_actions.extend(continuous[step + place])
                    if recording.actions.discrete is not None:
                        pair.action_info.discrete_actions.extend(recording.actions.discrete[step + place])
                    self._write_step(pair)
            pair.agent_info.done = True
            self._held = pair
            step = step + length
            row = row + length + 1
            self._episodes += 1
        self._sum += float(recording.returns.sum())

    def close(self) -> None:
        self._write_held(last=True)
        self._file.seek(0)
        self._write(
            DemonstrationMeta(
                api_version=1,
                demonstration_name=self._name.encode()[:NAME_LENGTH].decode(errors="ignore"),
                number_steps=self._steps,
                number_episodes=self._episodes,
                mean_reward=self._sum / self._episodes,
            )
        )
        self._file.close()
        super().close()

    def discard(self) -> None:
        self._file.close()
        super().discard()

    def _write_held(self, *, last: bool) -> None:
        """Write the step that ended an episode. ML-Agents needs an action in each step but the last."""
        if self._held is None:
            return
        if not last:
            self._held.action_info.continuous_actions.extend([0.0] * self._behavior.continuous)
            self._held.action_info.discrete_actions.extend([0] * len(self._behavior.discrete))
        self._write_step(self._held)
        self._held = None

    def _write_step(self, pair: Any) -> None:
        self._write(pair)
        self._steps += 1

    def _write(self, message: Any) -> None:
        content = message.SerializeToString()
        self._file.write(_VarintBytes(len(content)) + content)

    def _pair(self, recording: Recording, row: int) -> Any:
        """The step of one row of the observations, without reward, end and action."""
        pair = AgentInfoActionPair()
        pair.agent_info.id = self._episodes
        for spec in self._behavior.observations:
            _add(pair.agent_info.observations.add(name=spec.name), spec, recording.observations[spec.name][row])
        if recording.action_mask is not None:
            pair.agent_info.action_mask.extend(~recording.action_mask[row])  # ML-Agents lists what is forbidden
        return pair

    def _scaled(self, recording: Recording) -> NDArray[np.float32]:
        """Continuous actions in ML-Agents' units, [N, continuous]."""
        actions = recording.actions.continuous
        if actions is None:
            return np.empty((recording.transitions, 0), np.float32)
        low = self._behavior.low
        high = self._behavior.high
        bounded = np.isfinite(low) & np.isfinite(high) & (high > low)
        with np.errstate(invalid="ignore"):  # of infinite bounds
            scaled = (2 * actions - low - high) / np.where(bounded, high - low, 1)
        result: NDArray[np.float32] = np.where(bounded, scaled, actions).astype(np.float32)
        return result


def _add(message: Any, spec: ObservationSpec, values: NDArray[Any]) -> None:
    """Fill in one observation."""
    numbers = values.astype(np.float32)
    if spec.kind == "image":
        numbers /= spec.full_scale
    shape: Sequence[int] = (spec.size,)
    properties = [NONE]
    if spec.kind == "image":
        numbers = np.moveaxis(numbers, -1, 0)
        properties = [NONE, EQUIVARIANT, EQUIVARIANT]
        shape = numbers.shape
    elif spec.kind == "entities":
        shape = spec.shape
        properties = [VARIABLE, NONE]
    if spec.goal:
        message.observation_type = ObservationType.GOAL_SIGNAL
    message.shape.extend(shape)
    message.dimension_properties.extend(properties)
    message.float_data.data.extend(numbers.ravel())
