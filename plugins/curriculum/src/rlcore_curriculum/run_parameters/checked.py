"""A curriculum as a run calls it: what would harm the run is refused, and every error names the curriculum.

Checked are the shapes of draws, that every number is finite, and the names of parameters. Everything else that
:class:`rlcore.Curriculum` asks for is tested by :class:`rlcore_devkit.CurriculumConformance`.

Shapes: K episodes, P parameters of one curriculum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NoReturn

import numpy as np

from rlcore import (
    Changes,
    Curriculum,
    EndedEpisodes,
    EpisodeDraw,
    ParameterSampler,
    PluginError,
    SampledCurriculum,
    SavedValueError,
    StatSummary,
    blamed,
    first_non_finite,
    one_line,
)
from rlcore_curriculum.arrays import Floats, Ints

# What a ``load_state_dict`` raises for a state that is not its own.
BAD_STATE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


class CheckedCurriculum:
    """Calls a curriculum and checks its answers. A foreign error, or a wrong answer, becomes a PluginError."""

    def __init__(
        self,
        curriculum: Curriculum,
        parameters: Sequence[str],
        described: str,
        reference: str,
    ) -> None:
        """``parameters`` are its blocks' names; ``described`` and ``reference`` are of its record."""
        self.curriculum = curriculum
        self.parameters = tuple(parameters)
        self.described = described
        self.reference = reference
        names = curriculum.parameters
        if not isinstance(names, tuple | list) or tuple(names) != self.parameters:
            self.refuse("parameters", f"is {names!r}, not {self.parameters!r}, the names of its blocks in their order")

    @classmethod
    def of(cls, curriculum: Curriculum, name: str) -> CheckedCurriculum:
        """Wrap the curriculum unless it is wrapped already. ``name`` labels curricula that no plugin registered."""
        if isinstance(curriculum, CheckedCurriculum):
            return curriculum
        return cls(curriculum, curriculum.parameters, f"curriculum {name!r}", name)

    @property
    def every_step(self) -> bool:
        """Whether the curriculum wants :meth:`advance` after every environment step."""
        return self.curriculum.every_step

    def samplers(self, target: bool = False) -> Mapping[str, ParameterSampler]:
        """Return the distributions of the next values, or of the ``target``, of parameters that have one."""
        curriculum = self.curriculum
        if not isinstance(curriculum, SampledCurriculum):
            return {}
        return curriculum.target_samplers if target else curriculum.samplers

    # ------------------------------------------------------------ in the loop

    def draw(self, env_index: Ints, episodes: Ints) -> EpisodeDraw:
        """Return the values [K, P] of the episodes ``episodes`` [K] of the environments ``env_index`` [K]."""
        with blamed(self.described, "in draw"):
            drawn = self.curriculum.draw(env_index, episodes)
            values = drawn.values
            draw_id = drawn.draw_id
        shape = self._check_values("draw", values, env_index, episodes)
        if not isinstance(draw_id, np.ndarray) or draw_id.shape != shape or draw_id.dtype.kind not in "iu":
            self.refuse(
                "draw", f"returned as draw_id {_description(draw_id)}, not an array of integers of shape {shape}"
            )
        return drawn

    def draw_target(self, env_index: Ints, episodes: Ints) -> Floats:
        """Return the values [K, P] of the task that training is for; the arguments are those of :meth:`draw`."""
        values: Floats = self._call("draw_target", env_index, episodes)
        self._check_values("draw_target", values, env_index, episodes)
        return values

    def episodes_ended(self, ended: EndedEpisodes) -> None:
        """Report ended episodes of one behavior."""
        self._call("episodes_ended", ended)

    def advance(self, steps: Mapping[str, int]) -> Changes:
        """Return the changes that the episodes so far led to. ``steps`` are agent steps by behavior."""
        with blamed(self.described, "in advance"):
            changes = self.curriculum.advance(steps)
            named = {change.parameter for change in changes.lessons}
        for parameter in named.difference(self.parameters):
            self.refuse("advance", f"returned a lesson of the parameter {parameter!r}, but has {self._names} only")
        return changes

    # ------------------------------------------------------------ at summaries and checkpoints

    def summarised(self, behavior: str, stats: Mapping[str, StatSummary]) -> None:
        """Report the statistics of a behavior after a summary."""
        self._call("summarised", behavior, stats)

    def stats(self) -> dict[str, float]:
        """Return scalars by tag, which are finite."""
        with blamed(self.described, "in stats"):
            returned = self.curriculum.stats()
            stats = {str(tag): float(value) for tag, value in returned.items()}
        for tag, value in stats.items():
            if not isfinite(value):
                self.refuse("stats", f"returned {value!r} for the tag {tag!r}, not a finite number")
        return stats

    def status(self) -> dict[str, Mapping[str, Any]]:
        """Return a section of the training status for each parameter."""
        with blamed(self.described, "in status"):
            status = dict(self.curriculum.status())
        if set(status) != set(self.parameters):
            found = ", ".join(map(repr, status)) or "of nothing"
            self.refuse("status", f"returned the sections {found}, not one section for each of {self._names}")
        return status

    def load_status(self, sections: Mapping[str, Any]) -> None:
        """Start with the lessons in ``sections``, the status of another run."""
        self._call("load_status", sections)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint saves of the curriculum."""
        with blamed(self.described, "in state_dict"):
            return dict(self.curriculum.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises SavedValueError for a state that the curriculum cannot load."""
        with blamed(self.described, "in load_state_dict"):
            try:
                self.curriculum.load_state_dict(state)
            except SavedValueError as error:
                problem = str(error)
                cause: Exception = error
            except KeyError as error:
                problem = f"the entry {error.args[0] if error.args else '?'!r} is missing"
                cause = error
            except BAD_STATE as error:
                problem = one_line(error)
                cause = error
            else:
                return
            raise SavedValueError(f"{self.described} cannot load its state: {problem}") from cause

    # ------------------------------------------------------------ what is wrong

    def refuse(self, method: str, what: str) -> NoReturn:
        """Raise PluginError: ``method`` did ``what``."""
        raise PluginError(f"{self.described}: {method} {what}")

    def _call(self, method: str, *arguments: Any) -> Any:
        with blamed(self.described, f"in {method}"):
            return getattr(self.curriculum, method)(*arguments)

    @property
    def _names(self) -> str:
        return ", ".join(self.parameters)

    def _check_values(self, method: str, values: Any, env_index: Ints, episodes: Ints) -> tuple[int, int]:
        """Returns the shape [K, P] that ``values`` must have, and have."""
        shape = (len(env_index), len(self.parameters))
        if not isinstance(values, np.ndarray) or values.shape != shape or values.dtype.kind != "f":
            self.refuse(method, f"returned as values {_description(values)}, not an array of floats of shape {shape}")
        # x . x is finite unless x has a NaN or an infinity, or is huge: only then look closer.
        if isfinite(np.vdot(values, values)):
            return shape
        place = first_non_finite(values)
        if place is not None:
            row, column = place
            self.refuse(
                method,
                f"returned {values[place]:g} for the parameter {self.parameters[column]!r} (environment "
                f"{env_index[row]}, episode {episodes[row]}); every value must be finite",
            )
        return shape


def _description(value: Any) -> str:
    """What ``value`` is, for messages."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return "None" if value is None else f"a {type(value).__name__}"
