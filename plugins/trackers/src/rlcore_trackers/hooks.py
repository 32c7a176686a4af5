"""Implementations of the hooks of each tracker. rlcore imports this module at every start: it imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rlcore import StashKey

if TYPE_CHECKING:
    from rlcore import RunContext
    from rlcore_trackers.settings import TrackerSettings
    from rlcore_trackers.writer import TrackerWriter

WRITERS = StashKey["dict[str, TrackerWriter]"]()


def make_writer(name: str, tracker: str, settings: TrackerSettings, run: RunContext) -> TrackerWriter:
    """Create the statistics writer of the tracker ``name``, and note it for the hooks of the run."""
    from rlcore_trackers.writer import TrackerWriter

    writer = TrackerWriter(name, tracker, settings, run)
    run.stash.setdefault(WRITERS, {})[name] = writer
    return writer


def checkpoint_saved(name: str, run: RunContext, step: int, path: Path) -> None:
    """``rlcore_checkpoint_saved`` of the tracker ``name``."""
    writer = _writer(name, run)
    if writer is not None:
        writer.checkpoint_saved(step, path)


def run_finished(name: str, run: RunContext, outcome: str) -> None:
    """``rlcore_run_finished`` of the tracker ``name``."""
    writer = _writer(name, run)
    if writer is not None:
        writer.run_finished(outcome)


def _writer(name: str, run: RunContext) -> TrackerWriter | None:
    writers: dict[str, TrackerWriter] = run.stash.get(WRITERS, {})
    return writers.get(name)
