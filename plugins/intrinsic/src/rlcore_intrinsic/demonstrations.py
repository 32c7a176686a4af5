"""Recorded episodes of an expert, as transitions to draw from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, BehaviorSpec, ConfigError, Recording, RunContext, Transitions, spec_mismatch


class Demonstrations:
    """All N transitions of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._rows = recording.rows  # [N] in the observations

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, steps: NDArray[np.int64]) -> Transitions:
        """Return the transitions with the numbers ``steps`` [B]."""
        recording = self._recording
        rows = self._rows[steps]
        actions = recording.actions
        return Transitions(
            observations={name: array[rows] for name, array in recording.observations.items()},
            actions=Actions(
                None if actions.continuous is None else actions.continuous[steps],
                None if actions.discrete is None else actions.discrete[steps],
            ),
            reward=recording.reward[steps],
            terminated=recording.terminated[steps],
            truncated=recording.truncated[steps],
        )


def read_demonstrations(path: str, behavior: BehaviorSpec, run: RunContext) -> Demonstrations:
    """Read the recording that ``path`` names.

    Raises ConfigError, with the key ``demo_path``, if there is none, if it cannot be read, and if the recorded agents
    see or do something else than those of ``behavior``.
    """
    try:
        recording = run.read_recording(path, behavior.name).named_as(behavior)
    except ConfigError as error:
        raise ConfigError(error.message, key=("demo_path",)) from error
    problem = spec_mismatch(behavior, recording.behavior)
    if problem:
        raise ConfigError(
            f"recording {path!r} does not fit behavior {behavior.name!r}: in the recording, {problem}, which the "
            "agents have; record episodes of this environment",
            key=("demo_path",),
        )
    return Demonstrations(recording)
