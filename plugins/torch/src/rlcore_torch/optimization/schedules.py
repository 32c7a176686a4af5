"""Values that change with the steps taken, and updates that are due.

A schedule is a function of progress, the share of ``max_steps`` taken. Its result is the share of the way from the
initial to the final value; both are numbers from 0 to 1. A plugin registers schedules with ``rlcore_schedules``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import attrs

from rlcore import PluginError, RunContext, blamed, saved_count, saved_entry
from rlcore_torch.hookspecs import ScheduleSpec

__all__ = ["Schedule", "create_schedule", "linear"]


def linear(progress: float) -> float:
    """ML-Agents' ``linear``: the way gone is the progress made."""
    return progress


def constant(progress: float) -> float:
    """ML-Agents' ``constant``: never away from the initial value."""
    return 0.0


def cosine(progress: float) -> float:
    """Half a cosine (Loshchilov and Hutter 2017, arXiv:1608.03983, eq. 5 without restarts)."""
    return 0.5 * (1.0 - math.cos(math.pi * progress))


BUILT_IN: Mapping[str, Callable[[float], float]] = {"constant": constant, "cosine": cosine, "linear": linear}


@attrs.frozen
class Schedule:
    """A value that goes down from ``initial`` to ``final`` over ``max_steps`` agent steps, as ``share`` says.

    It stays at ``initial`` if that is not above ``final``.

    Calling a schedule with the number of agent steps taken returns the value.

    Attributes:
        share: One of ``BUILT_IN`` or another function from progress to the share of the way.
        initial: Value at step 0.
        final: Value that a share of 1 gives.
        max_steps: Agent steps until the final value.
    """

    share: Callable[[float], float]
    initial: float
    final: float
    max_steps: int

    def __call__(self, step: int) -> float:
        # A value that starts below its floor (beta: 0) stays there instead of growing towards the floor.
        if self.share is constant or self.initial <= self.final:
            return self.initial
        progress = min(step, self.max_steps) / self.max_steps  # the last update may lie behind max_steps
        remaining = 1.0 - self.share(progress)
        return (self.initial - self.final) * remaining + self.final


ROUNDING = 1e-9  # by which a share may lie outside of 0 to 1


@attrs.frozen
class _Checked:
    """The function of a plugin: its errors, and shares that are not from 0 to 1, name the plugin."""

    function: Callable[[float], Any]
    described: str

    def __call__(self, progress: float) -> float:
        with blamed(self.described, f"at progress {progress:g}"):
            share = float(self.function(progress))
        if not -ROUNDING <= share <= 1.0 + ROUNDING:
            raise PluginError(f"{self.described}: returned {share:g} at progress {progress:g}; must be from 0 to 1")
        return min(max(share, 0.0), 1.0)


def create_schedule(name: str, initial: float, final: float, max_steps: int, run: RunContext) -> Schedule:
    """Return the schedule that a key such as ``learning_rate_schedule`` names.

    Raises PluginError, which names the plugin, if the function of a plugin fails at the start, in the middle or at the
    end. A policy that is only measured needs no schedule: it has a constant one if the plugin is not known.
    """
    if name in BUILT_IN:
        return Schedule(BUILT_IN[name], initial, final, max_steps)
    if run.inference:
        return Schedule(constant, initial, final, max_steps)
    spec = run.plugins.record(ScheduleSpec, name)
    share = spec.resolve()
    if share not in BUILT_IN.values():  # a name with its distribution in front may be one of these
        share = _Checked(share, spec.described)
        for progress in (0.0, 0.5, 1.0):
            share(progress)
    return Schedule(share, initial, final, max_steps)


class UpdateRatio:
    """One update for every ``steps_per_update`` agent steps after ``start``, for any ratio, exactly.

    After n steps floor((n - start) / steps_per_update) updates are due in all, however the steps arrive; a remainder
    is carried over, never rounded away. The ratio is the decimal number in the configuration: 0.3 is three tenths,
    not the nearest binary fraction. With ``together`` > 1, updates wait until so many of them are due.
    """

    def __init__(self, steps_per_update: float, start: int = 0, together: int = 1) -> None:
        self._ratio = Fraction(str(steps_per_update))
        self._together = together
        self.start = start  # agent step from which steps count
        self.done = 0  # updates since then

    def due(self, steps: int) -> int:
        """Return the number of updates still to do at agent step ``steps``."""
        updates = (steps - self.start) * self._ratio.denominator // self._ratio.numerator
        updates -= updates % self._together
        return max(0, updates - self.done)

    @property
    def latest(self) -> int:
        """The agent step at which the latest update was due; before the first update, the one from which steps count.

        What the next update learns from begins there, and schedules are evaluated there.
        """
        return self._due_at(self.done)

    @property
    def next(self) -> int:
        """The agent step at which the next update is due."""
        complete = self.done - self.done % self._together
        return self._due_at(complete + self._together)

    def _due_at(self, updates: int) -> int:
        steps = -(-updates * self._ratio.numerator // self._ratio.denominator)  # rounded up
        return self.start + steps

    def restart(self, start: int) -> None:
        """Count from agent step ``start`` on."""
        self.start = start
        self.done = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the counts, as JSON values."""
        return {"start": self.start, "done": self.done, "ratio": str(self._ratio)}

    def load_state_dict(self, state: Mapping[str, Any], steps: int) -> None:
        """Continue at agent step ``steps``. A ratio that changed since the state was saved holds from there on.

        A start that lies ahead of ``steps`` is kept.
        """
        start = saved_count(state, "start")
        if saved_entry(state, "ratio") == str(self._ratio):
            self.start = start
            self.done = saved_count(state, "done")
        else:
            self.restart(max(steps, start))
