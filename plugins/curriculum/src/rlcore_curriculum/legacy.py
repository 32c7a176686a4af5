"""ML-Agents' own arithmetic for lessons (``smoothing: legacy``), to compare runs.

:class:`LegacyTrack` decides when a lesson changes, in place of :mod:`rlcore_curriculum.tracks` and its meters. It
counts every episode of the behavior, regardless of the lesson in which the episode started. Its reward buffer has the
largest ``min_lesson_length`` of the behavior. It checks criteria at every environment step, so its smoothing has
little effect, and the smoothing starts from zero once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rlcore import StatSummary
from rlcore_curriculum.arrays import Floats
from rlcore_curriculum.criterion_settings import PROGRESS
from rlcore_curriculum.lesson_settings import LessonsSettings
from rlcore_curriculum.tracks import Ended, Move, measured


class RewardBuffers:
    """The latest returns of each behavior for all parameters. Any change of a lesson clears them all."""

    def __init__(self, blocks: Iterable[LessonsSettings]) -> None:
        lengths: dict[str, int] = {}
        for block in blocks:
            for lesson in block.lessons:
                for criterion in lesson.completion:
                    length = lengths.get(criterion.behavior, 1)
                    lengths[criterion.behavior] = max(length, criterion.min_lesson_length)
        self._returns: dict[str, deque[float]] = {}
        for name, length in lengths.items():
            self._returns[name] = deque(maxlen=length)
        self._means: dict[str, float] = {}  # means of buffers without new returns

    def add(self, behavior: str, returns: Floats) -> None:
        """Add ended episodes of the behavior with returns [K]."""
        if behavior in self._returns:
            self._returns[behavior].extend(returns.tolist())
            self._means.pop(behavior, None)

    def count(self, behavior: str) -> int:
        return len(self._returns[behavior])

    def mean(self, behavior: str) -> float | None:
        """Return the mean of the buffer; None if it is empty."""
        returns = self._returns[behavior]
        if not returns:
            return None
        if behavior not in self._means:
            self._means[behavior] = float(np.mean(returns))
        return self._means[behavior]

    def clear(self) -> None:
        for returns in self._returns.values():
            returns.clear()
        self._means.clear()

    def state_dict(self) -> dict[str, Any]:
        return {name: list(returns) for name, returns in self._returns.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.clear()
        for name, returns in self._returns.items():
            returns.extend(state.get(name, ()))


class LegacyTrack:
    """The lessons of one parameter, as in ML-Agents' environment_parameter_manager."""

    def __init__(self, settings: LessonsSettings, max_steps: Mapping[str, int], buffers: RewardBuffers) -> None:
        self.lessons = settings.lessons
        self.enter(0, midway=False)
        self._max_steps = max_steps
        self._buffers = buffers
        self._smoothed = 0.0  # not reset between lessons

    def enter(self, lesson: int, midway: bool = True) -> None:
        self.lesson = lesson
        self.visit = lesson
        completion = self.lessons[lesson].completion
        self._criterion = completion[0] if completion else None
        self.checks_every_step = bool(completion)  # ML-Agents checks and smooths at every step
        self.measured_behaviors: frozenset[str] = frozenset()  # the buffers receive the episodes instead

    def ended(self, episodes: Ended, began: Sequence[int]) -> None:
        """Do nothing: the buffers already have the episodes, of any lesson."""

    def summarised(self, behavior: str, stats: Mapping[str, StatSummary]) -> None:
        """Do nothing: ML-Agents has no measure of statistics."""

    def next(self, steps: Mapping[str, int]) -> Move | None:
        criterion = self._criterion
        if criterion is None:
            return None
        # ML-Agents compares the length of the buffer, also for progress (CompletionCriteriaSettings.need_increment).
        if self._buffers.count(criterion.behavior) < criterion.min_lesson_length:
            return None
        if criterion.measure == PROGRESS:
            value = steps[criterion.behavior] / self._max_steps[criterion.behavior]
        else:
            mean = self._buffers.mean(criterion.behavior)
            if mean is None:
                return None
            value = mean
            if criterion.signal_smoothing:
                value = 0.25 * self._smoothed + 0.75 * value
                self._smoothed = value
        if value > criterion.threshold:
            return Move(self.lesson + 1, criterion.require_reset)
        return None

    def status(self, steps: Mapping[str, int]) -> dict[str, Any]:
        criterion = self._criterion
        if criterion is None:
            return {}
        behavior = criterion.behavior
        value = self._buffers.mean(behavior)
        if criterion.measure == PROGRESS:
            value = steps[behavior] / self._max_steps[behavior] if steps else None
        elif value is not None and criterion.signal_smoothing:
            value = self._smoothed
        missing = criterion.min_lesson_length - self._buffers.count(behavior)
        return measured(criterion, value, max(0, missing))

    def state_dict(self) -> dict[str, Any]:
        return {"lesson": self.lesson, "smoothed": self._smoothed}

    def conflict(self, state: Mapping[str, Any]) -> str | None:
        return None if "smoothed" in state else "has smoothing: legacy now"

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.enter(int(state["lesson"]), midway=False)
        self._smoothed = float(state["smoothed"])
