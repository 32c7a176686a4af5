"""Parts of a state that never change: their values are frozen, and checkpoints store their arrays once."""

from __future__ import annotations

import contextlib
import copy
import errno
import itertools
import json
import os
import pickle
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.contracts.saved_values import saved_array, saved_mapping
from rlcore.contracts.states import FrozenState
from rlcore.errors import RunStateError
from rlcore.files.writing import sweep
from rlcore.storage import frozen_files
from rlcore.storage.checkpoint import load_checkpoint, read_manifest
from rlcore.storage.checkpoints import (
    Checkpoint,
    CheckpointSave,
    find_checkpoints,
    is_intact,
    rotate,
    save_best,
    save_checkpoint,
)
from rlcore.storage.frozen_files import FlushedFiles


def policy(seed: int, size: int = 30) -> dict[str, Any]:
    """The state of a policy as a snapshot has it."""
    weights = np.random.default_rng(seed).standard_normal(size).astype(np.float32)
    return {"model": {"layers": {"0": weights, "1": weights[:3].reshape(3, 1)}}, "step": seed, "names": ["a", None]}


def frozen_in(path: Path) -> list[Path]:
    return sorted(path.glob("_frozen-*.safetensors"))


def inodes(*paths: Path) -> set[int]:
    return {file.stat().st_ino for path in paths for file in frozen_in(path)}


# ---------------------------------------------------------------- the object


def test_its_values_cannot_be_changed_by_any_name_that_still_refers_to_them() -> None:
    array = np.arange(6.0).reshape(2, 3)
    order = [1, [2]]
    state = FrozenState({"a": {"weights": array.T}, "order": order})
    array += 5
    order[1].append(3)
    assert np.array_equal(state["a"]["weights"], np.arange(6.0).reshape(2, 3).T) and state["order"] == (1, (2,))
    with pytest.raises(ValueError, match="read-only"):
        state["a"]["weights"][0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        state["a"]["weights"].flags.writeable = True
    for mapping in (state, state["a"]):
        with pytest.raises(TypeError):
            mapping["weights"] = 1


def test_of_another_one_copies_nothing_and_knows_what_the_other_knows(tmp_path: Path) -> None:
    state = FrozenState(policy(1))
    save_checkpoint(tmp_path, 1, {"Agent": {"old": state}})
    assert state.is_finite() and len(state.checksum) == 64
    again = FrozenState(state)
    part = FrozenState({"rating": 1200.0, "policy": state})
    assert again == state and again.checksum == state.checksum and part.checksum == ""
    for other in (again["model"], part["policy"]["model"], copy.deepcopy(state)["model"]):
        assert np.shares_memory(other["layers"]["0"], state["model"]["layers"]["0"])
    back = pickle.loads(pickle.dumps(state))
    assert back == state and not back["model"]["layers"]["0"].flags.writeable


def test_equality_is_bit_for_bit_and_with_plain_mappings_too() -> None:
    state = FrozenState({"a": np.array([0.0, np.nan]), "b": [1, {"c": float("nan")}]})
    assert state == {"a": np.array([0.0, np.nan]), "b": (1, {"c": float("nan")})}
    assert {"a": np.array([0.0, np.nan]), "b": [1, {"c": float("nan")}]} == state
    for other in (
        {"a": np.array([-0.0, np.nan]), "b": [1, {"c": float("nan")}]},
        {"a": np.array([0.0, np.nan], np.float32), "b": [1, {"c": float("nan")}]},
        {"a": np.array([0.0, np.nan]), "b": [True, {"c": float("nan")}]},
        {"a": np.array([0.0, np.nan]), "b": [1]},
    ):
        assert state != other


def test_what_a_checkpoint_cannot_hold_is_refused_at_once() -> None:
    for entries, message in (
        ({"a": [{"b": object()}]}, "state entry 'a/0/b': object is neither an array nor a JSON value"),
        ({"a": {"b": np.array(["text"])}}, "state entry 'a/b': an array of <U4 cannot be saved"),
        ({"a": {7: 1}}, "state entry 'a': the key 7 is not a string"),
    ):
        with pytest.raises(TypeError, match=f"^{message}$"):
            FrozenState(entries)


# ---------------------------------------------------------------- saved and loaded


def test_equal_parts_are_one_file_of_all_checkpoints_and_each_checkpoint_is_complete(tmp_path: Path) -> None:
    pool = [FrozenState(policy(seed)) for seed in (1, 2, 1)]
    first = save_checkpoint(tmp_path, 1, {"Agent": {"pool": pool, "model": policy(9)}, "Other": {"pool": pool[:1]}})
    assert len(frozen_in(first)) == 2
    pool.append(FrozenState(policy(3)))
    second = save_checkpoint(tmp_path, 2, {"Agent": {"pool": pool[1:]}})
    same_again = save_checkpoint(tmp_path, 3, {"Agent": {"pool": [FrozenState(policy(seed)) for seed in (1, 2, 3)]}})
    assert len(frozen_in(second)) == 3 and len(inodes(first, second, same_again)) == 3
    assert inodes(same_again) == inodes(second), "equal content of new objects is found by its checksum"
    assert set(read_manifest(second)["files"]) == {"state.json", *(file.name for file in frozen_in(second))}
    shutil.rmtree(first)
    shutil.rmtree(same_again)
    elsewhere = tmp_path / "copy" / "2"
    shutil.copytree(second, elsewhere)
    assert load_checkpoint(elsewhere)["Agent"]["pool"] == [FrozenState(policy(seed)) for seed in (2, 1, 3)]


def test_a_loaded_part_is_linked_and_not_serialized_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = [FrozenState(policy(1)), FrozenState(policy(1) | {"step": 7})]
    (file,) = frozen_in(save_checkpoint(tmp_path, 1, {"Agent": {"pool": pool}}))
    assert file.stat().st_mode == (tmp_path / "1" / "state.json").stat().st_mode
    file.chmod(0o600)  # permissions of a shared file stay as they are
    loaded = load_checkpoint(tmp_path / "1")["Agent"]["pool"]
    assert np.shares_memory(*(part["model"]["layers"]["0"] for part in loaded))
    assert [part["step"] for part in loaded] == [1, 7], "values that are not arrays are stored with each part"
    taken_up = FrozenState(saved_mapping({"0": loaded[0]}, "0"))
    assert saved_array(taken_up["model"]["layers"], "1", "float32", (3, 1)).shape == (3, 1)
    flushed: set[int] = set()
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (flushed.add(os.fstat(descriptor).st_ino), fsync(descriptor)))
    monkeypatch.setattr(frozen_files, "save_file", None)
    new = save_checkpoint(tmp_path, 2, {"Agent": {"pool": {"0": taken_up}}})
    assert inodes(new) == {file.stat().st_ino} and file.stat().st_mode & 0o777 == 0o600
    assert {each.stat().st_ino for each in new.iterdir()} <= flushed


def test_regular_and_best_checkpoints_share_files(tmp_path: Path) -> None:
    save_best(tmp_path / "best", 5, {"Agent": FrozenState(policy(2))}, {"score": 1.0}, "")
    save_checkpoint(tmp_path, 5, {"Agent": {"model": FrozenState(policy(2))}})
    save_best(tmp_path / "best", 6, {"Agent": FrozenState(policy(2))}, {"score": 2.0}, "")
    assert len(inodes(*(tmp_path / each for each in ("5", "best/5", "best/6")))) == 1


def test_parts_within_a_part_and_any_keys_come_back_frozen(tmp_path: Path) -> None:
    inner = {"": np.zeros((0, 2)), "a/b": [np.float32(1.5), {"content": np.array(True)}], "\ud800": None}
    part = FrozenState({"in": FrozenState(inner), "__metadata__": np.arange(3, dtype=np.int8), "x": inner})
    loaded = load_checkpoint(save_checkpoint(tmp_path, 1, {"Agent": {"parts": [part]}}))["Agent"]["parts"][0]
    assert type(loaded) is type(loaded["in"]) is FrozenState and loaded == part


@pytest.mark.parametrize("key", ["$frozen", "$array"])
def test_a_key_that_is_a_mark_is_refused(tmp_path: Path, key: str) -> None:
    for part in ({key: 1}, FrozenState({"y": {key: 1}})):
        with pytest.raises(TypeError, match=rf"state entry 'Agent/x.*': the key \{key} is reserved"):
            save_checkpoint(tmp_path, 1, {"Agent": {"x": part}})


# ---------------------------------------------------------------- damage, and file systems without links


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)  # in place, so in every checkpoint that shares the file


def test_a_flipped_bit_is_found_in_every_checkpoint_and_is_not_passed_on_to_a_new_one(tmp_path: Path) -> None:
    state = FrozenState(policy(1))
    paths = [save_checkpoint(tmp_path, step, {"Agent": {"pool": [state]}}) for step in (1, 2)]
    (file,) = frozen_in(paths[0])
    flip(file)
    for path in paths:
        with pytest.raises(RunStateError, match=f"{file.name} is damaged"):
            load_checkpoint(path)
    new = save_checkpoint(tmp_path, 3, {"Agent": {"pool": [state]}})
    assert load_checkpoint(new)["Agent"]["pool"][0] == policy(1)
    assert inodes(new).isdisjoint(inodes(*paths))
    assert inodes(save_checkpoint(tmp_path, 4, {"Agent": {"pool": [state]}})) == inodes(new)
    assert not is_intact(find_checkpoints(tmp_path)[0]), "the damaged one stays as it is"


@pytest.mark.parametrize("apart", [True, False])
def test_damage_that_leaves_size_and_time_is_found_within_eight_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, apart: bool
) -> None:
    state = {"Agent": {"pool": [FrozenState(policy(seed)) for seed in range(24)]}}
    flushed = FlushedFiles()

    def save(step: int) -> Path:
        return CheckpointSave(tmp_path, step, state, flushed=flushed, apart=apart).finish()

    for step in (1, 2, 3):
        save(step)
    read: Counter[int] = Counter()
    sha256 = frozen_files.sha256
    monkeypatch.setattr(frozen_files, "sha256", lambda path: read.update([path.stat().st_ino]) or sha256(path))
    paths = [save(step) for step in range(4, 12)]
    assert read == Counter(inodes(*paths) if apart else [*inodes(*paths)] * 2), "read again, each as often"
    for file in frozen_in(paths[-1]):
        before = file.stat()
        flip(file)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    whole = {11: False} | {step: is_intact(Checkpoint(step, save(step))) for step in range(12, 20)}
    assert whole[18] and whole[19]
    assert not apart or all(whole[step] or whole[step + 1] for step in range(11, 19)), "one of the newest two is usable"
    assert caplog.text.count("was damaged or replaced") >= 24


def test_without_links_every_checkpoint_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    state = FrozenState(policy(1))
    for step in (1, 2):
        path = save_checkpoint(tmp_path, step, {"Agent": {"pool": [state, FrozenState(policy(1))]}})
        assert load_checkpoint(path)["Agent"]["pool"] == [policy(1), policy(1)]
    assert len(inodes(tmp_path / "1", tmp_path / "2")) == 2


def test_a_state_with_wrong_marks_is_refused(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 1, {"Agent": {"part": 0}})
    state = path / "state.json"
    manifest = path / "manifest.json"
    listed = json.loads(manifest.read_text())
    for file, content, message in (
        ("../1/state.json", {}, "frozen part with the file '../1/state.json', which is"),
        (3, {}, "frozen part with the file '3', which is not a file"),
        (None, [], "has a frozen part that is not an object"),
        (None, {"a": {"$array": "a"}}, "state.json has no array 'a'"),
    ):
        state.write_text(json.dumps({"Agent": {"part": {"$frozen": file, "content": content}}}))
        listed["files"]["state.json"] = {"size": state.stat().st_size, "sha256": frozen_files.sha256(state)}
        manifest.write_text(json.dumps(listed))
        with pytest.raises(RunStateError, match=message):
            load_checkpoint(path)


# ---------------------------------------------------------------- kills


def test_a_kill_at_any_change_leaves_whole_checkpoints(tmp_path: Path, killing: Any) -> None:
    """Each system call of a save and a rotation that share files raises in turn what no handler catches."""

    def save(directory: Path, step: int) -> None:
        pool = [FrozenState(policy(seed)) for seed in range(step - 1, step + 2)]
        save_checkpoint(directory, step, {"Agent": {"pool": pool}})

    of_path = [(Path, name) for name in ("rename", "replace", "unlink", "write_text", "write_bytes", "mkdir", "chmod")]
    of_system = [(os, name) for name in ("fsync", "link", "unlink", "rmdir")]
    for points in itertools.count():
        directory = tmp_path / str(points)
        whole = False
        save(directory, 1)
        save(directory, 2)
        with killing(points, *of_path, *of_system) as killed, contextlib.suppress(killed):
            save(directory, 3)
            rotate(directory, 2, 3, is_intact)
            whole = True
        steps = [each.step for each in find_checkpoints(directory)]
        assert steps in ([1, 2], [1, 2, 3], [2, 3]), points
        for step in steps:
            pool = load_checkpoint(directory / str(step))["Agent"]["pool"]
            assert pool == [policy(seed) for seed in range(step - 1, step + 2)]
        sweep(directory)
        save(directory, 4)
        assert load_checkpoint(directory / "4")["Agent"]["pool"][0] == policy(3)
        on_disk = [file for each in find_checkpoints(directory) for file in frozen_in(each.path)]
        assert len({file.stat().st_ino for file in on_disk}) == len({file.name for file in on_disk}), "stored once"
        if whole:
            break
    assert points >= 30
