"""The rules of :class:`rlcore.StatsWriter` as tests for authors of statistics writers to inherit.

::

    class TestMyWriter(StatsWriterConformance):
        writer = "acme-stats/lake"

        def read(self, directory):
            return [(row.behavior, row.step, row.means) for row in open_lake(directory)]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from rlcore import BehaviorSettings, RunConfig, RunContext, StatSummary, StatsWriter, StatsWriterSpec, Tag
from rlcore_devkit.conformance.rules import RecordRules

Written = tuple[str, int, Mapping[str, float]]  # behavior, step, means by tag


class StatsWriterConformance(RecordRules):
    """Tests of statistics writers: set ``writer`` and override :meth:`read`.

    Attributes:
        writer: The writer, NAME or DIST/NAME, as installed.
        settings: The block of the writer under ``stats``.
        skip: Names of tests that cannot hold, with the reason.
    """

    record_class = StatsWriterSpec
    named = "writer"
    writer: ClassVar[str] = ""

    def read(self, directory: Path) -> list[Written]:
        """Read the run in ``directory``: return each behavior's summaries in the order of their steps."""
        raise NotImplementedError

    def make(self, resumed_steps: Mapping[str, int] | None = None) -> StatsWriter:
        """Create the writer for a run, which resumed at these steps of each behavior."""
        plugins = self.plugins()
        config = RunConfig(behaviors={name: BehaviorSettings() for name in ("Walker", "Striker")})
        run = RunContext(config, plugins, self.directory, 1, 1, resumed_steps=dict(resumed_steps or {}))
        writer: StatsWriter = plugins.create(self.record(plugins), settings=self.block(), run=run)
        return writer

    def check(self, expected: list[tuple[str, int, float]]) -> None:
        """Check that reading returns ``expected``: behavior, step, mean reward."""
        written = {}
        for behavior, step, means in self.read(self.directory):
            assert (behavior, step) not in written, f"step {step} of {behavior} is there twice"
            written[behavior, step] = means[Tag.CUMULATIVE_REWARD]
        assert written == {(behavior, step): pytest.approx(mean, rel=1e-5) for behavior, step, mean in expected}

    def _write(self, writer: StatsWriter, *summaries: tuple[str, int, float]) -> None:
        """Write summaries: behavior, step, mean reward."""
        for behavior, step, mean in summaries:
            writer.write(behavior, step, summary(mean))

    def test_what_was_written_can_be_read_before_the_writer_is_closed(self) -> None:
        """A run that is killed keeps its summaries."""
        writer = self.make()
        first = ("Walker", 1000, 1.5)
        second = ("Walker", 2000, 2.5)
        self._write(writer, first)
        self.check([first])
        self._write(writer, second)
        self.check([first, second])
        writer.close()
        self.check([first, second])

    def test_behaviors_are_kept_apart(self) -> None:
        summaries = [("Walker", 500, 1.0), ("Striker", 500, -4.0)]
        writer = self.make()
        self._write(writer, *summaries)
        writer.close()
        self.check(summaries)

    def test_every_tag_arrives(self) -> None:
        others = {"Losses/Policy Loss": StatSummary.of([0.25]), "Acme/Größe": StatSummary.of([3.0])}
        stats = summary(1.0) | others
        writer = self.make()
        writer.write("Walker", 10, stats)
        writer.close()
        [(_, _, means)] = self.read(self.directory)
        assert {tag: means.get(tag) for tag in stats} == {tag: stat.mean for tag, stat in stats.items()}

    def test_values_that_are_not_finite_do_not_break_it(self) -> None:
        loss = {"Losses/Value Loss": StatSummary.of([math.inf, math.nan])}
        writer = self.make()
        writer.write("Walker", 10, summary(1.0) | loss)
        self._write(writer, ("Walker", 20, 2.0))
        writer.close()
        self.check([("Walker", 10, 1.0), ("Walker", 20, 2.0)])

    def test_a_resumed_run_goes_on_after_what_it_kept(self) -> None:
        """The resumed run repeats the steps after the checkpoint. Each step is there once, with the second result."""
        writer = self.make()
        self._write(writer, ("Walker", 1000, 1.0), ("Walker", 2000, 2.0), ("Walker", 3000, 3.0))
        writer.close()
        writer = self.make(resumed_steps={"Walker": 2000})
        self._write(writer, ("Walker", 3000, 7.0))
        writer.close()
        self.check([("Walker", 1000, 1.0), ("Walker", 2000, 2.0), ("Walker", 3000, 7.0)])

    def test_closing_without_having_written_is_fine(self) -> None:
        self.make().close()
        assert self.read(self.directory) == []


def summary(reward: float) -> dict[str, StatSummary]:
    """Return a summary with a mean reward and the values of a histogram."""
    return {Tag.CUMULATIVE_REWARD: StatSummary.of([reward - 1.0, reward, reward + 1.0], keep_values=True)}
