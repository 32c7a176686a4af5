"""Implementations of the hooks of each tracker. rlcore imports this module at every start: it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from rlcore import StashKey, StatsWriterSpec, check_target, hookimpl

if TYPE_CHECKING:
    from rlcore import RunContext
    from rlcore_trackers.settings import TrackerSettings
    from rlcore_trackers.writer import TrackerWriter

WRITERS = StashKey["dict[str, TrackerWriter]"]()


@attrs.frozen(kw_only=True)
class TrackerSpec(StatsWriterSpec):
    """The record of a tracker, a statistics writer whose summaries a second process sends to a store.

    Attributes:
        tracker: The class of the tracker, as ``"package.module:Name"``; see :class:`rlcore_trackers.Tracker`. Nothing
            else is imported to send a run: what the files of a run name is not.
    """

    tracker: str = attrs.field(validator=check_target)


def hooks_of(spec: TrackerSpec) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """``rlcore_stats_writers``, ``rlcore_checkpoint_saved`` and ``rlcore_run_finished`` of the tracker in ``spec``."""

    def writer_of(run: RunContext) -> TrackerWriter | None:
        writers: dict[str, TrackerWriter] = run.stash.get(WRITERS, {})
        return writers.get(spec.name)

    @hookimpl
    def rlcore_stats_writers() -> list[StatsWriterSpec]:
        return [spec]

    @hookimpl
    def rlcore_checkpoint_saved(run: RunContext, step: int, path: Path) -> None:
        writer = writer_of(run)
        if writer is not None:
            writer.checkpoint_saved(step, path)

    @hookimpl
    def rlcore_run_finished(run: RunContext, outcome: str) -> None:
        writer = writer_of(run)
        if writer is not None:
            writer.run_finished(outcome)

    return rlcore_stats_writers, rlcore_checkpoint_saved, rlcore_run_finished


def make_writer(spec: TrackerSpec, settings: TrackerSettings | None, run: RunContext) -> TrackerWriter:
    """Create the statistics writer of a tracker, and note it for the hooks of the run.

    None means the defaults of the settings class of ``spec``.
    """
    from rlcore_trackers.writer import TrackerWriter

    settings = settings or spec.resolve("settings")()
    writer = TrackerWriter(spec.name, spec.tracker, settings, run)
    run.stash.setdefault(WRITERS, {})[spec.name] = writer
    return writer
