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
        behaviors = {name: BehaviorSettings() for name in ("Walker", "Striker")}
        config = RunConfig(behaviors=behaviors)
        resumed = dict(resumed_steps or {})
        run = RunContext(config, plugins, self.directory, 1, 1, resumed_steps=resumed)
        record = self.record(plugins)
        block = self.block()
        writer: StatsWriter = plugins.create(record, settings=block, run=run)
        return writer

    def check(self, expected: list[tuple[str, int, float]]) -> None:
        """Check that reading returns ``expected``: behavior, step, mean reward."""
        written = {}
        for behavior, step, means in self.read(self.directory):
            place = (behavior, step)
            assert place not in written, f"step {step} of {behavior} is there twice"
            written[place] = means[Tag.CUMULATIVE_REWARD]
        rewards = {}
        for behavior, step, mean in expected:
            # Formats such as TensorBoard's store float32.
            rewards[behavior, step] = pytest.approx(mean, rel=1e-5)
        assert written == rewards

    def _write(self, writer: StatsWriter, *summaries: tuple[str, int, float]) -> None:
        """Write summaries: behavior, step, mean reward."""
        for behavior, step, mean in summaries:
            stats = summary(mean)
            writer.write(behavior, step, stats)

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
        # All means are exact in float32; a tag may have letters beyond ASCII.
        stats = summary(1.0)
        stats["Losses/Policy Loss"] = StatSummary.of([0.25])
        stats["Acme/Größe"] = StatSummary.of([3.0])
        writer = self.make()
        writer.write("Walker", 10, stats)
        writer.close()
        [(_, _, means)] = self.read(self.directory)
        for tag, stat in stats.items():
            assert means.get(tag) == stat.mean, tag

    def test_values_that_are_not_finite_do_not_break_it(self) -> None:
        stats = summary(1.0)
        stats["Losses/Value Loss"] = StatSummary.of([math.inf, math.nan])
        later = ("Walker", 20, 2.0)
        writer = self.make()
        writer.write("Walker", 10, stats)
        self._write(writer, later)
        writer.close()
        self.check([("Walker", 10, 1.0), later])

    def test_a_resumed_run_goes_on_after_what_it_kept(self) -> None:
        """The resumed run repeats the steps after the checkpoint. Each step is there once, with the second result."""
        kept = [("Walker", 1000, 1.0), ("Walker", 2000, 2.0)]
        lost = ("Walker", 3000, 3.0)
        repeated = ("Walker", 3000, 7.0)
        writer = self.make()
        self._write(writer, *kept, lost)
        writer.close()
        writer = self.make(resumed_steps={"Walker": 2000})
        self._write(writer, repeated)
        writer.close()
        self.check([*kept, repeated])

    def test_closing_without_having_written_is_fine(self) -> None:
        self.make().close()
        assert self.read(self.directory) == []


def summary(reward: float) -> dict[str, StatSummary]:
    """Return a summary with a mean reward and the values of a histogram."""
    rewards = [reward - 1.0, reward, reward + 1.0]
    return {Tag.CUMULATIVE_REWARD: StatSummary.of(rewards, keep_values=True)}
