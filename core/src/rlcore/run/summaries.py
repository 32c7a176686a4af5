"""Summaries of a run: what happened since the one before, for statistics writers, plugins and curricula."""

from __future__ import annotations

import attrs

from rlcore.contracts.environment import ReportsStats
from rlcore.contracts.parts import BoundaryPart
from rlcore.contracts.stats import StatSummary, Tag
from rlcore.run.behaviors.behavior import TrainedBehavior
from rlcore.run.components import OpenWriter
from rlcore.run.evaluation.evaluations import Evaluations
from rlcore.run.session import Session


class Summaries(BoundaryPart):
    """Makes the summaries of all behaviors when they are due.

    Attributes:
        writers: The statistics writers, which are created before the first step.
        made: The statistics of the summaries at the latest step where some were due, by behavior.
    """

    name = "summary"

    def __init__(self, session: Session, evaluations: Evaluations) -> None:
        self.writers: list[OpenWriter] = []
        self.made: dict[str, dict[str, StatSummary]] = {}
        self._session = session
        self._evaluations = evaluations

    def due(self, step: int, ending: bool) -> bool:
        """Whether a summary of a behavior is due, or training ends."""
        return ending or any(map(self._due_of, self._session.state.behaviors.values()))

    def do(self, step: int) -> None:
        """Make the summaries that are due."""
        behaviors = self._session.state.behaviors.values()
        self.made = {behavior.name: self._summarize(behavior) for behavior in behaviors if self._due_of(behavior)}

    def flush(self, step: int) -> None:
        """Have all summaries on disk: a power failure must leave no checkpoint beside summaries that end before it."""
        for writer in self.writers:
            with self._session.notifications.failing_later():
                writer.flush(step, self._session.prepared.plugins.strict)

    def _due_of(self, behavior: TrainedBehavior) -> bool:
        """Whether a summary of ``behavior`` is due at this step.

        It is due when the behavior's steps pass a multiple of ``summary_freq`` or reach ``max_steps``, and when an
        evaluation reaches ``stop_at``, which ends the run. With ``--inference`` it is due at the end of every epoch.
        """
        if self._session.context.inference or (self._evaluations.scores.stopped and behavior.learning):
            return True
        return behavior.summary_due

    def _summarize(self, behavior: TrainedBehavior) -> dict[str, StatSummary]:
        """One summary of ``behavior``, of everything since the one before."""
        session = self._session
        run = session.prepared
        state = session.state
        inference = session.context.inference
        # ML-Agents' x value: the boundary that was crossed, not the step that crossed it.
        step = behavior.inferred if inference else min(behavior.next_summary, behavior.steps)
        speed = session.steps_per_second
        behavior.window.add({Tag.STEPS_PER_SECOND: speed, Tag.IS_TRAINING: float(not inference)})
        for part in state.parts:
            behavior.window.add(part.stats())
        if isinstance(state.environment, ReportsStats):
            behavior.window.add(state.environment.stats())
        measured = behavior.window.summarize()
        stats = session.notifications.processed_summary(behavior.name, step, measured)
        for tag, summary in stats.items():
            run.timers.set_gauge(behavior.name, tag, summary.mean)
        for writer in self.writers:
            with session.notifications.failing_later():
                writer.write(behavior.name, step, stats, run.plugins.strict)
        session.notifications.notify("rlcore_summary_written", behavior=behavior.name, step=step, stats=stats)
        if not inference:
            self._tell_parts(behavior.name, measured)  # what plugins show must not change what is learned
        return stats

    def _tell_parts(self, behavior: str, measured: dict[str, StatSummary]) -> None:
        """Tell the parts that use summaries what rank 0 measured, because seconds differ between ranks."""
        told = self._session.state.parts_with("summarised")
        if not told:
            return
        shared = self._session.context.ranks.share({tag: attrs.asdict(each) for tag, each in measured.items()})
        of_rank_0 = {tag: StatSummary(**{**each, "values": tuple(each["values"])}) for tag, each in shared.items()}
        for part in told:
            part.summarised(behavior, of_rank_0)
