"""``rlcore_onnx.runtime`` answers wrong files and wrong arrays with one message."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_files import export
from small_runs import data

from rlcore import ConfigError
from rlcore_onnx.metadata import UNSIGNED, signed
from rlcore_onnx.runtime import OnnxPolicy, load


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def policies(directory: Path) -> Callable[..., OnnxPolicy]:
    """``policies("vector", "unity")``: the loaded policy."""
    made: dict[tuple[str, str], OnnxPolicy] = {}

    def policy(kind: str, profile: str = "generic") -> OnnxPolicy:
        key = (kind, profile)
        if key not in made:
            made[key] = load(export(kind, directory, profile).path)
        return made[key]

    return policy


# ------------------------------------------------------------ arrays

REFUSED = data("onnx_bad_input")
ZEROS = np.zeros((2, 3), np.float32)
NAN = np.array([[0, 0, 0], [0, np.nan, 0]], np.float32)


def array(given: Any) -> Any:
    """An array as the data file writes it."""
    about = given if isinstance(given, dict) else {"shape": given}
    kind = about.get("type", "float32")
    if "values" in about:
        return np.array(about["values"], kind)
    made = np.zeros(about["shape"], "float32" if kind == "list" else kind)
    made[about.get("row", ...)] = about.get("value", 0)
    return made.tolist() if kind == "list" else made


@pytest.mark.parametrize("case", REFUSED["arrays"], ids=lambda case: case["message"])
def test_an_array_that_does_not_fit_is_named(policies: Callable[..., OnnxPolicy], case: dict[str, Any]) -> None:
    named = {name: array(each) for name, each in case.get("named", {}).items()}
    given = {name: array(case[name]) for name in ("action_mask", "memory") if name in case}
    for profile in ("generic", "unity"):
        with pytest.raises(ValueError) as raised:  # noqa: PT011  # the text is compared below
            policies(case["policy"], profile).act(named if "named" in case else array(case["observations"]), **given)
        assert case["message"] in str(raised.value) and "\n" not in str(raised.value)


def test_a_memory_is_unchanged_by_a_call_that_is_refused(policies: Callable[..., OnnxPolicy]) -> None:
    memory = np.ones((2, policies("memory").memory_size), np.float32)
    with pytest.raises(ValueError, match="not finite"):
        policies("memory").act(NAN, memory=memory)
    assert (memory == 1).all()


def test_a_file_without_noise_has_no_stochastic_actions(policies: Callable[..., OnnxPolicy]) -> None:
    with pytest.raises(ValueError, match="a file of the profile godot has no stochastic actions"):
        policies("vector", "godot").act(ZEROS, deterministic=False)


# ------------------------------------------------------------ files


@pytest.fixture
def changed(directory: Path, tmp_path: Path) -> Callable[[Callable[[dict[str, Any]], Any]], Path]:
    """``changed(lambda metadata: ...)``: a file whose metadata are what the function returns, or changes in place."""
    source = export("vector", directory).path

    def write(change: Callable[[dict[str, Any]], Any]) -> Path:
        model = onnx.load(source)
        (entry,) = model.metadata_props
        metadata = json.loads(entry.value)
        metadata["sha256"] = UNSIGNED
        result = change(metadata)
        entry.value = result if isinstance(result, str) else json.dumps(metadata if result is None else result)
        path = tmp_path / "changed.onnx"
        path.write_bytes(signed(model.SerializeToString()))
        return path

    return write


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as raised:
        load(path)
    text = str(raised.value)
    assert text.startswith(f"{path}: ") and "\n" not in text
    return text.removeprefix(f"{path}: ")


def test_a_file_that_is_not_there_or_no_onnx_file_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "x.onnx") == "no such file"
    assert refused(tmp_path) == "cannot be read: Is a directory"
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe") == "is not a regular file"
    for name, content in (("text", b"hello"), ("empty", b""), ("zeros", bytes(100))):
        path = tmp_path / name
        path.write_bytes(content)
        assert refused(path).startswith(("onnxruntime cannot load the file: ", "was not exported by rlcore"))


def test_files_of_another_program_and_of_a_later_format_are_refused(changed: Any) -> None:
    path = changed(lambda metadata: metadata.update(format=2, rlcore_version="9.0"))
    assert refused(path) == (
        "has format 2 of rlcore's metadata, and this version of rlcore reads 1; it was written by rlcore 9.0"
    )
    model = onnx.load(path)
    model.metadata_props[0].key = "other"
    onnx.save(model, path)
    assert refused(path) == (
        "was not exported by rlcore (its metadata has no 'rlcore'); export a run with rlcore export --format onnx"
    )


@pytest.mark.parametrize("case", REFUSED["metadata"], ids=lambda case: case["message"])
def test_metadata_that_rlcore_did_not_write_are_refused(changed: Any, case: dict[str, Any]) -> None:
    def change(metadata: dict[str, Any]) -> Any:
        if "text" in case:
            return case["text"] * case.get("times", 1)
        metadata.pop(case.get("delete"), None)
        for dotted, value in case.get("set", {}).items():
            *way, last = dotted.split(".")
            place: Any = metadata
            for key in way:
                place = place[int(key) if key.isdecimal() else key]
            place[last] = value
        return None

    assert case["message"] in refused(changed(change))


def test_a_flipped_bit_of_a_weight_is_refused(directory: Path, tmp_path: Path) -> None:
    content = bytearray(export("vector", directory).path.read_bytes())
    weights = max((each.raw_data for each in onnx.load_from_string(bytes(content)).graph.initializer), key=len)
    content[content.index(weights)] ^= 1
    (tmp_path / "flipped.onnx").write_bytes(content)
    assert refused(tmp_path / "flipped.onnx").startswith("its checksum is wrong")
