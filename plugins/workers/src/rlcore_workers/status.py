"""The lines of ``rlcore status`` about the workers of a run."""

from __future__ import annotations

from pathlib import Path

from rlcore import RlcoreError, Tag, echo, read_run


def print_workers(directory: Path) -> None:
    """Print what the latest summary says of workers; nothing for a run without workers."""
    try:
        metrics = read_run(directory).metrics
    except RlcoreError:  # the command has read the run, and said so
        return
    latest = metrics[-1].stats if metrics else {}
    restarts = latest.get(Tag.WORKER_RESTARTS)
    aborted = latest.get(Tag.ABORTED_EPISODES)
    if restarts is not None and aborted is not None:
        counted = f"{int(restarts)} started again, {int(aborted)} aborted episodes"
        echo(f"workers: {counted}, since the run was last started")
