"""The rules of :class:`rlcore.BoundaryPart` as tests for authors of parts to inherit.

::

    class TestMyPart(BoundaryPartConformance):
        part = "acme-hooks/milestones"
"""

from __future__ import annotations

from typing import ClassVar

from rlcore import BoundaryPart, BoundaryPartSpec, load_checkpoint, save_checkpoint
from rlcore_devkit.conformance.rules import RecordRules
from rlcore_devkit.conformance.states import assert_equal, global_generators

__all__ = ["BoundaryPartConformance"]


class BoundaryPartConformance(RecordRules):
    """Tests of parts: set ``part``.

    Attributes:
        part: The part, NAME or DIST/NAME, as installed.
        steps: Agent steps at which the run asks whether the part is due.
        skip: Names of tests that cannot hold, with the reason.
    """

    record_class = BoundaryPartSpec
    named = "part"
    part: ClassVar[str] = ""
    steps: ClassVar[range] = range(0, 10_000, 64)

    def make(self) -> BoundaryPart:
        """Create the part for a run with the seed 1."""
        plugins = self.plugins()
        record = self.record(plugins)
        run = self.context()
        made: BoundaryPart = plugins.create(record, run=run)
        return made

    def play(self, part: BoundaryPart, steps: range) -> BoundaryPart:
        """Ask the part at ``steps`` whether it is due, and have it do it."""
        for step in steps:
            if part.due(step, ending=False):
                part.do(step)
        return part

    def test_a_saved_part_continues_as_if_it_was_not_saved(self) -> None:
        """The state of a part is loaded into a new one in the middle of a run."""
        half = len(self.steps) // 2
        first = self.steps[:half]
        rest = self.steps[half:]
        part = self.make()
        self.play(part, first)
        state = dict(part.state_dict())
        path = save_checkpoint(self.directory, 1, {"part": state})
        saved = load_checkpoint(path)["part"]
        resumed = self.make()
        resumed.load_state_dict(saved)
        assert resumed.next_step == part.next_step, "the step at which the part is due next is not restored"
        self.play(part, rest)
        self.play(resumed, rest)
        assert_equal(part.state_dict(), resumed.state_dict())

    def test_a_part_that_was_done_moves_on(self) -> None:
        """A part that stays due is done at every step of a boundary, and holds up the run."""
        part = self.make()
        for step in self.steps:
            once = range(step, step + 1)
            self.play(part, once)
            due = part.next_step
            assert due is None or due > step, f"still due at {due} after step {step}"

    def test_global_generators_are_left_alone(self) -> None:
        """Equal seeds must give equal runs, whatever else draws from the generators of the process."""
        before = global_generators()
        self.play(self.make(), self.steps)
        after = global_generators()
        assert before == after, "a part must draw from a generator of its own"
