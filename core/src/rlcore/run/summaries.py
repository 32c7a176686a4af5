"""The summaries of a run: what its behaviors did in ``summary_freq`` steps, for writers, plugins and curricula.

:meth:`RunSummaries.due` decides when a summary is due, and :meth:`rlcore.run.training.Training.train_epoch` makes it:
after the evaluation of the same step, and before the checkpoint. :meth:`RunSummaries.summarize` decides which step it
shows: the multiple of ``summary_freq``, not the step that passed it.
"""

from __future__ import annotations

import attrs

from rlcore.contracts.environment import Environment, ReportsStats
from rlcore.contracts.stats import IS_TRAINING, STEPS_PER_SECOND, StatSummary
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.ranks.ranks import Ranks
from rlcore.run.behavior import BehaviorRun
from rlcore.run.evaluations import RunEvaluation
from rlcore.run.notifications import Notifications
from rlcore.run.run_curricula import RunCurricula
from rlcore.run.timers import Timers, gauge_name
from rlcore.run.writers import OpenWriter


class RunSummaries:
    """Makes summaries and hands them to stats writers, plugins and curricula."""

    def __init__(
        self,
        plugins: Plugins,
        context: RunContext,
        curricula: RunCurricula | None,
        timers: Timers,
        notifications: Notifications,
        environment: Environment | None = None,
    ) -> None:
        self.writers: list[OpenWriter] = []
        self._plugins = plugins
        self._context = context
        self._curricula = curricula
        self._timers = timers
        self._notifications = notifications
        self._reporting = environment if isinstance(environment, ReportsStats) else None

    def due(self, behavior: BehaviorRun, evaluation: RunEvaluation) -> bool:
        """Whether a summary of ``behavior`` is due at this step.

        It is due when the behavior's steps pass a multiple of ``summary_freq`` or reach ``max_steps``, and when an
        evaluation reaches ``stop_at``, which ends the run. With ``--inference`` it is due at the end of every epoch.
        It is not due while an evaluation is overdue, because the resumed run makes both at this step.
        """
        if evaluation.overdue is not None:
            return False
        if self._context.inference or (evaluation.scores.stopped and behavior.learning):
            return True
        return behavior.summary_due

    def summarize(self, behavior: BehaviorRun, steps_per_second: float) -> dict[str, StatSummary]:
        """One summary of ``behavior``, of everything since the one before."""
        inference, curricula = self._context.inference, self._curricula
        # ML-Agents' x value: the boundary that was crossed, not the step that crossed it.
        step = behavior.inferred if inference else min(behavior.next_summary, behavior.steps)
        behavior.window.add({STEPS_PER_SECOND: steps_per_second, IS_TRAINING: float(not inference)})
        if curricula is not None:
            behavior.window.add(curricula.stats())
        if self._reporting is not None:
            behavior.window.add(self._reporting.stats())
        measured = behavior.summarize()
        stats = self._notifications.processed_summary(behavior.name, step, measured)
        for tag, summary in stats.items():
            self._timers.set_gauge(gauge_name(behavior.name, tag), summary.mean)
        for writer in self.writers:
            with self._notifications.failing_later():
                writer.write(behavior.name, step, stats, self._plugins.strict)
        self._notifications.summary_written(behavior.name, step, stats)
        if curricula is not None and not inference:
            measured = shared_summary(measured, self._context.ranks)  # seconds differ
            curricula.summarised(behavior.name, measured)  # what plugins show must not change what is learned
        return stats


def shared_summary(stats: dict[str, StatSummary], ranks: Ranks) -> dict[str, StatSummary]:
    """The summary of rank 0."""
    if ranks.size == 1:
        return stats
    shared = ranks.share({tag: attrs.asdict(summary) for tag, summary in stats.items()})
    return {tag: StatSummary(**{**each, "values": tuple(each["values"])}) for tag, each in shared.items()}
