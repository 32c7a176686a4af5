"""The writer passes the conformance tests of statistics writers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlcore_devkit import PluginConformance, StatsWriterConformance
from rlcore_devkit.conformance.writers import Written

pytestmark = pytest.mark.smoke


class TestPlugin(PluginConformance):
    plugin = "rlcore-tensorboard/tensorboard"


class TestTensorBoard(StatsWriterConformance):
    writer = "rlcore-tensorboard/tensorboard"

    def read(self, directory: Path) -> list[Written]:
        """Read the files as TensorBoard does."""
        written: list[Written] = []
        for behavior in sorted(path for path in directory.iterdir() if path.is_dir()):
            events = EventAccumulator(str(behavior))
            events.Reload()
            means: dict[int, dict[str, float]] = {}
            for tag in events.Tags()["scalars"]:
                for event in events.Scalars(tag):
                    means.setdefault(event.step, {})[tag] = event.value
            written += [(behavior.name, step, means[step]) for step in sorted(means)]
        return written
