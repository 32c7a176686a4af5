"""The directory of checkpoints: which ones stay, what moves aside, and what a failed write leaves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from rlcore.errors import RunStateError
from rlcore.files.writing import sweep
from rlcore.storage import checkpoints
from rlcore.storage.checkpoint import load_checkpoint
from rlcore.storage.checkpoints import (
    Checkpoint,
    find_checkpoints,
    is_intact,
    remove_checkpoint,
    rotate,
    save_checkpoint,
)

SaveSteps = Callable[..., list[Path]]


def test_rotation_keeps_the_newest_intact_ones(tmp_path: Path, save_steps: SaveSteps) -> None:
    save_steps(tmp_path, 10, 9, 100)
    assert steps(rotate(tmp_path, 2, 10, is_intact)[0]) == [9, 10], "a later one is of steps that were given up"
    assert steps(find_checkpoints(tmp_path)) == [9, 10, 100]
    assert steps(rotate(tmp_path, 2, 100, is_intact)[0]) == steps(find_checkpoints(tmp_path)) == [10, 100]
    assert len(rotate(tmp_path, 0, 100, is_intact)[0]) == 2
    save_steps(tmp_path, 104, 105)
    (tmp_path / "104" / "Agent.safetensors").write_bytes(b"")
    assert steps(rotate(tmp_path, 2, 105, is_intact)[0]) == [100, 105]
    assert steps(find_checkpoints(tmp_path)) == [100, 104, 105]
    save_steps(tmp_path, 106)
    assert steps(rotate(tmp_path, 2, 106, is_intact)[0]) == steps(find_checkpoints(tmp_path)) == [105, 106]


def steps(found: Iterable[Checkpoint]) -> list[int]:
    return [each.step for each in found]


def test_nothing_of_others_is_deleted_or_taken_for_a_checkpoint(tmp_path: Path, save_steps: SaveSteps) -> None:
    save_steps(tmp_path, 1, 2, 3)
    (tmp_path / "2024").mkdir()
    (tmp_path / "2024" / "photo.jpg").write_text("mine")
    (tmp_path / "1" / "notes.txt").write_text("mine")
    shutil.copy(tmp_path / "1" / "Agent.safetensors", tmp_path / "1" / "my_export.safetensors")
    (tmp_path / ".old-papers").mkdir()
    for name in (".rlcore-tmp-6-0123456789abcdef", ".rlcore-tmp-deleted-4-fedcba9876543210"):  # of killed processes
        shutil.copytree(tmp_path / "3", tmp_path / name)
    assert steps(find_checkpoints(tmp_path)) == [1, 2, 3]
    (tmp_path / "0").symlink_to(tmp_path / "2")
    assert steps(rotate(tmp_path, 1, 3, is_intact)[0]) == [3]
    sweep(tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.parent.name != "3"}
    mine = {"1/notes.txt", "1/my_export.safetensors"}
    assert left == {"3", "2024", "2024/photo.jpg", "1", ".old-papers", "0"} | mine
    assert steps(find_checkpoints(tmp_path)) == [3]
    (tmp_path / "3/mine.safetensors").write_bytes(b"mine")
    (tmp_path / "3/manifest.json").write_text("{")
    remove_checkpoint(tmp_path / "3")
    assert [path.name for path in (tmp_path / "3").iterdir()] == ["mine.safetensors"]


def test_files_of_others_in_the_place_of_a_checkpoint_move_beside_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, save_steps: SaveSteps
) -> None:
    (tmp_path / "2024").mkdir()
    (tmp_path / "2024" / "photo.jpg").write_text("mine")
    (tmp_path / "8").symlink_to("elsewhere")
    save_steps(tmp_path, 3)
    (tmp_path / "3" / "notes.txt").write_text("mine")
    save_steps(tmp_path, 3, 8, 2024)
    assert [each.step for each in find_checkpoints(tmp_path) if is_intact(each)] == [3, 8, 2024]
    assert [path.name for path in (tmp_path / "3.replaced").iterdir()] == ["notes.txt"]
    assert (tmp_path / "8.replaced").is_symlink() and (tmp_path / "2024.replaced" / "photo.jpg").exists()
    assert len(caplog.messages) == 3
    place = tmp_path / "3"
    assert caplog.messages[0] == (
        f"{place}: a checkpoint needs this name; what rlcore did not write there is in {place}.replaced"
    )


def test_a_damaged_new_checkpoint_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, 8, {"B": {"value": 1}})
    write = checkpoints.write_checkpoint

    def write_and_lose_a_file(*parts: Any) -> Any:
        verified = write(*parts)
        (parts[-1].directory / "state.json").write_text("{}")
        return verified

    monkeypatch.setattr(checkpoints, "write_checkpoint", write_and_lose_a_file)
    with pytest.raises(RunStateError, match=r"state\.json"):
        save_checkpoint(tmp_path, 8, {"B": {"value": 2}})
    assert load_checkpoint(tmp_path / "8")["B"] == {"value": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["8"]


def test_every_file_is_on_disk_before_a_checkpoint_gets_its_name_and_the_name_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_steps: SaveSteps
) -> None:
    on_disk: set[tuple[int, int]] = set()  # inode and size at its latest fsync
    renamed: list[Path] = []
    fsync = os.fsync
    rename = Path.rename

    def identity(status: os.stat_result) -> tuple[int, int]:
        return status.st_ino, status.st_size

    def recording_fsync(descriptor: int) -> None:
        on_disk.add(identity(os.fstat(descriptor)))
        fsync(descriptor)

    def checking_rename(self: Path, target: Path) -> Path:
        assert {identity(path.stat()) for path in (self, *self.iterdir())} <= on_disk
        on_disk.clear()
        renamed.append(target)
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(Path, "rename", checking_rename)
    save_steps(tmp_path, 5)
    assert renamed == [tmp_path / "5"] and identity(tmp_path.stat()) in on_disk


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_write_that_fails_leaves_the_older_checkpoint_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, save_steps: SaveSteps
) -> None:
    save_steps(tmp_path, 5)
    calls = 0

    def fail(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(*((os, "fsync") if call == "fsync" else (Path, "rename")), fail)
    with pytest.raises(RunStateError) as caught:
        save_steps(tmp_path, 6)
    monkeypatch.undo()
    assert calls == 1
    assert str(caught.value) == (
        f"checkpoint of step 6 in {tmp_path} cannot be written: No space left on device; the last intact one is of "
        "step 5; fix that and resume with --resume"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["5"]
    load_checkpoint(tmp_path / "5")
