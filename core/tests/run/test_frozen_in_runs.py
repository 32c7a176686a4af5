"""Runs of a trainer that keeps earlier weights as parts of its state that never change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore.errors import TrainingDiverged
from rlcore.storage.checkpoint import read_manifest

HERE = Path(__file__).parent
LOCAL = {"plugins.local": [str(HERE / "stub_plugin.py"), str(HERE / "keeper_plugin.py")]}


def inodes(path: Path) -> dict[str, int]:
    return {file.name: file.stat().st_ino for file in path.glob("_frozen-*")}


def test_a_resumed_run_equals_a_whole_one_and_shares_the_files_of_the_killed_one(
    make_run: Any, files: Any, kill_after: Any
) -> None:
    block = {"trainer_type": "keeper", "keep_checkpoints": 0, "hyperparameters": {"window": 9}}
    make_run(LOCAL | {"checkpoint_settings.run_id": "whole"}, **block).train()
    kill_after(make_run(LOCAL, **block), 120)
    make_run(LOCAL | {"checkpoint_settings.resume": True}, **block).train()
    whole = files("whole")
    resumed = files()
    assert whole.steps == resumed.steps and len(resumed.steps) == 5
    stored: dict[str, set[int]] = {}
    before: set[int] = set()
    links = 0
    for step in resumed.steps:
        assert whole.checkpoint(step) == resumed.checkpoint(step)
        path = resumed.path / "checkpoints" / str(step)
        own = inodes(path)
        assert own.keys() <= read_manifest(path)["files"].keys()
        assert before.isdisjoint(own.values()), "damage to a file spares the checkpoint before or after"
        for name, inode in own.items():
            stored.setdefault(name, set()).add(inode)
        before = set(own.values())
        links += len(own)
    assert len(own) == 9 < len(stored) and max(map(len, stored.values())) == 2
    assert sum(map(len, stored.values())) < links


def test_a_part_that_is_not_finite_is_not_saved(make_run: Any, files: Any) -> None:
    hyperparameters = {"nan_at": 100, "window": 1}
    with pytest.raises(TrainingDiverged, match=r"kept/0/model/weights is not finite"):
        make_run(LOCAL, trainer_type="keeper", hyperparameters=hyperparameters).train()
    assert files().steps == [40, 80]
