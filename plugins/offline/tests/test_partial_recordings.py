"""Recordings that were not finished: what is left of them goes, and nothing else does."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import BehaviorSpec, ConfigError, ObservationSpec, RecordingAbout
from rlcore_devkit.playing import random_recording
from rlcore_offline.minari_format import MinariFormat
from rlcore_offline.partial_recordings import PartialRecording

BEHAVIOR = BehaviorSpec("A", (ObservationSpec("observation", (3,), np.float32),), discrete=(4,))
FORKS = multiprocessing.get_context("fork")


def record(path: Path, recording: Any, dies: str = "") -> None:
    """Records to ``path``; the process is killed in the writer's method ``dies``."""
    writer = MinariFormat().writer(path, recording.behavior, RecordingAbout())
    writer.write(recording)
    if dies == "write":
        os.kill(os.getpid(), signal.SIGKILL)
    if dies == "discard":  # half deleted
        next(writer.directory.rglob("metadata.json")).unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    writer.close()


@pytest.mark.parametrize("dies", ["write", "discard"])
def test_what_a_killed_recording_left_goes_with_the_next_one_to_that_place(tmp_path: Path, dies: str) -> None:
    recording = random_recording(BEHAVIOR, [3])
    for _ in range(2):
        killed = FORKS.Process(target=record, args=(tmp_path / "A", recording, dies))
        killed.start()
        killed.join()
        assert killed.exitcode == -signal.SIGKILL
        leftovers = sorted(path.name for path in tmp_path.iterdir())
        assert len(leftovers) == 2 and all(name.startswith(".rlcore-tmp-") for name in leftovers)
    record(tmp_path / "A", recording)
    assert os.listdir(tmp_path) == ["A"]
    assert MinariFormat().read(tmp_path / "A", "A").transitions == 3


def test_only_what_rlcore_left_of_that_recording_is_removed(tmp_path: Path) -> None:
    theirs = [".A.tmp", ".rlcore-tmp-recording-mine", "A~", ".rlcore-tmp-recording-0123456789abcdef-A-b"]
    for name in theirs:
        (tmp_path / name).mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / ".rlcore-tmp-recording-0123456701234567-A").symlink_to(elsewhere)
    record(tmp_path / "A", random_recording(BEHAVIOR, [3]))
    assert {*theirs, "elsewhere", "A"} <= set(os.listdir(tmp_path))


def test_a_recording_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    recording = random_recording(BEHAVIOR, [3])
    first = MinariFormat().writer(tmp_path / "A", recording.behavior, RecordingAbout())
    with pytest.raises(ConfigError, match=r"/A: another process is recording there; wait, or use another directory$"):
        MinariFormat().writer(tmp_path / "A", recording.behavior, RecordingAbout())
    beside = MinariFormat().writer(tmp_path / "A-b", recording.behavior, RecordingAbout())
    for writer in (first, beside):
        writer.write(recording)
        writer.close()
    assert sorted(os.listdir(tmp_path)) == ["A", "A-b"]


def test_room_that_the_disk_lacks_is_noticed_before_hdf5_writes(tmp_path: Path) -> None:
    partial = PartialRecording(tmp_path / "recording")
    partial.require_room(1000)
    with pytest.raises(OSError, match=r"No space left|File too large"):
        partial.require_room(2**60)
    assert list(partial.directory.iterdir()) == []
    partial.discard()
