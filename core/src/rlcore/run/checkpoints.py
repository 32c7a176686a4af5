"""Checkpoints of a run: when one is due, what it saves, and what follows when it is written.

A checkpoint ends open episodes, unless the environment can save itself: every environment starts its next episode, and
open episodes bootstrap as if truncated. A run that is never stopped does the same, and is therefore equal, bit for bit,
to a run that was stopped and resumed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self

import attrs

from rlcore.contracts.environment import SavesState
from rlcore.contracts.parts import BoundaryPart
from rlcore.errors import RunStateError
from rlcore.files.writing import is_full
from rlcore.run.description import promise_of
from rlcore.run.evaluation.evaluations import Evaluations
from rlcore.run.session import Session
from rlcore.run.summaries import Summaries
from rlcore.storage.store import PendingSave

log = logging.getLogger(__name__)

# A checkpoint of which more is to be copied is written while the training waits.
MOST_COPIED = 2 << 30  # bytes


@attrs.frozen
class BackgroundSave:
    """A checkpoint that a thread writes while the training continues. ``regular`` as in :meth:`Checkpoints.save`.

    The thread that trains waits for it before the next summary, evaluation or checkpoint and before the run ends, so
    that everything that follows a checkpoint happens at the same step in every run.
    """

    pending: PendingSave
    regular: bool
    written: Future[None]

    @classmethod
    def of(cls, pending: PendingSave, regular: bool) -> Self:
        """Copy what is to be written, and start to write it."""
        pending.detach()
        executor = ThreadPoolExecutor(1, f"checkpoint of step {pending.step}")
        written = executor.submit(pending.write)
        executor.shutdown(wait=False)
        return cls(pending, regular, written)


class Checkpoints(BoundaryPart):
    """Saves the run when a checkpoint is due."""

    name = "checkpoint"

    def __init__(self, session: Session, evaluations: Evaluations, summaries: Summaries) -> None:
        self._session = session
        self._evaluations = evaluations
        self._summaries = summaries
        self._saving: BackgroundSave | None = None

    def due(self, step: int, ending: bool) -> bool:
        """Whether a checkpoint is due. The first ones that are due fix an interval that was left to the run."""
        session = self._session
        run = session.prepared
        behaviors = session.state.behaviors.values()
        for behavior in behaviors:
            if behavior.checkpoint_due and behavior.interval_is_open:
                behavior.choose_interval(session.context.ranks.share(session.wall_seconds()))
                if behavior.interval_is_open:
                    continue
                log.info(
                    "behavior %r: a checkpoint every %s steps, about ten minutes: each restarts all episodes, because "
                    "the environment cannot save its state; checkpoint_interval sets another number",
                    behavior.name,
                    f"{behavior.checkpoint_interval:,}",
                )
                run.configure(session.context, behaviors)
                run.store.write_configuration()
        return any(behavior.checkpoint_due for behavior in behaviors)

    def do(self, step: int) -> None:
        """Save a checkpoint of an interval."""
        self.save()

    def save(self, regular: bool = True) -> None:
        """End open episodes if the environment cannot save itself, then write everything.

        After a ``regular`` checkpoint, of an interval or of the run's end, the earlier run that this run replaces is
        deleted. After the checkpoint of a stopped run it is not: a user who stops a run may have seen a mistake.
        """
        self.wait_until_written()
        session = self._session
        context = session.context
        state = session.state
        store = session.prepared.store
        context.ranks.settle()
        with self._measured():
            # If the last checkpoint is of this very step, no step was taken since: its episodes have just started.
            # New episodes begin in all ranks or in none, and a resumed run begins them in all.
            state.environment_lost = context.ranks.any(state.environment_lost)
            saves_itself = isinstance(state.environment, SavesState)
            if store.saved_step != state.steps and not saves_itself and not state.environment_lost:
                state.begin_episodes()
            of_run = {
                "wall_seconds": session.wall_seconds(),
                "overdue": self._evaluations.overdue,
                "resume": promise_of(context, state).to_json(),
            }
            captured = context.ranks.save_state(state.capture(of_run))
            sections: dict[str, Mapping[str, Any]] = {}
            for part in state.parts:
                sections |= part.status()
            settings = {name: behavior.settings for name, behavior in state.behaviors.items()}
            self._summaries.flush(state.steps)
            pending = store.begin_save(state.steps, captured, settings, context, sections)
            for behavior in state.behaviors.values():
                behavior.checkpoint_saved()
            if self._continues_while_saving(pending):
                self._saving = BackgroundSave.of(pending, regular)
                return
            pending.write()
            self._saved(pending, regular)

    def save_unless_saved(self, regular: bool) -> None:
        """Save a checkpoint unless the last one is of this step."""
        if self._session.prepared.store.saved_step != self._session.state.steps:
            self.save(regular)

    def wait_until_written(self) -> None:
        """Wait for the checkpoint that is being written, if there is one, and do what follows it."""
        saving = self._saving
        self._saving = None  # an error of it is raised once; the end of the run waits here again
        if saving is None:
            return
        with self._measured():
            try:
                saving.written.result()
            except KeyboardInterrupt:  # it is still being written
                self._saving = saving
                raise
            self._saved(saving.pending, saving.regular)

    def _continues_while_saving(self, pending: PendingSave) -> bool:
        """Whether the training continues while a checkpoint is written."""
        session = self._session
        if not session.context.config.checkpoint_settings.asynchronous:
            return False
        if session.ending or session.state.ending:  # no step follows in which it could be written
            return False
        if any(part.follows_checkpoints for part in session.state.parts):
            return False
        return pending.nbytes <= MOST_COPIED

    def _saved(self, pending: PendingSave, regular: bool) -> None:
        """Do what follows a checkpoint: the status, what parts do then, and notifications."""
        session = self._session
        path = session.prepared.store.saved(pending)
        if regular:
            session.prepared.directory.regular_checkpoint_written()
        for part in session.state.parts:
            part.checkpoint_saved(pending.step)
        session.notifications.notify("rlcore_checkpoint_saved", step=pending.step, path=path)
        for removed in pending.removed:
            session.notifications.notify("rlcore_checkpoint_removed", step=removed.step, path=removed.path)

    @contextmanager
    def _measured(self) -> Iterator[None]:
        """For a block that saves: its time is measured, and where the disk is full, a message says what takes less."""
        with self._session.prepared.timers.root.child("RLTrainer._checkpoint").measure():
            try:
                yield
            except RunStateError as error:
                smaller: list[str] = []
                for behavior in self._session.state.behaviors.values():
                    smaller += getattr(behavior.trainer, "smaller_checkpoints", ())
                if smaller and is_full(error.__cause__):
                    advice = f"{' and '.join(smaller)} would take less"
                    raise RunStateError(f"{error}; {advice}") from error.__cause__
                raise
