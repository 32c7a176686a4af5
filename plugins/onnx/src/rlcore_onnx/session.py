"""An exported file in onnxruntime, fed and read by the meanings that its metadata give to inputs and outputs."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore_onnx.metadata import Metadata

# Without it, importing onnxruntime 1.32 begins to send statistics about its use to its makers.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime

Shape = tuple[int, ...]
Reals = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]
"""Arrays by name or by meaning; each has one row for each agent."""


def open_model(content: bytes, threads: int = 1) -> onnxruntime.InferenceSession:
    """Load an ONNX file in onnxruntime, which computes with ``threads`` threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


class Session:
    """An exported file in onnxruntime, in the types, layouts and units of the environment.

    Attributes:
        metadata: The metadata of the file.
        behavior: What the agents observe and do.
        memory_size: M, the numbers that a row remembers; 0 without memory.
        epsilon_size: E, the random numbers that draw the actions of a row.
    """

    def __init__(
        self, model: onnxruntime.InferenceSession, metadata: Metadata, extra: Mapping[str, str] | None = None
    ) -> None:
        """``extra`` has names of outputs that are not in ``metadata``, by meaning.

        Raises ValueError or TypeError for metadata that do not describe the inputs and outputs of ``model``.
        """
        self._model = model
        self.metadata = metadata
        self.behavior = metadata.behavior.spec()
        self.memory_size = metadata.behavior.memory_size
        self.epsilon_size = metadata.inputs.epsilon_size
        self._types = {tensor.name: _type(tensor) for tensor in model.get_inputs()}
        names = attrs.asdict(metadata.outputs)
        names |= dict(extra or {})
        self._outputs = {meaning: name for meaning, name in names.items() if name is not None}
        self._require_described(model)

    def _require_described(self, model: onnxruntime.InferenceSession) -> None:
        """Raise ValueError unless the inputs and outputs of ``model`` are those of the metadata."""
        inputs = self.metadata.inputs
        behavior = self.behavior
        sizes: dict[str | None, int] = {
            inputs.action_mask: behavior.mask_size,
            inputs.memory: self.memory_size,
            inputs.epsilon: self.epsilon_size,
        }
        sizes.pop(None, None)
        for name, shape in inputs.unused.items():
            sizes[name] = math.prod(shape)
        for observation in self.metadata.behavior.observations:
            sizes[observation.input] = math.prod(observation.shape)
        graph_sizes = {}
        for name, (_, shape) in self._types.items():
            graph_sizes[name] = math.prod(shape)
        wrong = {str(name) for name, _ in sizes.items() ^ graph_sizes.items()}
        graph_outputs = {tensor.name for tensor in model.get_outputs()}
        wrong |= set(self._outputs.values()) - graph_outputs
        if "actions" not in self._outputs:
            parts = {
                "continuous": behavior.continuous,
                "discrete": behavior.mask_size,
                "memory": self.memory_size,
            }
            for part, size in parts.items():
                described = part in self._outputs
                needed = size != 0
                if described != needed:
                    wrong.add(part)
        if wrong:
            names = ", ".join(sorted(wrong))
            raise ValueError(f"the graph does not have it, or in another size: {names}")

    def __call__(
        self,
        observations: Mapping[str, NDArray[Any]],
        mask: NDArray[np.bool_] | None = None,
        memory: Reals | None = None,
        epsilon: Reals | None = None,
        wanted: Collection[str] | None = None,
    ) -> Arrays:
        """Return the outputs by meaning, for R rows of the environment's observations.

        ``mask`` is [R, options]; None allows every option. ``memory`` [R, M] is flat, and so is the memory that is
        returned; None is zeros. ``epsilon`` is [R, E]; None is zeros. Continuous actions are in the environment's
        units. ``wanted`` are the meanings to return, as far as the file has them; None for all.
        """
        inputs = self.metadata.inputs
        rows = len(next(iter(observations.values())))
        if mask is None:
            mask = np.ones((rows, self.behavior.mask_size), np.bool_)
        if memory is None:
            memory = np.zeros((rows, self.memory_size), np.float32)
        if epsilon is None:
            epsilon = np.zeros((rows, self.epsilon_size), np.float32)
        arrays: dict[str | None, NDArray[Any]] = {
            inputs.action_mask: mask,
            inputs.memory: memory,
            inputs.epsilon: epsilon,
        }
        for name, shape in inputs.unused.items():
            arrays[name] = np.zeros((rows, *shape), np.float32)
        for observation in self.metadata.behavior.observations:
            values = observations[observation.name]
            if observation.scale != 1.0:
                values = values * np.float32(observation.scale)
            if observation.channels_first:
                values = np.moveaxis(values, -1, 1)
            arrays[observation.input] = values
        feeds = {}
        for name, (dtype, shape) in self._types.items():
            array = arrays[name].reshape(rows, *shape)
            feeds[name] = np.ascontiguousarray(array, dtype)

        names = self._outputs
        if wanted is not None:
            names = {meaning: name for meaning, name in names.items() if meaning in wanted}
        output_names = list(names.values())
        outputs = self._model.run(output_names, feeds)
        results: Arrays = dict(zip(names, outputs, strict=True))
        if "memory" in results:
            results["memory"] = results["memory"].reshape(rows, self.memory_size)
        for meaning in ("continuous", "deterministic_continuous"):
            if meaning in results:
                results[meaning] = self.in_units(results[meaning])
        return results

    def in_units(self, continuous: Reals) -> Reals:
        """Return continuous actions [R, continuous] of the file in the environment's units."""
        if self.metadata.continuous_units == "environment":
            return continuous
        low = self.behavior.low
        high = self.behavior.high
        middle = (low + high) / 2
        half_range = (high - low) / 2
        stretched = middle + continuous * half_range
        # Rounding may bring an action past its bound.
        within: Reals = np.clip(stretched, low, high)
        return within


# ONNX has names of C for these two, and NumPy's for all others.
_NUMPY_NAMES = {"float": "float32", "double": "float64"}


def _type(tensor: onnxruntime.NodeArg) -> tuple[np.dtype[Any], Shape]:
    """Type of an input, and shape of one row. Raises ValueError for one that is not a batch of numbers."""
    shape = tuple(tensor.shape[1:])
    fixed = all(isinstance(size, int) for size in shape)
    if not tensor.shape or not fixed:
        raise ValueError(f"input {tensor.name!r} has shape {tensor.shape}")
    name = tensor.type.removeprefix("tensor(").removesuffix(")")
    return np.dtype(_NUMPY_NAMES.get(name, name)), shape
