"""Checkpoint directories: what goes in comes out, and what was damaged is noticed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rlcore.errors import RunStateError
from rlcore.files.atomic import sweep
from rlcore.storage import checkpoint_directory
from rlcore.storage.checkpoint import NewerFormat, load_checkpoint, verify_checkpoint
from rlcore.storage.checkpoint_directory import find_checkpoints, is_intact, newest_intact, rotate, save_checkpoint

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64"]
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
json_values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
keys = st.one_of(st.sampled_from(["a", "b", "a/b", "0", "", "__metadata__"]), st.text(max_size=5))
trees = st.recursive(
    st.one_of(arrays, json_values),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return (
            isinstance(a, np.ndarray)
            and isinstance(b, np.ndarray)
            and (a.dtype, a.shape) == (b.dtype, b.shape)
            and a.tobytes() == b.tobytes()
        )
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


@settings(deadline=None)
@given(state=st.dictionaries(st.sampled_from(["Agent", "Left", "run"]), trees, max_size=3))
def test_every_tree_of_arrays_and_json_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, state: Any
) -> None:
    directory = tmp_path_factory.mktemp("checkpoints")
    assert same(load_checkpoint(save_checkpoint(directory, 3, state)), state)


def test_arrays_in_any_memory_order_keep_shape_and_values(tmp_path: Path) -> None:
    matrix = np.arange(12.0).reshape(3, 4)
    state = {"Agent": {"t": matrix.T, "f": np.asfortranarray(matrix), "s": matrix[::2, 1:3], "scalar": np.float32(2)}}
    back = load_checkpoint(save_checkpoint(tmp_path, 1, state))["Agent"]
    assert np.array_equal(back["t"], matrix.T) and np.array_equal(back["f"], matrix)
    assert np.array_equal(back["s"], matrix[::2, 1:3]) and back["scalar"] == 2.0


@pytest.mark.parametrize(
    ("leaf", "kind"),
    [
        (object(), "object"),
        ({1, 2}, "set"),
        (b"bytes", "bytes"),
        (1j, "complex"),
        (np.array([object()]), "object"),
        (np.array(["text"]), "<U4"),
        (np.array(["2026-01-01"], "datetime64[D]"), "datetime64"),
    ],
)
def test_a_leaf_that_is_neither_an_array_nor_json_is_refused_by_its_path(tmp_path: Path, leaf: Any, kind: str) -> None:
    state = {"Agent": {"optimizer": [0, {"momentum": leaf}]}}
    with pytest.raises(TypeError, match=rf"'Agent/optimizer/1/momentum'.*{kind}"):
        save_checkpoint(tmp_path, 1, state)
    assert list(tmp_path.iterdir()) == []  # nothing half-written stays


def test_the_mark_of_an_array_is_refused_as_a_users_key(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"'Agent/x'.*\$array"):
        save_checkpoint(tmp_path, 1, {"Agent": {"x": {"$array": "y"}}})


# ---------------------------------------------------------------- damage


def good(directory: Path, *steps: int) -> list[Path]:
    """Checkpoints whose array holds their step."""
    return [
        save_checkpoint(
            directory,
            step,
            {
                "Agent": {"weights": np.full((4, 5), step, np.float32)},
                "run": {"step": step, "episodes": np.arange(step)},
            },
        )
        for step in steps
    ]


FILES = ["Agent.safetensors", "run.safetensors", "state.json", "manifest.json"]


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_of_every_file_is_noticed(tmp_path: Path, name: str) -> None:
    (path,) = good(tmp_path, 2)
    content = (path / name).read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        (path / name).write_bytes(damaged)
        with pytest.raises(RunStateError) as caught:
            load_checkpoint(path)
        assert str(path) in str(caught.value), position
    (path / name).write_bytes(content)
    load_checkpoint(path)


@pytest.mark.parametrize("name", FILES)
def test_a_shortened_empty_or_missing_file_is_named(tmp_path: Path, name: str) -> None:
    (path,) = good(tmp_path, 2)
    content = (path / name).read_bytes()
    for length in (0, 1, len(content) // 2, len(content) - 1):
        (path / name).write_bytes(content[:length])
        with pytest.raises(RunStateError, match=name):
            load_checkpoint(path)
    (path / name).unlink()
    with pytest.raises(RunStateError, match=name):
        load_checkpoint(path)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_step_is_noticed(tmp_path: Path, name: str) -> None:
    older, newer = good(tmp_path, 2, 3)
    shutil.copy(older / name, newer / name)
    with pytest.raises(RunStateError):
        load_checkpoint(newer)


def test_a_whole_checkpoint_under_the_name_of_another_step_is_noticed(tmp_path: Path) -> None:
    older, newer = good(tmp_path, 2, 3)
    shutil.rmtree(newer)
    shutil.copytree(older, newer)
    with pytest.raises(RunStateError, match="step 2"):
        load_checkpoint(newer)


@pytest.mark.parametrize(
    "manifest",
    [
        [],
        {},
        None,
        {"format_version": 1, "step": 2, "files": []},
        {"format_version": 1, "step": 2, "files": {}},
        {"format_version": 1, "step": 2, "files": {"state.json": 5}},
        {"format_version": 1, "step": 2, "files": {"state.json": {"size": 1}}},
    ],
)
def test_a_manifest_that_is_json_but_no_manifest_is_refused(tmp_path: Path, manifest: Any) -> None:
    (path,) = good(tmp_path, 2)
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunStateError, match=r"manifest\.json is damaged: "):
        load_checkpoint(path)


def test_a_file_that_the_manifest_does_not_list_is_not_read(tmp_path: Path) -> None:
    (path,) = good(tmp_path, 2)
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["files"]["Agent.safetensors"]
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunStateError):
        load_checkpoint(path)


def test_a_newer_format_names_the_remedy(tmp_path: Path) -> None:
    (path,) = good(tmp_path, 2)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | {"format_version": 3}))
    with pytest.raises(NewerFormat, match="format version 3 is of a newer rlcore; this one reads 2; upgrade rlcore"):
        verify_checkpoint(path)
    (path / "manifest.json").write_text(json.dumps(manifest | {"format_version": 1}))
    with pytest.raises(RunStateError, match="format version 1, this rlcore reads 2; use the rlcore release that wrote"):
        verify_checkpoint(path)


def test_a_checkpoint_of_a_newer_rlcore_is_not_passed_over(tmp_path: Path) -> None:
    for path in good(tmp_path, 1, 2, 3):
        if path.name != "1":
            manifest = json.loads((path / "manifest.json").read_text()) | {"format_version": int(path.name) + 1}
            (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(NewerFormat, match="3: format version 4 is of a newer rlcore"):
        newest_intact(tmp_path, "run")
    assert newest_intact(tmp_path, "run", step=1)[0].step == 1


def test_the_newest_intact_checkpoint_comes_after_the_names_of_bad_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good(tmp_path, 1, 2, 3)
    (tmp_path / "3" / "state.json").unlink()
    (tmp_path / "2" / "Agent.safetensors").write_bytes(b"")
    checkpoint, state = newest_intact(tmp_path, "run")
    assert checkpoint.step == state["run"]["step"] == 1
    first, second = (record.getMessage() for record in caplog.records)
    assert "state.json is missing" in first and "Agent.safetensors has 0 bytes" in second
    assert first.endswith("; an older checkpoint is used")
    with pytest.raises(RunStateError, match=r"^run: there is no usable checkpoint in .* \(checkpoint .*3: state.json"):
        newest_intact(tmp_path, "run", step=3)


def test_a_checkpoint_that_is_replaced_while_it_is_read_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = good(tmp_path, 1)

    def train_on(path: Path) -> dict[str, Any]:
        if path == first:
            good(tmp_path, 2)
            shutil.rmtree(path, ignore_errors=True)
        return load_checkpoint(path)

    monkeypatch.setattr(checkpoint_directory, "load_checkpoint", train_on)
    assert newest_intact(tmp_path, "run")[0].step == 2


# ---------------------------------------------------------------- what stays


def test_rotation_keeps_the_newest(tmp_path: Path) -> None:
    good(tmp_path, 10, 9, 100)
    assert [each.step for each in rotate(tmp_path, 2, 100, is_intact)] == [10, 100]
    assert [each.step for each in find_checkpoints(tmp_path)] == [10, 100]
    assert len(rotate(tmp_path, 0, 100, is_intact)) == 2


def test_bad_checkpoints_that_a_resumed_run_passed_over_do_not_push_out_good_ones(tmp_path: Path) -> None:
    good(tmp_path, 1, 2, 3, 4)
    for bad in ("3", "4"):
        (tmp_path / bad / "state.json").unlink()
    save_checkpoint(tmp_path, 2, {"Agent": {"weights": np.zeros(2)}})
    assert [each.step for each in rotate(tmp_path, 2, 2, is_intact)] == [1, 2]
    assert [each.step for each in find_checkpoints(tmp_path)] == [1, 2, 3, 4], "until the run saves their steps again"


def test_a_damaged_checkpoint_does_not_count_among_those_that_are_kept(tmp_path: Path) -> None:
    good(tmp_path, 1, 2, 3, 4, 5)
    (tmp_path / "4" / "Agent.safetensors").write_bytes(b"")
    assert [each.step for each in rotate(tmp_path, 2, 5, is_intact)] == [3, 5]
    assert [each.step for each in find_checkpoints(tmp_path)] == [3, 4, 5]
    good(tmp_path, 6)
    assert [each.step for each in rotate(tmp_path, 2, 6, is_intact)] == [5, 6]
    assert [each.step for each in find_checkpoints(tmp_path)] == [5, 6]


def test_nothing_that_rlcore_did_not_write_is_deleted_or_taken_for_a_checkpoint(tmp_path: Path) -> None:
    good(tmp_path, 1, 2, 3)
    (tmp_path / "2024").mkdir()
    (tmp_path / "2024" / "photo.jpg").write_text("mine")
    (tmp_path / "1" / "notes.txt").write_text("mine")
    (tmp_path / ".old-papers").mkdir()
    (tmp_path / "0").symlink_to(tmp_path / "2")
    assert [each.step for each in rotate(tmp_path, 1, 3, is_intact)] == [3]
    sweep(tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.parent.name != "3"}
    assert left == {"3", "2024", "2024/photo.jpg", "1", "1/notes.txt", ".old-papers", "0"}
    assert [each.step for each in find_checkpoints(tmp_path)] == [3]


def test_files_of_others_in_the_place_of_a_checkpoint_move_beside_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "2024").mkdir()
    (tmp_path / "2024" / "photo.jpg").write_text("mine")
    (tmp_path / "8").symlink_to("elsewhere")
    good(tmp_path, 3)
    (tmp_path / "3" / "notes.txt").write_text("mine")
    good(tmp_path, 3, 8, 2024)
    assert [each.step for each in find_checkpoints(tmp_path) if is_intact(each)] == [3, 8, 2024]
    assert [path.name for path in (tmp_path / "3.replaced").iterdir()] == ["notes.txt"]
    assert (tmp_path / "8.replaced").is_symlink() and (tmp_path / "2024.replaced" / "photo.jpg").exists()
    assert len(caplog.messages) == 3
    place = tmp_path / "3"
    assert caplog.messages[0] == (
        f"{place}: a checkpoint needs this name; what rlcore did not write there is in {place}.replaced"
    )


def test_a_file_of_a_user_is_known_by_the_manifest_not_by_its_name(tmp_path: Path) -> None:
    (first, _) = good(tmp_path, 1, 2)
    shutil.copy(first / "Agent.safetensors", first / "my_export.safetensors")
    rotate(tmp_path, 1, 2, is_intact)
    assert [path.name for path in first.iterdir()] == ["my_export.safetensors"]


def test_a_checkpoint_holds_the_configuration_among_its_verified_files(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 1, {"run": {"step": 1}}, "max_steps: 5\n")
    assert (path / "configuration.yaml").read_text() == "max_steps: 5\n"
    (path / "configuration.yaml").write_text("max_steps: 7\n")
    with pytest.raises(RunStateError, match=r"configuration.yaml is damaged"):
        verify_checkpoint(path)


def test_a_damaged_new_checkpoint_of_a_step_leaves_the_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, 8, {"B": {"value": 1}})
    write = checkpoint_directory.write_checkpoint

    def write_and_lose_a_file(directory: Path, *arguments: Any) -> None:
        write(directory, *arguments)
        (directory / "state.json").write_text("{}")

    monkeypatch.setattr(checkpoint_directory, "write_checkpoint", write_and_lose_a_file)
    with pytest.raises(RunStateError, match=r"state\.json"):
        save_checkpoint(tmp_path, 8, {"B": {"value": 2}})
    assert load_checkpoint(tmp_path / "8")["B"] == {"value": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["8"]


def test_a_step_reached_again_replaces_its_checkpoint(tmp_path: Path) -> None:
    good(tmp_path, 5)
    save_checkpoint(tmp_path, 5, {"Agent": {"weights": np.zeros(2)}})
    assert load_checkpoint(tmp_path / "5")["Agent"]["weights"].shape == (2,)
    assert [path.name for path in tmp_path.iterdir()] == ["5"]


def test_leftovers_of_killed_processes_are_no_checkpoints_and_are_swept(tmp_path: Path) -> None:
    good(tmp_path, 5)
    for name in (".rlcore-tmp-6-123", ".rlcore-tmp-deleted-4-123"):
        shutil.copytree(tmp_path / "5", tmp_path / name)
    assert [each.step for each in find_checkpoints(tmp_path)] == [5]
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["5"]


def test_every_file_is_on_disk_before_a_checkpoint_gets_its_name_and_the_name_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk: set[tuple[int, int]] = set()  # inode and size at its latest fsync
    renamed: list[Path] = []
    fsync, rename = os.fsync, Path.rename

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
    good(tmp_path, 5)
    assert renamed == [tmp_path / "5"] and identity(tmp_path.stat()) in on_disk


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_write_that_fails_leaves_the_older_checkpoint_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    good(tmp_path, 5)
    calls = 0

    def fail(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(*((os, "fsync") if call == "fsync" else (Path, "rename")), fail)
    with pytest.raises(RunStateError) as caught:
        good(tmp_path, 6)
    monkeypatch.undo()
    assert calls == 1
    assert str(caught.value) == (
        f"checkpoint of step 6 in {tmp_path} cannot be written: No space left on device; the last intact one is of "
        "step 5; free some space and resume with --resume"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["5"]
    load_checkpoint(tmp_path / "5")


def test_the_last_good_checkpoint_that_an_error_names_is_one_that_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good(tmp_path, 5, 6)
    (tmp_path / "6" / "state.json").write_bytes(b"")

    def fail(descriptor: int) -> None:
        raise OSError(5, os.strerror(5))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(RunStateError, match="Input/output error; the last intact one is of step 5"):
        good(tmp_path, 7)


def test_a_kill_at_any_call_that_changes_the_disk_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each system call that matters raises in turn what no handler catches; what is then on disk must be good."""

    class Killed(BaseException):
        pass

    counted = [(os, "fsync"), (Path, "rename"), (shutil, "rmtree"), (Path, "write_text"), (Path, "mkdir")]
    reached, points = True, 0
    while reached:
        directory = tmp_path / str(points)
        good(directory, 1, 2)
        reached, left = False, points

        def killing(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **keywords: Any) -> Any:
                nonlocal left, reached
                left -= 1
                if left < 0:
                    reached = True
                    raise Killed
                return original(*arguments, **keywords)

            return call

        with monkeypatch.context() as patch:
            for owner, name in counted:
                patch.setattr(owner, name, killing(getattr(owner, name)))
            try:
                good(directory, 3)
                rotate(directory, 2, 3, is_intact)
            except Killed:
                pass
        steps = [each.step for each in find_checkpoints(directory)]
        assert steps in ([1, 2], [1, 2, 3], [2, 3]), points
        for step in steps:
            load_checkpoint(directory / str(step))
        points += 1
    assert points > 8
