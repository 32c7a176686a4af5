"""One checkpoint: a saved state is loaded as it was, and damage is noticed."""

from __future__ import annotations

import json
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
from rlcore.storage.checkpoint import OtherFormat, load_checkpoint
from rlcore.storage.checkpoints import newest_intact, save_checkpoint
from rlcore_devkit.conformance.states import assert_equal

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


@settings(deadline=None)
@given(state=st.dictionaries(st.sampled_from(["Agent", "Left", "run"]), trees, max_size=3))
def test_every_tree_of_arrays_and_json_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, state: Any
) -> None:
    directory = tmp_path_factory.mktemp("checkpoints")
    loaded = load_checkpoint(save_checkpoint(directory, 3, state))
    assert_equal(loaded, state)
    assert types(loaded) == types(state)


def types(tree: Any) -> Any:
    """The type of each leaf, with that of the numbers in an array."""
    if isinstance(tree, dict):
        return {key: types(value) for key, value in tree.items()}
    return [types(value) for value in tree] if isinstance(tree, list) else getattr(tree, "dtype", type(tree))


def test_arrays_in_any_memory_order_keep_shape_and_values(tmp_path: Path) -> None:
    matrix = np.arange(12.0).reshape(3, 4)
    state = {"Agent": {"t": matrix.T, "f": np.asfortranarray(matrix), "s": matrix[::2, 1:3], "scalar": np.float32(2)}}
    back = load_checkpoint(save_checkpoint(tmp_path, 1, state))["Agent"]
    assert np.array_equal(back["t"], matrix.T) and np.array_equal(back["f"], matrix)
    assert np.array_equal(back["s"], matrix[::2, 1:3]) and back["scalar"] == 2.0


def test_a_leaf_that_is_neither_an_array_nor_json_is_refused_by_its_path(tmp_path: Path) -> None:
    days = np.array(["2026-01-01"], "datetime64[D]")
    leaves = {"object": object(), "set": {1, 2}, "bytes": b"bytes", "complex": 1j}
    arrays = {"array of object": np.array([object()]), "array of <U4": np.array(["text"]), "array of datetime64": days}
    for kind, leaf in (leaves | arrays).items():
        with pytest.raises(TypeError, match=rf"'Agent/optimizer/1/momentum'.*{kind}"):
            save_checkpoint(tmp_path, 1, {"Agent": {"optimizer": [0, {"momentum": leaf}]}})
        assert list(tmp_path.iterdir()) == []  # nothing half-written stays


SaveSteps = Callable[..., list[Path]]


# ---------------------------------------------------------------- damage


FILES = ["Agent.safetensors", "run.safetensors", "state.json", "manifest.json"]


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_and_shortened_file_is_noticed(tmp_path: Path, name: str, save_steps: SaveSteps) -> None:
    (path,) = save_steps(tmp_path, 2)
    content = (path / name).read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        (path / name).write_bytes(damaged)
        with pytest.raises(RunStateError) as caught:
            load_checkpoint(path)
        assert str(path) in str(caught.value), position
    for length in (0, 1, len(content) // 2, len(content) - 1, None):
        (path / name).unlink() if length is None else (path / name).write_bytes(content[:length])
        with pytest.raises(RunStateError, match=name):
            load_checkpoint(path)
    (path / name).write_bytes(content)
    load_checkpoint(path)


def test_a_whole_checkpoint_under_the_name_of_another_step_is_noticed(tmp_path: Path, save_steps: SaveSteps) -> None:
    older, newer = save_steps(tmp_path, 2, 3)
    shutil.rmtree(newer)
    shutil.copytree(older, newer)
    with pytest.raises(RunStateError, match="step 2"):
        load_checkpoint(newer)


def test_a_manifest_of_another_content_or_format_is_refused(tmp_path: Path, save_steps: SaveSteps) -> None:
    (path,) = save_steps(tmp_path, 2)
    manifest = json.loads((path / "manifest.json").read_text())
    listed = {name: each for name, each in manifest["files"].items() if name != "Agent.safetensors"}
    wrong = [{}, {"files": []}, {"files": {}}, {"files": {"state.json": 5}}, {"files": {"state.json": {"size": 1}}}]
    cases: list[tuple[Any, str]] = [
        *((each and {"checkpoint_format": 1, "step": 2} | each, r"manifest\.json is damaged: ") for each in wrong),
        ([], r"manifest\.json is damaged: "),
        (None, r"manifest\.json is damaged: "),
        (manifest | {"files": listed}, "Agent"),
        (manifest | {"checkpoint_format": 0}, r"manifest\.json is damaged: "),
        (manifest | {"checkpoint_format": True}, r"manifest\.json is damaged: "),
        (manifest | {"checkpoint_format": 2}, "version 2 is of a newer rlcore; this one reads 1; upgrade rlcore"),
    ]
    for content, told in cases:
        (path / "manifest.json").write_text(json.dumps(content))
        with pytest.raises(RunStateError, match=told) as caught:
            load_checkpoint(path)
    assert isinstance(caught.value, OtherFormat)


def test_a_damaged_checkpoint_that_is_named_is_refused(tmp_path: Path, save_steps: SaveSteps) -> None:
    save_steps(tmp_path, 1, 2)
    (tmp_path / "2" / "state.json").unlink()
    with pytest.raises(RunStateError, match=r"^run: there is no usable checkpoint in .* \(checkpoint .*2: state.json"):
        newest_intact(tmp_path, "run", step=2)
