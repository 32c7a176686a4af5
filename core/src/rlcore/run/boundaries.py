"""The work of a run between two steps: a list of parts, in the order in which they are done, saved and restored.

At a boundary, the checkpoint that is still being written is waited for. Then each part of :data:`ORDER` does what is
due. The summary ends the epoch: the loop returns, and what follows the summary is done when the epoch was measured.
An evaluation that is abandoned because the run is to stop leaves everything after it to the resumed run.

``curricula``
    Choose what episodes begin with. Never due: they follow every reset, step and summary.
``evaluation``
    Plays whole episodes in an environment of its own, at multiples of ``evaluation.interval`` and at the end.
``summary``
    Statistics of each behavior, at multiples of its ``summary_freq``.
``checkpoint``
    Saves everything, at multiples of ``checkpoint_interval``: the trainers, the run, and the state of each part.
``export``
    Writes policies as files, after a checkpoint and at the end of the run.

A part of a plugin (``rlcore_boundary_parts``) stands before the part that it names, else at the end. A resume restores
in the order of :mod:`rlcore.run.resume`.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.contracts.parts import BoundaryPart
from rlcore.contracts.results import BehaviorResult
from rlcore.errors import PluginError, RanksFailed
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.failures import blamed
from rlcore.records import BoundaryPartSpec
from rlcore.run.checkpoints import Checkpoints
from rlcore.run.evaluation.evaluations import Evaluations
from rlcore.run.exports import Exports
from rlcore.run.session import Session
from rlcore.run.summaries import Summaries

ORDER = ("curricula", "evaluation", "summary", "checkpoint", "export")


class Boundaries:
    """Has the parts of a run do what is due between two steps."""

    def __init__(self, session: Session, evaluations: Evaluations, exports: Exports) -> None:
        self.evaluations = evaluations
        self.exports = exports
        self.summaries = Summaries(session, evaluations)
        self.checkpoints = Checkpoints(session, evaluations, self.summaries)
        self._session = session
        parts: list[BoundaryPart] = [evaluations, self.summaries, self.checkpoints, exports]
        if session.state.curricula is not None:
            parts.append(session.state.curricula)
        parts.sort(key=lambda part: ORDER.index(part.name))
        of_plugins = parts_of_plugins(session.prepared.plugins, session.context)
        session.state.parts = in_order(parts, of_plugins)

    def reached(self) -> bool:
        """Do what is due before the summary. Returns whether the summary is due, or the run ends here.

        If not, what follows the summary is done too.
        """
        # What follows a checkpoint happens here, and not when the disk is done: at the same step in every run.
        self.checkpoints.wait_until_written()
        self.evaluations.overdue = None
        before, after = self._around_the_summary()
        self._do(before)
        state = self._session.state
        if self.evaluations.overdue is not None or self.summaries.due(state.steps, state.ending):
            return True
        self._do(after)
        self.watch()
        return False

    def end_epoch(self, steps_per_second: float) -> dict[str, BehaviorResult]:
        """Make the summaries, and do what follows them. Returns the results of the epoch, by behavior."""
        session = self._session
        behaviors = session.state.behaviors
        session.steps_per_second = steps_per_second
        overdue = self.evaluations.overdue is not None
        self.summaries.made = {}
        if not overdue:
            self.summaries.do(session.state.steps)
        results = {}
        for name, behavior in behaviors.items():
            stats = self.summaries.made.get(name, {})
            results[name] = behavior.result(stats)
        if not overdue:
            _, after = self._around_the_summary()
            self._do(after)
            for behavior in behaviors.values():
                behavior.set_boundaries()
        return results

    def watch(self) -> None:
        """Have the loop stop at the next step of the run at which a part is due."""
        state = self._session.state
        steps = [part.next_step for part in state.parts if part.next_step is not None]
        if steps:
            state.stop_at(min(steps))

    def raise_failure(self) -> None:
        """Save a checkpoint and raise the error of a writer or a notification, if it is to end the run."""
        context = self._session.context
        failure = self._session.notifications.failure
        message = None if failure is None else str(failure)
        reason = context.ranks.share(message)  # only rank 0 calls plugins; the others end with it
        if reason is None:
            return
        self.checkpoints.wait_until_written()
        if not context.inference:
            self.checkpoints.save_unless_saved(regular=False)
        raise failure or RanksFailed(f"rank 0 failed: {reason}")

    def _around_the_summary(self) -> tuple[Sequence[BoundaryPart], Sequence[BoundaryPart]]:
        """The parts before the summary, and those after it."""
        parts = self._session.state.parts
        place = parts.index(self.summaries)
        return parts[:place], parts[place + 1 :]

    def _do(self, parts: Sequence[BoundaryPart]) -> None:
        """Have ``parts`` do what is due, until an evaluation is abandoned."""
        state = self._session.state
        for part in parts:
            if part.due(state.steps, state.ending):
                part.do(state.steps)
            if self.evaluations.overdue is not None:
                return


def parts_of_plugins(plugins: Plugins, context: RunContext) -> list[tuple[BoundaryPart, str]]:
    """The parts that plugins add to a training, each with the part that it stands before."""
    if context.inference:
        return []
    added = []
    for record in plugins.records(BoundaryPartSpec.kind):
        assert isinstance(record, BoundaryPartSpec)
        part: BoundaryPart = plugins.create(record, run=context)
        part.name = record.reference
        part.described = record.described
        for name in vars(BoundaryPart):
            method = getattr(part, name)
            if callable(method) and not name.startswith("_"):
                blaming = blamed(part.described, f"in {name}")
                setattr(part, name, blaming(method))
        added.append((part, record.before))
    return added


def in_order(of_rlcore: Sequence[BoundaryPart], added: Sequence[tuple[BoundaryPart, str]]) -> tuple[BoundaryPart, ...]:
    """The parts of a run in their order. Raises PluginError for a part that stands before one that there is not."""
    parts = list(of_rlcore)
    for part, before in added:
        names = [known.name for known in parts]
        if before and before not in names:
            raise PluginError(
                f"{part.described}: there is no part {before!r} to stand before; there are {', '.join(names)}"
            )
        place = names.index(before) if before else len(parts)
        parts.insert(place, part)
    return tuple(parts)
