"""A run from before 0.1: refused with one line by whatever would read or replace it, and left as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import Checkpoint, RunStateError, pruning
from rlcore.storage.checkpoint import load_verified

RESUME = {"checkpoint_settings.resume": True}
FORCE = {"checkpoint_settings.force": True}
INFERENCE = {"checkpoint_settings.inference": True}
FROM_OLD = {"checkpoint_settings": {"run_id": "new", "initialize_from": "run"}}


@pytest.fixture
def old(make_run: Callable[..., Any], files: Callable[..., Any]) -> Path:
    """A run as rlcore wrote it before 0.1: its manifests have ``format_version``, in place of ``checkpoint_format``."""
    make_run(keep_checkpoints=2).train()
    directory: Path = files().path
    for manifest in directory.glob("checkpoints/*/manifest.json"):
        content = json.loads(manifest.read_text())
        del content["checkpoint_format"]
        manifest.write_text(json.dumps({"format_version": 4, **content}))
    return directory


@pytest.mark.parametrize("changes", [{}, RESUME, FORCE, INFERENCE], ids=["new", "resume", "force", "inference"])
def test_an_old_run_is_refused_with_one_line_and_stays(
    make_run: Callable[..., Any], files: Callable[..., Any], old: Path, changes: dict[str, Any]
) -> None:
    before = files().everything()
    others = sorted(path.name for path in old.parent.iterdir())
    with pytest.raises(RunStateError) as caught:
        make_run(changes, max_steps=400).train()
    place, _, said = str(caught.value).partition(": ")
    assert Path(place.removeprefix("checkpoint ")).parent == old / "checkpoints"
    assert said == (
        "was written before rlcore 0.1, and stays as it is; train again with another --run-id, or with "
        "--initialize-from to begin with its policies"
    )
    assert files().everything() == before
    assert sorted(path.name for path in old.parent.iterdir()) == others


def test_checkpoints_of_an_old_run_are_not_pruned_and_say_why(old: Path) -> None:
    with pytest.raises(RunStateError, match=r"was written before rlcore 0\.1"), pruning(old):
        pass
    (problem,) = Checkpoint(200, old / "checkpoints/200").problems()
    assert "was written before rlcore 0.1" in problem


def test_a_new_run_begins_with_the_policies_of_an_old_one(
    make_run: Callable[..., Any], files: Callable[..., Any], old: Path
) -> None:
    before = files().everything()
    learned = load_verified(old / "checkpoints/200", policies_only=True)["Agent"]["model"]["weights"]
    with make_run(FROM_OLD, max_steps=20) as run:
        run.start()
        np.testing.assert_array_equal(run.behaviors["Agent"].trainer.weights, learned)
        run.train()
    assert files("new").steps == [20] and files().everything() == before


def test_a_damaged_checkpoint_of_an_old_run_gives_no_policies(make_run: Callable[..., Any], old: Path) -> None:
    for place in old.glob("checkpoints/*"):
        (place / "Agent.safetensors").write_bytes(b"damaged")
    with pytest.raises(RunStateError, match="no usable checkpoint"):
        make_run(FROM_OLD).start()
