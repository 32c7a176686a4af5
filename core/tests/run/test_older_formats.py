"""Checkpoints of other versions: resumed completely, or refused with the cause and left as they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rlcore import Checkpoint, RunStateError
from rlcore.storage.checkpoint import FORMAT_VERSION, READ_VERSIONS

DATA = Path(__file__).parent / "data"
STORED = {int(path.parent.name.removeprefix("format-")): path for path in DATA.glob("format-*/*") if path.is_dir()}
OLD = 3  # the format of the stored checkpoint that is resumed; this rlcore writes those of the newest format
RESUME = {"checkpoint_settings.resume": True}


def placed(files: Any, version: int = OLD) -> Path:
    """A run whose only checkpoint an earlier rlcore wrote."""
    place: Path = files().path / "checkpoints" / STORED[version].name
    shutil.copytree(STORED[version], place)
    return place


def test_every_earlier_version_has_a_stored_checkpoint() -> None:
    assert sorted(STORED) == list(range(1, FORMAT_VERSION))
    assert set(READ_VERSIONS) - set(STORED) == {FORMAT_VERSION}


def test_a_stored_checkpoint_is_complete_and_is_resumed_exactly(
    make_run: Any, files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a checkpoint has versions instead of a fingerprint, and no promise. The libraries may be others by now."""
    stored = placed(files)
    state = json.loads((stored / "state.json").read_text())
    assert state["run"].keys() >= {"versions", "environment", "behaviors"} and "fingerprint" not in state["run"]
    listed = Checkpoint(160, stored)
    assert listed.problems() == []
    make_run({"checkpoint_settings.run_id": "whole"}).train()
    assert files("whole").checkpoint(160)["state.json"]["Agent"] == state["Agent"]
    caplog.clear()
    with make_run(RESUME) as run:
        run.start()
        assert run.resumed_from == stored
        run.train()
    told = [text for text in caplog.messages if "resumes with" in text]
    assert all("configuration" not in text and "plugin" not in text for text in told), told
    assert files().checkpoint(200) == files("whole").checkpoint(200) and files().steps == [160, 200]


@pytest.mark.parametrize("version", sorted(set(STORED) - set(READ_VERSIONS)))
def test_a_stored_checkpoint_of_a_version_that_is_not_read_is_refused_with_the_cause(
    make_run: Any, files: Any, version: int
) -> None:
    """Each was written by the rlcore of its time."""
    listed = Checkpoint(int(STORED[version].name), placed(files, version))
    before = files().everything()
    cause = f"format version {version}, this rlcore reads 3 to {FORMAT_VERSION}; use the rlcore release that wrote it"
    with pytest.raises(RunStateError, match=cause):
        make_run(RESUME).start()
    assert files().everything() == before | {".lock": b""}
    assert cause in listed.problems()[0]
