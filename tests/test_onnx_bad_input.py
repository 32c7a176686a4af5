"""``rlcore_onnx.runtime`` answers wrong files and wrong arrays with one message."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_files import export

from rlcore import ConfigError, NotInstalled
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

ZEROS = np.zeros((2, 3), np.float32)
NAN = np.array([[0, 0, 0], [0, np.nan, 0]], np.float32)
SEVERAL = {"state": ZEROS, "wind": np.zeros((2, 2, 2)), "room": np.zeros((2, 4))}
MEMORY = np.zeros((2, 8), np.float32)
IMAGE = {"state": ZEROS, "camera": np.zeros((2, 20, 24, 3), np.uint8)}


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (
            "vector",
            (ZEROS[0],),
            "observation 'state' has shape [3] and must have [rows, 3]; of a single row, give array",
        ),
        ("vector", (ZEROS[:, :2],), "observation 'state' has shape [2, 2] and must have [rows, 3]"),
        ("vector", (np.float32(1),), "observation 'state' has shape [] and must have [rows, 3]"),
        ("vector", (NAN,), "observation 'state': nan in row 1 is not finite"),
        ("vector", (NAN + np.inf,), "observation 'state': inf in row 0 is not finite"),
        ("vector", (np.full((1, 3), 1e300),), "observation 'state': 1e+300 in row 0 is not finite"),
        ("vector", (np.full((1, 3), "a"),), "observation 'state' has type <U1 and must have float32"),
        ("vector", ({},), "observation 'state' is missing"),
        ("vector", ({"sate": ZEROS},), "unknown observation 'sate'; did you mean 'state'?; there are state"),
        ("several", (ZEROS,), "behavior 'Walker' has 3 observations; give a mapping with 'state', 'wind', 'room'"),
        (
            "several",
            ({**SEVERAL, "room": np.zeros((1, 4))},),
            "must have equally many rows: 'state' has 2, 'wind' has 2, ",
        ),
        (
            "image",
            ({**IMAGE, "camera": IMAGE["camera"] + 0.5},),
            "observation 'camera': 0.5 in row 0 is not a value of u",
        ),
        (
            "image",
            ({**IMAGE, "camera": IMAGE["camera"] - 1.0},),
            "observation 'camera': -1.0 in row 0 is not a value of ",
        ),
        (
            "image",
            ({**IMAGE, "camera": np.moveaxis(IMAGE["camera"], -1, 1)},),
            "has shape [2, 3, 20, 24] and must have [",
        ),
        ("vector", (ZEROS, np.ones((2, 1), bool)), "action_mask has shape [2, 1] and must have [2, 0]"),
        ("discrete", (ZEROS, np.ones((2, 5), bool)), "action_mask has shape [2, 5] and must have [2, 4]"),
        ("discrete", (ZEROS, np.ones((1, 4), bool)), "action_mask has shape [1, 4] and must have [2, 4]"),
        (
            "branches",
            (ZEROS, np.array([[1] * 9, [1, 1, 0, 0, 0, 1, 1, 1, 1]], bool)),
            "action_mask allows no option of branch 1 in row 1",
        ),
        ("memory", (ZEROS,), "behavior 'Walker': the policy has memory; give memory=policy.initial_memory(rows), keep"),
        (
            "memory",
            (ZEROS, None, True, MEMORY[:1]),
            "memory is [1, 8] of float32 and must be an array [2, 8] of float32",
        ),
        (
            "memory",
            (ZEROS, None, True, MEMORY.astype(float)),
            "memory is [2, 8] of float64 and must be an array [2, 8]",
        ),
        ("memory", (ZEROS, None, True, MEMORY.tolist()), "memory is list and must be an array [2, 8] of float32"),
        ("vector", (ZEROS, None, True, MEMORY), "memory is [2, 8] of float32 and must be an array [2, 0] of float32"),
    ],
)
def test_an_array_that_does_not_fit_is_named(
    policies: Callable[..., OnnxPolicy], kind: str, arguments: tuple[Any, ...], message: str
) -> None:
    for profile in ("generic", "unity"):
        with pytest.raises(ValueError) as raised:  # noqa: PT011  # the text is compared below
            policies(kind, profile).act(*arguments)
        assert message in str(raised.value) and "\n" not in str(raised.value)


def test_a_memory_is_unchanged_by_a_call_that_is_refused(policies: Callable[..., OnnxPolicy]) -> None:
    memory = np.ones((2, policies("memory").memory_size), np.float32)
    with pytest.raises(ValueError, match="not finite"):
        policies("memory").act(NAN, memory=memory)
    assert (memory == 1).all()


def test_a_file_without_noise_has_no_stochastic_actions(policies: Callable[..., OnnxPolicy]) -> None:
    with pytest.raises(
        ValueError, match="a file of the profile godot has no stochastic actions; export with profile ge"
    ):
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
        del metadata["sha256"]  # files of earlier versions have none
        result = change(metadata)
        entry.value = result if isinstance(result, str) else json.dumps(metadata if result is None else result)
        path = tmp_path / "changed.onnx"
        onnx.save(model, path)
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
    assert refused(tmp_path) == "is a directory, not a regular file"
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe") == "is a named pipe, not a regular file"
    for name, content in (("text", b"hello"), ("empty", b""), ("zeros", bytes(100))):
        path = tmp_path / name
        path.write_bytes(content)
        assert refused(path).startswith(("onnxruntime cannot load the file: ", "was not exported by rlcore"))


def test_a_file_of_another_program_is_refused(changed: Any) -> None:
    path = changed(lambda metadata: metadata)
    model = onnx.load(path)
    model.metadata_props[0].key = "other"
    onnx.save(model, path)
    assert refused(path) == (
        "was not exported by rlcore (its metadata has no 'rlcore'); export a run with rlcore export --format onnx"
    )


def test_a_file_of_a_later_format_is_refused(changed: Any) -> None:
    path = changed(lambda metadata: metadata.update(format=2, rlcore_version="9.0"))
    assert refused(path) == (
        "has format 2 of rlcore's metadata, and this version of rlcore reads 1; it was written by rlcore 9.0"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda metadata: "{", "the metadata 'rlcore' cannot be read: ValueError: is not JSON: "),
        (lambda metadata: "[" * 100_000, "the metadata 'rlcore' cannot be read: ValueError: is nested deeper than"),
        (lambda metadata: [], "the metadata 'rlcore' cannot be read: TypeError: "),
        (lambda metadata: {"a": 1}, "the metadata 'rlcore' cannot be read: KeyError: 'format'"),
        (lambda metadata: metadata.pop("behavior") and None, "is not as rlcore writes it: KeyError: 'behavior'"),
        (lambda metadata: metadata["behavior"].update(low=None), "is not as rlcore writes it: TypeError: "),
        (lambda metadata: metadata["behavior"].update(observations=["a"]), "is not as rlcore writes it: TypeError: "),
        (lambda metadata: metadata["inputs"].update(unused=3), "is not as rlcore writes it: AttributeError: "),
        (lambda metadata: metadata["inputs"].update(epsilon_size=10**12), "a size is not a whole number up to"),
        (
            lambda metadata: metadata["inputs"].update(epsilon_size=3),
            "'epsilon' is [2] in the graph, not 3",
        ),
        (lambda metadata: metadata["behavior"].update(discrete=[10**12]), "is not as rlcore writes it: "),
        (lambda metadata: metadata["behavior"].update(memory_size=-1), "a size is not a whole number up to"),
        (lambda metadata: metadata["behavior"]["observations"][0].update(shape=[10**12]), "is not as rlcore writes"),
        (lambda metadata: metadata["behavior"]["observations"][0].update(name=[]), "is not as rlcore writes it: "),
        (lambda metadata: metadata["behavior"]["observations"][0].update(dtype=[]), "a dtype is not of numbers"),
        (lambda metadata: metadata["outputs"].update(memory=[]), "is not as rlcore writes it: TypeError: unhash"),
        (lambda metadata: metadata["inputs"].update(memory="m"), "'rlcore' does not fit the graph: m"),
        (lambda metadata: metadata["inputs"].update(epsilon=None), "'rlcore' does not fit the graph: epsilon"),
        (lambda metadata: metadata["outputs"].update(continuous="c"), "'rlcore' does not fit the graph: c"),
    ],
)
def test_metadata_that_rlcore_did_not_write_are_refused(changed: Any, change: Any, message: str) -> None:
    assert message in refused(changed(change))


def test_flipped_bits_are_refused_or_change_nothing(directory: Path, tmp_path: Path) -> None:
    """With a single bit wrong, a file that still loads acts as before: the bit was not part of what is read."""
    content, path = export("vector", directory).path.read_bytes(), tmp_path / "flipped.onnx"
    observations = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    expected = load(export("vector", directory).path).act(observations).continuous
    assert expected is not None
    bits = np.random.default_rng(1).choice(8 * len(content), 120, replace=False)
    loaded = 0
    for bit in bits:
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            actions = load(path).act(observations).continuous
        except ConfigError:
            continue
        loaded += 1
        assert actions is not None and actions.tobytes() == expected.tobytes()
    print(f"{loaded} of {len(bits)} flipped files load")
    assert loaded <= 1


def test_fields_that_a_later_version_adds_are_ignored(changed: Any) -> None:
    policy = load(changed(lambda metadata: metadata.update(more={"a": 1})))
    assert policy.act(ZEROS).continuous is not None


def test_without_onnxruntime_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(NotInstalled, match=r"needs onnxruntime; pip install onnxruntime$"):
        load(tmp_path / "x.onnx")
