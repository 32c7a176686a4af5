"""Summaries of a run: what happened since the one before, for plugins, curricula and the statistics writers."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import attrs

from rlcore.contracts.environment import ReportsStats
from rlcore.contracts.parts import BoundaryPart
from rlcore.contracts.stats import FlushesSummaries, StatSummary, StatsWriter, Tag
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.failures import failure
from rlcore.records import StatsWriterSpec
from rlcore.run.behaviors.behavior import TrainedBehavior
from rlcore.run.evaluation.evaluations import Evaluations
from rlcore.run.session import Session
from rlcore.settings import RunConfig

log = logging.getLogger(__name__)


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
        behaviors = self._session.state.behaviors.values()
        return ending or any(self._due_of(behavior) for behavior in behaviors)

    def do(self, step: int) -> None:
        """Make the summaries that are due."""
        self.made = {}
        for name, behavior in self._session.state.behaviors.items():
            if self._due_of(behavior):
                self.made[name] = self._summarize(behavior)

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
        if self._session.context.inference:
            return True
        if self._evaluations.scores.stopped and behavior.learning:
            return True
        return behavior.summary_due

    def _summarize(self, behavior: TrainedBehavior) -> dict[str, StatSummary]:
        """One summary of ``behavior``, of everything since the one before."""
        session = self._session
        run = session.prepared
        state = session.state
        notifications = session.notifications
        inference = session.context.inference
        name = behavior.name
        window = behavior.window
        # ML-Agents' x value: the boundary that was crossed, not the step that crossed it.
        step = min(behavior.next_summary, behavior.steps)
        if inference:
            step = behavior.inferred
        window.extend(Tag.STEPS_PER_SECOND, [session.steps_per_second])
        window.extend(Tag.IS_TRAINING, [float(not inference)])  # as ML-Agents writes it
        for part in state.parts:
            window.add(part.stats())
        if isinstance(state.environment, ReportsStats):
            window.add(state.environment.stats())
        measured = window.summarize()
        stats = notifications.processed_summary(name, step, measured)
        for tag, summary in stats.items():
            run.timers.set_gauge(name, tag, summary.mean)
        for writer in self.writers:
            with notifications.failing_later():
                writer.write(name, step, stats, run.plugins.strict)
        notifications.notify("rlcore_summary_written", behavior=name, step=step, stats=stats)
        if not inference:
            # What was measured, not what plugins made of it: what they show must not change what is learned.
            self._share_with_parts(name, measured)
        return stats

    def _share_with_parts(self, behavior: str, measured: dict[str, StatSummary]) -> None:
        """Tell the parts that use summaries what rank 0 measured, because seconds differ between ranks."""
        parts = self._session.state.parts_with("summarised")
        if not parts:
            return
        plain = {tag: attrs.asdict(summary) for tag, summary in measured.items()}
        shared = self._session.context.ranks.share(plain)
        of_rank_0 = {}
        for tag, fields in shared.items():
            values = tuple(fields["values"])  # ranks exchange lists
            of_rank_0[tag] = StatSummary(**{**fields, "values": values})
        for part in parts:
            part.summarised(behavior, of_rank_0)


@attrs.define(eq=False)
class OpenWriter:
    """A statistics writer. If it fails, the run continues without it, or ends where plugins are strict.

    ``described`` names the writer with its plugin, distribution and version.
    """

    writer: StatsWriter
    described: str
    missed: int = 0  # summaries since it failed, including the first

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary], strict: bool) -> None:
        """Write one summary, unless the writer has failed before.

        A failure is a warning. It is a PluginError if ``strict`` (``--strict-plugins``), or if the writer raised
        SystemExit; the caller keeps the error until a checkpoint is saved.
        """
        if self.missed:
            self.missed += 1
            return
        with self._failing(step, strict):
            self.writer.write(behavior, step, stats)

    def flush(self, step: int, strict: bool) -> None:
        """Have the writer's summaries on disk before the checkpoint of ``step``. A failure is one of :meth:`write`."""
        if not self.missed and isinstance(self.writer, FlushesSummaries):
            with self._failing(step, strict):
                self.writer.flush()

    @contextmanager
    def _failing(self, step: int, strict: bool) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:
            failed = failure(self.described, f"at step {step}", error)
            if strict or isinstance(error, SystemExit):
                raise failed from error
            self.missed = 1
            log.warning("%s; the run continues without it", failed)
            log.debug("the traceback of it:", exc_info=failed)

    def close(self) -> None:
        """Close the writer, and report how many summaries it missed."""
        if self.missed:
            summaries = "summary" if self.missed == 1 else "summaries"
            log.warning("%s missed %d %s", self.described, self.missed, summaries)
        self.writer.close()


def make_writers(config: RunConfig, plugins: Plugins, context: RunContext) -> list[OpenWriter]:
    """The writers that are on by default and not turned off, and those the ``stats`` block names."""
    configured: dict[StatsWriterSpec, Any] = {}
    for reference, settings in config.stats.items():
        configured[plugins.record(StatsWriterSpec, reference)] = settings
    # Writers that are on by default come first, in the order of their plugins.
    chosen: dict[StatsWriterSpec, Any] = {}
    for record in plugins.records("writer"):
        if isinstance(record, StatsWriterSpec) and record.default_on and record not in configured:
            chosen[record] = None
    chosen |= configured
    writers: list[OpenWriter] = []
    if context.ranks.rank:
        return writers
    try:
        for spec, settings in chosen.items():
            if settings is False or (context.inference and not spec.inference):
                continue
            if settings is None and spec.settings is not None:
                settings = spec.resolve("settings")()
            writer = plugins.create(spec, settings=settings, run=context)
            writers.append(OpenWriter(writer, spec.described))
    except BaseException:
        for opened in writers:
            with suppress(Exception, SystemExit):  # the first error is the one to report
                opened.close()
        raise
    return writers
