"""The values that the parts of a run share while it trains, and the events that they tell plugins."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import attrs

from rlcore.contracts.curriculum import LessonChange
from rlcore.contracts.results import EvaluationResult, PhaseTimes
from rlcore.contracts.stats import StatSummary, StatsWindow
from rlcore.errors import PluginError
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.run.prepare import Preparation
from rlcore.run.state import TrainingState

log = logging.getLogger(__name__)


@attrs.define(eq=False)
class Notifications:
    """Calls the hooks of a run's events, in rank 0. ``failure`` is the first error of a plugin that is to end the run.

    Such an error, raised only if plugins are strict or a plugin wants the process to end, waits until everything that
    was learned is saved.
    """

    _plugins: Plugins
    _context: RunContext
    failure: PluginError | None = attrs.field(init=False, default=None)

    @contextmanager
    def failing_later(self) -> Iterator[None]:
        """Keep a PluginError of the block as the ``failure`` unless there is one."""
        try:
            yield
        except PluginError as failure:
            self.failure = self.failure or failure

    def notify(self, hook: str, **event: Any) -> None:
        """Call a notification hook of all plugins with the run and the ``event``."""
        if self._context.ranks.rank == 0:  # an event of the run happens once, in however many processes
            with self.failing_later():
                self._plugins.notify(hook, run=self._context, **event)

    def lesson_changed(self, step: int, change: LessonChange) -> None:
        """Log a change of a lesson, and notify plugins."""
        if self._context.ranks.rank == 0:
            log.info(
                "environment parameter %r: lesson %d (%s) after %d (%s) at step %d",
                change.parameter,
                change.lesson,
                change.name,
                change.previous,
                change.previous_name,
                step,
            )
        self.notify("rlcore_lesson_changed", step=step, change=change)

    def processed_summary(self, behavior: str, step: int, stats: dict[str, StatSummary]) -> dict[str, StatSummary]:
        """The summary as plugins change it; as it was if one of them fails and is to end the run."""
        if self._context.ranks.rank == 0:
            with self.failing_later():
                return self._plugins.process_summary(self._context, behavior, step, stats)
        return stats


@attrs.define(eq=False, slots=False)
class Session:
    """A run while it trains: what is created once, and what changes from epoch to epoch."""

    prepared: Preparation
    context: RunContext
    state: TrainingState  # another one when agents got slots
    notifications: Notifications
    times: PhaseTimes = attrs.field(init=False, factory=PhaseTimes)  # of the epoch
    steps_per_second: float = attrs.field(init=False, default=0.0)  # of the epoch, when it has ended
    evaluated: EvaluationResult | None = attrs.field(init=False, default=None)  # in this epoch, latest
    ending: bool = attrs.field(init=False, default=False)  # the run ends: no step follows
    seconds_before: float = attrs.field(init=False, default=0.0)  # of earlier processes of this run
    started_at: float = attrs.field(init=False, factory=perf_counter)

    def wall_seconds(self) -> float:
        """Seconds of the run, with those of earlier processes."""
        return self.seconds_before + perf_counter() - self.started_at

    def stopping(self) -> bool:
        """Whether a stop was requested, or a plugin's failure is to end the run."""
        return self.prepared.stops.first is not None or self.notifications.failure is not None

    def pausing(self) -> bool:
        """Whether the run is to stop, or to save a checkpoint and continue."""
        return self.prepared.stops.save or self.stopping()

    def begin_epoch(self) -> PhaseTimes:
        """Begin an epoch. Returns its times, for the loop to add to."""
        self.times = PhaseTimes()
        self.context.times = self.times
        self.evaluated = None
        for behavior in self.state.behaviors.values():
            behavior.epoch_episodes = StatsWindow()
            behavior.epoch_updates = StatsWindow()
        return self.times
