"""The writer passes the conformance tests of statistics writers, by what the real library has stored."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracked_runs import by_behavior, journaled, until

from rlcore_devkit import PluginConformance, StatsWriterConformance
from rlcore_devkit.conformance.writers import Written
from rlcore_trackers.wandb.transaction_log import rows


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-trackers/wandb"


@pytest.mark.learning
class TestWandb(StatsWriterConformance):
    writer = "rlcore-trackers/wandb"
    skip = {
        "test_a_resumed_run_goes_on_after_what_it_kept": "the first result of a step counts: see test_kills.py",
    }

    def read(self, directory: Path) -> list[Written]:
        """Read the logs that 'wandb sync' uploads."""
        until(lambda: len(stored(directory)) == journaled(directory, "wandb"))
        return stored(directory)


def stored(directory: Path) -> list[Written]:
    logs = directory.glob("trackers/wandb/wandb/offline-run-*/run-*.wandb")
    found = [row for log in logs for row in rows(log)]
    return by_behavior((next(int(row[key]) for key in row if key.endswith("/Step")), row) for row in found)
