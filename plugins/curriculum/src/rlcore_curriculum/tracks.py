"""The lessons of one parameter: the current lesson, and when it changes.

:meth:`LessonTrack.next` decides that a lesson changes: when all its completion criteria hold, or its demotion criterion
does. :mod:`rlcore_curriculum.meters` measures each criterion. With ``smoothing: legacy``,
:mod:`rlcore_curriculum.legacy` decides in place of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from rlcore import StatSummary
from rlcore_curriculum.criterion_settings import GROUP_REWARD, CriterionSettings
from rlcore_curriculum.lesson_settings import LessonsSettings
from rlcore_curriculum.meters import Meter, ProgressMeter, make_meter


@attrs.frozen
class Move:
    """A change to another lesson. ``reset``: reset all environments now."""

    lesson: int
    reset: bool


@attrs.frozen
class Ended:
    """K episodes of one behavior that ended in one step."""

    behavior: str
    returns: list[float]
    group_returns: list[float]


class LessonTrack:
    """The current lesson of one parameter, and its criteria, which count the episodes that started in it.

    Attributes:
        lessons: All lessons.
        lesson: The current lesson.
        visit: A number for the episodes that start in it; each start of a lesson has another number.
        checks_every_step: Whether the lesson can change in a step without ended episodes.
        measured_behaviors: The behaviors that its criteria use; empty in the last lesson.
    """

    def __init__(self, settings: LessonsSettings, max_steps: Mapping[str, int]) -> None:
        self.lessons = settings.lessons
        self._max_steps = max_steps
        self.visit = -1
        self.enter(0, midway=False)

    def enter(self, lesson: int, midway: bool = True) -> None:
        """Start a lesson. ``midway``: the next summaries also cover what happened before."""
        self.lesson = lesson
        self.visit += 1  # not the lesson's number: a lesson may be entered again after a demotion
        self._completion, self._demotion = self._meters_of(lesson)
        self._by_behavior: dict[str, list[Meter]] = {}
        for meter in self._meters:
            of_behavior = self._by_behavior.setdefault(meter.criterion.behavior, [])
            of_behavior.append(meter)
            if midway:
                meter.start_mid_summary()
        self.checks_every_step = any(isinstance(meter, ProgressMeter) for meter in self._meters)
        self.measured_behaviors = frozenset(self._by_behavior)

    def ended(self, episodes: Ended, began: Sequence[int]) -> None:
        """Add ended episodes; ``began`` [K] are the visits in which they started."""
        for meter in self._by_behavior.get(episodes.behavior, ()):
            returns = episodes.returns
            if meter.criterion.measure == GROUP_REWARD:
                returns = episodes.group_returns
            if began.count(self.visit) < len(began):
                # Episodes that started in another lesson say nothing about this one.
                pairs = zip(returns, began, strict=True)
                returns = [value for value, visit in pairs if visit == self.visit]
            meter.ended(returns)

    def summarised(self, behavior: str, stats: Mapping[str, StatSummary]) -> None:
        """Add the statistics of a summary."""
        for meter in self._by_behavior.get(behavior, ()):
            meter.summarised(stats)

    def next(self, steps: Mapping[str, int]) -> Move | None:
        """Return the change to another lesson if it is due. The caller then calls :meth:`enter`."""
        completion = self._completion
        demotion = self._demotion
        # Completion first: a lesson whose criteria both hold is completed.
        if completion and all(meter.exceeds(steps) for meter in completion):
            reset = any(meter.criterion.require_reset for meter in completion)
            return Move(self.lesson + 1, reset)
        if demotion is not None and demotion.falls_below(steps):
            return Move(self.lesson - 1, demotion.criterion.require_reset)
        return None

    def status(self, steps: Mapping[str, int]) -> dict[str, Any]:
        """Return the measure and its value; empty in the last lesson."""
        # Of several criteria, show the first that does not hold.
        waiting = [meter for meter in self._completion if not meter.exceeds(steps)]
        candidates = waiting or self._completion
        if not candidates:
            return {}
        first = candidates[0]
        return measured(first.criterion, first.value(steps), first.episodes_left)

    def state_dict(self) -> dict[str, Any]:
        return {
            "lesson": self.lesson,
            "visit": self.visit,
            "meters": [meter.state_dict() for meter in self._meters],
            "demotion": self._demotion is not None,
        }

    def conflict(self, state: Mapping[str, Any]) -> str | None:
        """Return the reason why a saved state does not fit this configuration, or None."""
        if "meters" not in state:
            return "had smoothing: legacy"
        completion, demotion = self._meters_of(int(state["lesson"]))
        ours = [meter.identity for meter in completion]
        if demotion is not None:
            ours.append(f"demotion by {demotion.identity}")
        saved = [meter["identity"] for meter in state["meters"]]
        if state["demotion"]:
            saved[-1] = f"demotion by {saved[-1]}"
        if not saved or saved == ours:  # a former last lesson measured nothing; its measure starts now
            return None
        now = "; ".join(ours) or "nothing"
        return f"was measured by {'; '.join(saved)}, and is by {now}"

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.enter(int(state["lesson"]), midway=False)
        self.visit = int(state["visit"])
        for meter, saved in zip(self._meters, state["meters"], strict=False):
            meter.load_state_dict(saved)

    @property
    def _meters(self) -> tuple[Meter, ...]:
        if self._demotion is None:
            return self._completion
        return (*self._completion, self._demotion)

    def _meters_of(self, lesson: int) -> tuple[tuple[Meter, ...], Meter | None]:
        settings = self.lessons[lesson]
        completion = tuple(make_meter(criterion, self._max_steps) for criterion in settings.completion)
        demotion = None
        if settings.demotion_criterion is not None:
            demotion = make_meter(settings.demotion_criterion, self._max_steps)
        return completion, demotion


def measured(criterion: CriterionSettings, value: float | None, episodes_left: int) -> dict[str, Any]:
    """Return the part of a status section that describes the criterion of the next lesson."""
    return {
        "behavior": criterion.behavior,
        "measure": criterion.measure,
        "value": value,
        "threshold": criterion.threshold,
        "episodes_left": episodes_left,
    }
