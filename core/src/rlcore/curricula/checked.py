"""What a run asks of a curriculum, checked where it enters.

Shapes: K episodes, P parameters of one curriculum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from rlcore.curriculum import NO_CHANGES, Changes, Curriculum, EndedEpisodes, EpisodeDraw, LessonChange
from rlcore.errors import PluginError, RlcoreError, one_line
from rlcore.saved_values import BAD_STATE, SavedValueError, bad_state
from rlcore.stats import StatSummary


class CheckedCurriculum:
    """A curriculum as a run asks it: its answers are checked where they enter, and its errors say whose it is.

    What it raises becomes a PluginError, unless it is rlcore's own error; so does an answer that is not what
    :class:`Curriculum` says.
    """

    def __init__(self, curriculum: Curriculum, parameters: Sequence[str], described: str, reference: str) -> None:
        """``parameters`` are its blocks' names; ``described`` and ``reference``, DIST/NAME, are of its record."""
        self.curriculum = curriculum
        self.parameters = tuple(parameters)
        self.described = described
        self.reference = reference
        given = curriculum.parameters
        if not isinstance(given, tuple | list) or tuple(given) != self.parameters:
            self.refuse("parameters", f"is {given!r}, not {self.parameters!r}, the names of its blocks in their order")

    @classmethod
    def of(cls, curriculum: Curriculum, name: str) -> CheckedCurriculum:
        """One that no plugin made is called ``name``; one that is checked already stays as it is."""
        if isinstance(curriculum, CheckedCurriculum):
            return curriculum
        return cls(curriculum, curriculum.parameters, f"curriculum {name!r}", name)

    @property
    def every_step(self) -> bool:
        return self.curriculum.every_step

    def draw(self, env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> EpisodeDraw:
        try:
            drawn = self.curriculum.draw(env_index, episodes)
        except BaseException as error:
            self._blame("draw", error)
        if not isinstance(drawn, EpisodeDraw):
            self.refuse("draw", f"returned {_shown(drawn)}, not an EpisodeDraw")
        shape, stamp = self._check_values("draw", drawn.values, env_index, episodes), drawn.stamp
        if not isinstance(stamp, np.ndarray) or stamp.shape != shape or stamp.dtype.kind not in "iu":
            self.refuse("draw", f"returned as stamp {_shown(stamp)}, not an array of integers of shape {shape}")
        return drawn

    def draw_target(self, env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> NDArray[np.float64]:
        values: NDArray[np.float64] = self._ask("draw_target", env_index, episodes)
        self._check_values("draw_target", values, env_index, episodes)
        return values

    def episodes_ended(self, ended: EndedEpisodes) -> None:
        try:
            self.curriculum.episodes_ended(ended)
        except BaseException as error:
            self._blame("episodes_ended", error)

    def advance(self, steps: Mapping[str, int]) -> Changes:
        try:
            changes = self.curriculum.advance(steps)
        except BaseException as error:
            self._blame("advance", error)
        if changes is not NO_CHANGES:
            self._check_changes(changes)
        return changes

    def summarised(self, behavior: str, stats: Mapping[str, StatSummary]) -> None:
        self._ask("summarised", behavior, stats)

    def stats(self) -> dict[str, float]:
        stats = self._ask("stats")
        if not isinstance(stats, Mapping):
            self.refuse("stats", f"returned {_shown(stats)}, not a mapping of numbers by tag")
        for tag, value in stats.items():
            if not isinstance(tag, str):
                self.refuse("stats", f"returned the tag {tag!r}, which is no text")
            if not isinstance(value, Real) or not isfinite(value):
                self.refuse("stats", f"returned {value!r} for the tag {tag!r}, not a finite number")
        return {tag: float(value) for tag, value in stats.items()}

    def status(self) -> Mapping[str, Mapping[str, Any]]:
        status = self._ask("status")
        sections = ", ".join(map(repr, status)) if isinstance(status, Mapping) else None
        if sections is None or set(status) != set(self.parameters):
            found = _shown(status) if sections is None else f"the sections {sections or 'of nothing'}"
            self.refuse("status", f"returned {found}, not one section for each of {', '.join(self.parameters)}")
        for name, section in status.items():
            if not isinstance(section, Mapping):
                self.refuse("status", f"returned as the section {name!r} {_shown(section)}, not a mapping")
            lesson = section.get("lesson_num", 0)
            if not isinstance(lesson, int | np.integer):
                self.refuse("status", f"returned in the section {name!r} lesson_num {lesson!r}, not a whole number")
        return cast("Mapping[str, Mapping[str, Any]]", status)

    def load_status(self, sections: Mapping[str, Any]) -> None:
        self._ask("load_status", sections)

    def state_dict(self) -> dict[str, Any]:
        state = self._ask("state_dict")
        if not isinstance(state, Mapping):
            self.refuse("state_dict", f"returned {_shown(state)}, not a mapping of arrays and JSON values")
        return dict(state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        try:
            self.curriculum.load_state_dict(state)
        except (SavedValueError, *BAD_STATE) as error:
            what = str(error) if isinstance(error, SavedValueError) else bad_state(error)
            raise SavedValueError(f"{self.described} cannot take up its state: {what}") from error
        except BaseException as error:
            self._blame("load_state_dict", error)

    def _ask(self, method: str, *arguments: Any) -> Any:
        """For what is not asked in every step; there, the call is written out."""
        try:
            return getattr(self.curriculum, method)(*arguments)
        except BaseException as error:
            self._blame(method, error)

    def _blame(self, method: str, error: BaseException) -> NoReturn:
        """Raises what ``method`` raised, as the plugin's; rlcore's own errors and Ctrl-C stay as they are."""
        if isinstance(error, RlcoreError) or not isinstance(error, Exception | SystemExit):
            raise error
        raise PluginError(f"{self.described} failed in {method}: {one_line(error)}") from error

    # ------------------------------------------------------------ what is wrong

    def refuse(self, method: str, what: str) -> NoReturn:
        """Raises PluginError: ``method`` did ``what``."""
        raise PluginError(f"{self.described}: {method} {what}")

    def _check_values(
        self, method: str, values: Any, env_index: NDArray[np.int64], episodes: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Returns the shape [K, P] they must have, and have."""
        shape = (len(env_index), len(self.parameters))
        if not isinstance(values, np.ndarray) or values.shape != shape or values.dtype.kind != "f":
            self.refuse(method, f"returned as values {_shown(values)}, not an array of floats of shape {shape}")
        # x . x is finite unless x has a NaN or an infinity, or is huge; only then is it worth looking closer.
        if not isfinite(np.vdot(values, values)):
            for row, column in np.argwhere(~np.isfinite(values)).tolist():
                self.refuse(
                    method,
                    f"returned {values[row, column]:g} for the parameter {self.parameters[column]!r} (environment "
                    f"{env_index[row]}, episode {episodes[row]}); every value must be finite",
                )
        return shape

    def _check_changes(self, changes: Any) -> None:
        if not isinstance(changes, Changes):
            self.refuse("advance", f"returned {_shown(changes)}, not Changes; NO_CHANGES says that there are none")
        if not isinstance(changes.lessons, tuple):
            self.refuse("advance", f"returned as lessons {_shown(changes.lessons)}, not a tuple of LessonChanges")
        for change in changes.lessons:
            if not isinstance(change, LessonChange):
                self.refuse("advance", f"returned among its lessons {_shown(change)}, not a LessonChange")
            if change.parameter not in self.parameters:
                known = ", ".join(self.parameters)
                self.refuse("advance", f"returned a lesson of the parameter {change.parameter!r}, but has {known} only")
            if any(not isinstance(number, int) or number < 0 for number in (change.lesson, change.previous)):
                self.refuse("advance", f"returned {change}: the numbers of lessons are ints, counted from 0")
            if not isinstance(change.name, str) or not isinstance(change.previous_name, str):
                self.refuse("advance", f"returned {change}: the names of lessons are text")


def _shown(value: Any) -> str:
    """What it is, for messages."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return "None" if value is None else f"a {type(value).__name__}"
