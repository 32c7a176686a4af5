"""The lines of ``rlcore status`` about the workers of a run."""

from __future__ import annotations

from pathlib import Path

from rlcore import Tag, echo, latest_summaries


def print_workers(directory: Path) -> None:
    """Print what the latest summary says of workers; nothing for a run without workers."""
    newest = next(iter(latest_summaries(directory).values()), None)
    if newest is None:
        return
    restarts = newest.stats.get(Tag.WORKER_RESTARTS)
    aborted = newest.stats.get(Tag.ABORTED_EPISODES)
    if restarts is not None and aborted is not None:
        counted = f"{int(restarts)} started again, {int(aborted)} aborted episodes"
        echo(f"workers: {counted}, since the run was last started")
