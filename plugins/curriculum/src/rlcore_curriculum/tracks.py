"""Where one parameter stands among its lessons, and when it moves on or back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs

from rlcore.stats import StatSummary
from rlcore_curriculum.criterion_settings import GROUP_REWARD, CriterionSettings
from rlcore_curriculum.lesson_settings import LessonSettings, LessonsSettings
from rlcore_curriculum.meters import Meter, make_meter


@attrs.frozen
class Move:
    """To another lesson; whether all copies begin anew."""

    lesson: int
    reset: bool


@attrs.frozen
class Ended:
    """Episodes of one behavior that ended in a step, K of them."""

    behavior: str
    returns: list[float]
    group_returns: list[float]


class Track(Protocol):
    """One parameter's lessons."""

    lessons: tuple[LessonSettings, ...]
    lesson: int  # the one that is on

    def enter(self, lesson: int) -> None:
        """This lesson begins."""
        ...

    def ended(self, episodes: Ended, began: Sequence[int]) -> None:
        """Episodes ended; ``began`` [K] are the lessons they began in."""
        ...

    def summarised(self, behavior: str, stats: Mapping[str, StatSummary]) -> None:
        """There are new statistics of a behavior."""
        ...

    def next(self, steps: Mapping[str, int]) -> Move | None:
        """The lesson that is due, if it is another one; :meth:`enter` is to follow."""
        ...

    def status(self, steps: Mapping[str, int]) -> dict[str, Any]:
        """What is measured, and how it stands; nothing in the last lesson."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def conflict(self, state: Mapping[str, Any]) -> str | None:
        """Why this state, which is of the lesson it names, cannot be taken over."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class LessonTrack:
    """By the episodes that began in the lesson that is on."""

    def __init__(self, settings: LessonsSettings, max_steps: Mapping[str, int]) -> None:
        self.lessons = settings.lessons
        self._max_steps = max_steps
        self.enter(0)

    def enter(self, lesson: int) -> None:
        self.lesson = lesson
        self._completion, self._giving_up = self._meters_of(lesson)
        self._by_behavior: dict[str, list[Meter]] = {}
        for meter in self._meters:
            self._by_behavior.setdefault(meter.criterion.behavior, []).append(meter)

    def ended(self, episodes: Ended, began: Sequence[int]) -> None:
        for meter in self._by_behavior.get(episodes.behavior, ()):
            returns = episodes.group_returns if meter.criterion.measure == GROUP_REWARD else episodes.returns
            if began.count(self.lesson) < len(began):
                returns = [each for each, lesson in zip(returns, began, strict=True) if lesson == self.lesson]
            meter.ended(returns)

    def summarised(self, behavior: str, stats: Mapping[str, StatSummary]) -> None:
        for meter in self._by_behavior.get(behavior, ()):
            meter.summarised(stats)

    def next(self, steps: Mapping[str, int]) -> Move | None:
        completion, giving_up = self._completion, self._giving_up
        if completion and all(meter.exceeds(steps) for meter in completion):
            return Move(self.lesson + 1, any(meter.criterion.require_reset for meter in completion))
        if giving_up is not None and giving_up.falls_below(steps):
            return Move(self.lesson - 1, giving_up.criterion.require_reset)
        return None

    def status(self, steps: Mapping[str, int]) -> dict[str, Any]:
        # Of several criteria, the first that does not hold: what the lesson is waiting for.
        waiting = [meter for meter in self._completion if not meter.exceeds(steps)] or list(self._completion)
        if not waiting:
            return {}
        return measured(waiting[0].criterion, waiting[0].value(steps), waiting[0].episodes_left)

    def state_dict(self) -> dict[str, Any]:
        meters = [meter.state_dict() for meter in self._meters]
        return {"lesson": self.lesson, "meters": meters, "demotion": self._giving_up is not None}

    def conflict(self, state: Mapping[str, Any]) -> str | None:
        if "meters" not in state:
            return "had smoothing: legacy"
        completion, giving_up = self._meters_of(int(state["lesson"]))
        ours = [meter.identity for meter in completion]
        ours += [f"demotion by {giving_up.identity}"] if giving_up is not None else []
        saved = [meter["identity"] for meter in state["meters"]]
        if state["demotion"]:
            saved[-1] = f"demotion by {saved[-1]}"
        if not saved or saved == ours:  # one that was the last measured nothing; now that another follows, it begins to
            return None
        return f"was measured by {_listed(saved)}, and is by {_listed(ours)}"

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.enter(int(state["lesson"]))
        for meter, saved in zip(self._meters, state["meters"], strict=False):
            meter.load_state_dict(saved)

    @property
    def _meters(self) -> tuple[Meter, ...]:
        return self._completion if self._giving_up is None else (*self._completion, self._giving_up)

    def _meters_of(self, lesson: int) -> tuple[tuple[Meter, ...], Meter | None]:
        settings = self.lessons[lesson]
        completion = tuple(make_meter(criterion, self._max_steps) for criterion in settings.completion)
        giving_up = settings.giving_up
        return completion, None if giving_up is None else make_meter(giving_up, self._max_steps)


def measured(criterion: CriterionSettings, value: float | None, episodes_left: int) -> dict[str, Any]:
    """The part of a status section that says what a lesson is waiting for."""
    return {
        "behavior": criterion.behavior,
        "measure": criterion.measure,
        "value": value,
        "threshold": criterion.threshold,
        "episodes_left": episodes_left,
    }


def _listed(identities: Sequence[str]) -> str:
    return "; ".join(identities) or "nothing"
