"""Checkpoints of other versions: resumed completely, or refused with the cause and left as they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rlcore.errors import RlcoreError
from rlcore.storage.checkpoint import FORMAT_VERSION
from rlcore.testing.fixtures import RunRlcore

DATA = Path(__file__).parent / "data"
STORED = sorted(path for path in DATA.glob("format-*/*") if path.is_dir())
RESUME = {"checkpoint_settings.resume": True}


@pytest.fixture
def stored(files: Any) -> Path:
    """A run whose only checkpoint an earlier rlcore wrote."""
    (source,) = STORED
    place: Path = files().path / "checkpoints" / source.name
    shutil.copytree(source, place)
    return place


def test_every_version_that_is_read_has_a_stored_checkpoint() -> None:
    assert [path.parent.name for path in STORED] == [f"format-{FORMAT_VERSION}"]


def test_a_stored_checkpoint_is_resumed_exactly(
    make_run: Any, files: Any, stored: Path, run_rlcore: RunRlcore, caplog: pytest.LogCaptureFixture
) -> None:
    """It has versions instead of a fingerprint, and no promise. The libraries may be others by now."""
    assert run_rlcore("checkpoints", "verify", files().path).exit_code == 0
    (listed,) = json.loads(run_rlcore("checkpoints", "list", files().path, "--json").stdout)["checkpoints"]
    assert listed["resume"] is None and listed["format_version"] == FORMAT_VERSION
    make_run({"checkpoint_settings.run_id": "whole"}).train()
    caplog.clear()
    with make_run(RESUME) as run:
        run.start()
        assert run.resumed_from == stored
        run.train()
    told = [text for text in caplog.messages if "resumes with" in text]
    assert all("configuration" not in text and "plugin" not in text for text in told), told
    ours, theirs = files().checkpoint(200), files("whole").checkpoint(200)
    assert ours == theirs and files().steps == [160, 200]


def test_the_stored_checkpoint_is_complete(make_run: Any, files: Any, stored: Path) -> None:
    """The negative control: a step further on, the resumed run would differ."""
    make_run({"checkpoint_settings.run_id": "whole"}).train()
    state = json.loads((stored / "state.json").read_text())
    assert state["run"].keys() >= {"versions", "environment", "behaviors"} and "fingerprint" not in state["run"]
    assert files("whole").checkpoint(160)["state.json"]["Agent"] == state["Agent"]


@pytest.mark.parametrize(
    ("version", "cause"),
    [
        (FORMAT_VERSION + 1, "is of a newer rlcore; this one reads .*; upgrade rlcore"),
        (FORMAT_VERSION - 1, "use the rlcore release that wrote it"),
    ],
)
def test_another_version_of_the_format_is_refused_with_the_cause(
    make_run: Any, files: Any, stored: Path, version: int, cause: str
) -> None:
    manifest = stored / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format_version": version}))
    refused(make_run, files, RESUME, {}, cause)


@pytest.mark.parametrize(
    ("changes", "behavior", "cause"),
    [
        ({}, {"hyperparameters": {"width": 4}}, "the saved network does not fit"),
        ({}, {"trainer_type": "gone"}, "'gone'"),
        ({"environment.num_envs": 3}, {}, "is of 2 environments, this run has 3"),
        ({"environment.type": "pair"}, {}, "the checkpoint has behaviors Agent|behaviors"),
        ({"env_settings.seed": 6}, {}, "started with seed 5"),
    ],
)
def test_a_run_that_does_not_fit_its_checkpoint_loads_nothing(
    make_run: Any, files: Any, stored: Path, changes: Any, behavior: Any, cause: str
) -> None:
    refused(make_run, files, {**RESUME, **changes}, behavior, cause)


def refused(make_run: Any, files: Any, changes: Any, behavior: Any, cause: str) -> None:
    before = {name: content for name, content in files().everything().items() if name != ".lock"}
    with pytest.raises(RlcoreError, match=cause):
        make_run(changes, **behavior).start()
    assert {name: content for name, content in files().everything().items() if name != ".lock"} == before
