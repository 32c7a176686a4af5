"""An ONNX file that rlcore exported: the session of onnxruntime, and the metadata of inputs and outputs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    BehaviorSpec,
    ConfigError,
    DamagedFile,
    NotInstalled,
    ObservationSpec,
    is_whole,
    parse_json,
    read_regular,
    repeating,
)

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

KEY = "rlcore"  # of the JSON object in metadata_props
FORMAT = 1  # the version of the object; the README of rlcore-onnx describes it
PACKAGE = "onnxruntime"
MAX_BYTES = 2**31  # of a file in one piece, as protobuf has it
MAX_SIZE = 100_000_000  # numbers of one row; a video frame of 4,096 by 4,096 pixels has 50 million
UNSIGNED = b"0" * 64  # in place of the checksum in the file that it is of


@attrs.frozen
class Input:
    """An observation, and how it is fed."""

    spec: ObservationSpec
    name: str
    shape: tuple[int, ...]  # of one row
    scale: float
    channels_first: bool

    def fed(self, values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        """The input [R, *shape] for observations ``values`` [R, *spec.shape]."""
        if self.scale != 1.0:
            values = values * dtype.type(self.scale)
        if self.channels_first:
            values = np.moveaxis(values, -1, 1)
        return np.ascontiguousarray(values.reshape(len(values), *self.shape), dtype)


@attrs.frozen
class Layout:
    """The metadata of a file: the behavior, and the names of inputs and outputs by meaning."""

    behavior: BehaviorSpec
    memory_size: int
    observations: tuple[Input, ...]
    action_mask: str | None
    memory_in: str | None
    epsilon: str | None
    epsilon_size: int
    unused: Mapping[str, tuple[int, ...]]  # inputs without effect, with the shape of one row
    deterministic: tuple[str | None, str | None]  # outputs with continuous and with discrete actions
    drawn: tuple[str | None, str | None]
    columns: str | None  # the output with all parts side by side
    memory_out: str | None
    normalized: bool  # continuous actions are within -1 and 1, which stand for the bounds

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> Layout:
        about, inputs, outputs = metadata["behavior"], metadata["inputs"], metadata["outputs"]
        observations = tuple(
            Input(
                ObservationSpec(each["name"], tuple(each["shape"]), each["dtype"], each["kind"]),
                each["input"],
                tuple(each["input_shape"]),
                float(each["scale"]),
                bool(each["channels_first"]),
            )
            for each in about["observations"]
        )
        low, high = (
            np.array([infinite if bound is None else bound for bound in about[name]], np.float32)
            for name, infinite in (("low", -np.inf), ("high", np.inf))
        )
        specs = tuple(each.spec for each in observations)
        return cls(
            BehaviorSpec(about["name"], specs, int(about["continuous"]), tuple(about["discrete"]), low, high),
            int(about["memory_size"]),
            observations,
            inputs["action_mask"],
            inputs["memory"],
            inputs["epsilon"],
            int(inputs["epsilon_size"]),
            {name: tuple(shape) for name, shape in inputs["unused"].items()},
            (outputs["deterministic_continuous"], outputs["deterministic_discrete"]),
            (outputs["continuous"], outputs["discrete"]),
            outputs["actions"],
            outputs["memory"],
            metadata["continuous_units"] == "normalized",
        )

    def require(self, inputs: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]) -> None:
        """Raise ValueError for sizes or types that no file of rlcore has, or that are not those of the graph."""
        behavior = self.behavior
        names = (behavior.name, *self.inputs, *self.outputs, *(spec.name for spec in behavior.observations))
        sizes = (behavior.continuous, *behavior.discrete, self.memory_size, self.epsilon_size)
        sizes += tuple(size for spec in behavior.observations for size in spec.shape)
        if not all(isinstance(name, str) for name in names):
            raise TypeError("a name is not a text")
        if not all(is_whole(size) for size in sizes) or max(sum(behavior.discrete), *sizes, 0) > MAX_SIZE:
            raise ValueError(f"a size is not a whole number up to {MAX_SIZE:,}")
        fed = [(each.name, each.shape, each.spec.size) for each in self.observations]
        fed += [(name, shape, math.prod(shape)) for name, shape in self.unused.items()]
        whole = {
            self.action_mask: behavior.mask_size,
            self.memory_in: self.memory_size,
            self.epsilon: self.epsilon_size,
        }
        fed += [(name, inputs[name][1], size) for name, size in whole.items() if name is not None]
        for name, shape, size in fed:
            if name in inputs and (inputs[name][1] != shape or math.prod(shape) != size):
                raise ValueError(f"input {name!r} is {list(inputs[name][1])} in the graph, not {size} numbers")
        if not all(np.isfinite(each.scale) and each.spec.dtype.kind in "biuf" for each in self.observations):
            raise ValueError("a scale is not finite, or a dtype is not of numbers")

    @property
    def inputs(self) -> set[str]:
        """The names of all inputs."""
        named = {self.action_mask, self.memory_in, self.epsilon} - {None}
        return {*(each.name for each in self.observations), *self.unused, *(name for name in named if name)}

    @property
    def outputs(self) -> set[str]:
        """The names of all outputs."""
        names = (*self.deterministic, *self.drawn, self.columns, self.memory_out)
        return {name for name in names if name is not None}

    def in_units(self, continuous: NDArray[np.float32]) -> NDArray[np.float32]:
        """Continuous actions [R, continuous] in the environment's units."""
        if not self.normalized:
            return continuous
        low, high = self.behavior.low, self.behavior.high
        stretched: NDArray[np.float32] = np.clip((low + high) / 2 + continuous * ((high - low) / 2), low, high)
        return stretched


def open_session(path: Path, threads: int) -> tuple[InferenceSession, bytes]:
    """The session of onnxruntime, and the content of the file."""
    try:
        import onnxruntime
    except ImportError as error:
        raise NotInstalled(f"rlcore_onnx.runtime needs onnxruntime; pip install {PACKAGE}", PACKAGE) from error
    try:
        content = read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except DamagedFile as error:
        raise ConfigError(str(error)) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no common class for its errors
        raise repeating(error, f"{path}: onnxruntime cannot load the file", ConfigError) from error
    return session, content


def read_metadata(session: InferenceSession, content: bytes, path: Path) -> dict[str, Any]:
    """The JSON object in the file. Raises ConfigError if the file changed since rlcore wrote it."""
    try:
        text = session.get_modelmeta().custom_metadata_map.get(KEY)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is damaged: its metadata are not UTF-8 text") from error
    if text is None:
        raise ConfigError(
            f"{path}: was not exported by rlcore (its metadata has no {KEY!r}); export a run with rlcore export "
            "--format onnx"
        )
    try:
        metadata = parse_json(text)
        version = metadata["format"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise repeating(error, f"{path}: the metadata {KEY!r} cannot be read", ConfigError) from error
    if version != FORMAT:
        raise ConfigError(
            f"{path}: has format {version!r} of rlcore's metadata, and this version of rlcore reads {FORMAT}; "
            f"it was written by rlcore {metadata.get('rlcore_version')}"
        )
    digest = metadata.get("sha256")  # files of earlier versions have none
    if digest is not None:
        unsigned = content.replace(f'"sha256": "{digest}"'.encode(), b'"sha256": "%s"' % UNSIGNED, 1)
        if hashlib.sha256(unsigned).hexdigest() != digest:
            raise ConfigError(
                f"{path}: its checksum is wrong: the file is damaged, or was changed after its export; export it again"
            )
    return dict(metadata)


def inputs_of(session: InferenceSession) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Type of each input, and shape of one row. Raises ValueError for one that is not a batch of numbers."""
    found = {}
    for each in session.get_inputs():
        name = each.type.removeprefix("tensor(").removesuffix(")")
        dtype = np.dtype({"float": "float32", "double": "float64"}.get(name, name))
        shape = tuple(each.shape[1:])
        if not each.shape or not all(isinstance(size, int) for size in shape):
            raise ValueError(f"input {each.name!r} has shape {each.shape}")
        found[each.name] = (dtype, shape)
    return found
