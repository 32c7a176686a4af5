"""The summaries of a run: what its behaviors did in ``summary_freq`` steps, for writers, plugins and curricula."""

from __future__ import annotations

from rlcore.plugins.calls import Plugins
from rlcore.plugins.run_context import RunContext
from rlcore.runs.behavior import BehaviorRun
from rlcore.runs.notifications import Notifications
from rlcore.runs.run_curricula import RunCurricula
from rlcore.runs.timers import Timers, gauge_name
from rlcore.runs.writers import OpenWriter
from rlcore.stats import IS_TRAINING, STEPS_PER_SECOND, StatSummary


class RunSummaries:
    """Makes summaries and hands them to stats writers, plugins and curricula."""

    def __init__(
        self,
        plugins: Plugins,
        context: RunContext,
        curricula: RunCurricula | None,
        timers: Timers,
        notifications: Notifications,
    ) -> None:
        self.writers: list[OpenWriter] = []
        self._plugins = plugins
        self._context = context
        self._curricula = curricula
        self._timers = timers
        self._notifications = notifications

    def summarise(self, behavior: BehaviorRun, steps_per_second: float) -> dict[str, StatSummary]:
        """One summary of ``behavior``, of everything since the one before."""
        inference, curricula = self._context.inference, self._curricula
        # ML-Agents' x value: the boundary that was crossed, not the step that crossed it.
        step = behavior.inferred if inference else min(behavior.next_summary, behavior.steps)
        behavior.window.add({STEPS_PER_SECOND: steps_per_second, IS_TRAINING: float(not inference)})
        if curricula is not None:
            behavior.window.add(curricula.stats())
        stats = behavior.summarise()
        for tag, summary in stats.items():
            self._timers.set_gauge(gauge_name(behavior.name, tag), summary.mean)
        for writer in self.writers:
            with self._notifications.failing_later():
                writer.write(behavior.name, step, stats, self._plugins.strict)
        self._notifications.summary_written(behavior.name, step, stats)
        if curricula is not None and not inference:
            curricula.summarised(behavior.name, stats)
        return stats
