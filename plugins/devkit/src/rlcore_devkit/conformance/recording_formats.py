"""The rules of :class:`rlcore_offline.RecordingFormat` as tests for authors of recording formats to inherit.

::

    class TestMyFormat(RecordingFormatConformance):
        format = "acme-data/parquet"
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import attrs
import numpy as np
import pytest

from rlcore import (
    BehaviorSpec,
    ConfigError,
    ObservationSpec,
    Recording,
    RecordingAbout,
    RunContext,
)
from rlcore_devkit.conformance.files import contents, damages, restore
from rlcore_devkit.conformance.recordings import arrays
from rlcore_devkit.conformance.rules import RecordRules
from rlcore_devkit.conformance.states import assert_equal
from rlcore_devkit.playing import random_recording
from rlcore_offline import RecordingFormat, RecordingFormatSpec, recording_problem

_STATE = ObservationSpec("state", (3,), np.float32)
_WIND = ObservationSpec("wind", (2, 2), np.float64)
_ROOM = ObservationSpec("room", (4,), np.float32, "one_hot")
_CAMERA = ObservationSpec("camera", (40, 40, 3), np.uint8, "image")
_LOW = np.array([-2.0, 0.0], np.float32)
_HIGH = np.array([1.0, np.inf], np.float32)  # JSON has no infinity, and a format must keep it

BEHAVIORS: dict[str, BehaviorSpec] = {
    "continuous": BehaviorSpec("Walker", (_STATE,), 2, (), _LOW, _HIGH),
    "discrete": BehaviorSpec("Walker", (_STATE,), discrete=(4,)),
    "branches": BehaviorSpec("Walker", (_STATE,), discrete=(2, 3, 4)),
    "hybrid": BehaviorSpec("Walker", (_STATE,), 2, (2, 3), _LOW, _HIGH),
    "several": BehaviorSpec("Walker", (_STATE, _WIND, _ROOM, _CAMERA), discrete=(2,)),
    "masked": BehaviorSpec("Walker", (_STATE,), discrete=(2, 3)),
}


class RecordingFormatConformance(RecordRules):
    """Tests of recording formats: set ``format``.

    Attributes:
        format: The recording format, NAME or DIST/NAME, as installed.
        kinds: The behaviors that it can store, any of ``continuous``, ``discrete``, ``branches``, ``hybrid``,
            ``several`` (observations, one of them an image) and ``masked`` (recorded action masks).
        skip: Names of tests that cannot hold, with the reason.
    """

    record_class = RecordingFormatSpec
    named = "format"
    format: ClassVar[str] = ""
    kinds: ClassVar[frozenset[str]] = frozenset(BEHAVIORS)

    def make(self) -> RecordingFormat:
        """Create the format."""
        format: RecordingFormat = self.record().create()
        return format

    def expected(self, recording: Recording) -> Recording:
        """Return what reading gives for episodes that were written: override it for a format that cannot keep all."""
        return recording

    def write(self, path: Path, *parts: Recording) -> None:
        """Write the parts into one recording at ``path``."""
        about = RecordingAbout(environment_id="Walker-v0", trainer="ppo")
        format = self.make()
        writer = format.writer(path, parts[0].behavior, about)
        for part in parts:
            writer.write(part)
        writer.close()

    # ------------------------------------------------------------ rules

    def test_declares_what_it_can_store(self) -> None:
        assert self.kinds and self.kinds <= BEHAVIORS.keys(), f"kinds are any of {', '.join(BEHAVIORS)}"

    @pytest.mark.parametrize("kind", list(BEHAVIORS))
    @pytest.mark.parametrize("lengths", [(1,), (3, 1, 4)], ids=["one transition", "several episodes"])
    def test_a_recording_is_read_as_it_was_written(self, kind: str, lengths: Sequence[int]) -> None:
        if kind not in self.kinds:
            pytest.skip("the format cannot store it")
        path = self.directory / "Walker"
        parts = [recorded(kind, lengths), recorded(kind, lengths[::-1], seed=2)]
        self.write(path, *parts)
        format = self.make()
        assert format.reads(path)
        recording = format.read(path, "Runner")
        problem = recording_problem(recording)
        assert problem is None, problem
        written = Recording.joined(parts)
        expected = self.expected(written)
        renamed = attrs.evolve(expected.behavior, name="Runner")
        same_behavior(recording.behavior, renamed)
        behavior = format.behavior(path, "Runner")
        same_behavior(behavior, recording.behavior)
        assert_equal(arrays(recording), arrays(expected))
        for name, array in recording.observations.items():
            assert array.dtype == expected.observations[name].dtype, f"observation {name!r} has another type"

    def test_a_path_names_a_recording_only_when_it_is_complete(self) -> None:
        path = self.directory / "Walker"
        format = self.make()
        recording = recorded(min(self.kinds), (2, 3))
        writer = format.writer(path, recording.behavior, RecordingAbout())
        writer.write(recording)
        assert not format.reads(path), "an unfinished recording can be found"
        writer.discard()
        left = list(self.directory.iterdir())
        assert left == [], "discard() left something"
        self.write(path, recording)
        left = list(self.directory.iterdir())
        assert set(left) <= {path}, "close() left something"

    def test_an_existing_path_is_refused_and_kept(self) -> None:
        path = self.directory / "Walker"
        recording = recorded(min(self.kinds), (2, 3))
        self.write(path, recording)
        format = self.make()
        with pytest.raises(ConfigError):
            format.writer(path, recording.behavior, RecordingAbout())
        stored = self.make().read(path, "Walker")
        expected = self.expected(recording)
        assert_equal(arrays(stored), arrays(expected))

    def test_other_paths_are_not_recordings(self) -> None:
        """Every installed format is asked for every path that a configuration names."""
        format = self.make()
        text = self.directory / "notes.txt"
        empty = self.directory / "empty"
        missing = self.directory / "missing"
        text.write_bytes(b"\x00\xff not a recording")
        empty.mkdir()
        for path in (text, empty, missing, text / "below a file"):
            assert format.reads(path) is False, path.name[:20]
        for path in format.stored().values():
            assert format.reads(path)

    def test_a_damaged_file_is_an_error_and_never_a_part_of_a_recording(self) -> None:
        """Each file of the recording is cut in half, and overwritten."""
        path = self.directory / "Walker"
        recording = recorded(min(self.kinds), (20, 30))
        self.write(path, recording)
        run = RunContext(None, self.plugins(), self.directory, 1, 1, working_directory=self.directory)  # type: ignore[arg-type]
        intact = contents(path)
        expected = arrays(self.expected(recording))
        refused = 0
        for damage in damages(path):
            damage()
            try:
                read = run.read_recording(path, "Walker")
            except ConfigError:
                refused += 1
            else:
                assert_equal(arrays(read), expected, "damage was read as a recording")
            restore(path, intact)
        assert refused, "no damage was noticed"


def recorded(kind: str, lengths: Sequence[int], seed: int = 1) -> Recording:
    """Return random episodes of the behavior ``kind``, with masks if it is ``masked``."""
    behavior = BEHAVIORS[kind]
    masked = kind == "masked"
    return random_recording(behavior, lengths, seed, masked=masked)


def same_behavior(one: BehaviorSpec, other: BehaviorSpec) -> None:
    """Check that two behaviors are equal, with equal bounds and types."""
    for name in ("name", "observations", "continuous", "discrete", "low", "high"):
        ours = getattr(one, name)
        theirs = getattr(other, name)
        assert_equal(ours, theirs, name)
