"""An exported file in onnxruntime, fed with the observations of the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import onnxruntime
from numpy.typing import NDArray

from rlcore_onnx.metadata import Metadata, ObservationInput

__all__ = ["Arrays", "Session", "graph_value"]

Arrays = dict[str, NDArray[Any]]
"""Inputs or outputs of a graph by name; each has one row for each agent."""


def graph_value(given: ObservationInput, values: NDArray[Any]) -> NDArray[Any]:
    """Values [R, *shape] of the environment as the input of the graph."""
    if given.scale != 1.0:
        values = values.astype(np.float32) * np.float32(given.scale)
    if given.channels_first:
        values = values.transpose(0, 3, 1, 2)
    shape = (len(values), *given.input_shape)
    return np.ascontiguousarray(values.reshape(shape), np.dtype(given.input_dtype))


class Session:
    """An exported file in onnxruntime, with the inputs and outputs by meaning."""

    def __init__(self, model: bytes, metadata: Metadata, extra: str | None = None) -> None:
        """``extra`` is the name of an output that is not in ``metadata``; its meaning is ``"extra"``."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._inputs = {each.name: each for each in self._session.get_inputs()}
        self.metadata = metadata
        self._outputs = {meaning: name for meaning, name in attrs.asdict(metadata.outputs).items() if name is not None}
        if extra is not None:
            self._outputs["extra"] = extra

    def __call__(
        self,
        observations: Mapping[str, NDArray[Any]],
        mask: NDArray[np.bool_] | None = None,
        memory: NDArray[np.float32] | None = None,
        epsilon: NDArray[np.float32] | None = None,
    ) -> Arrays:
        """Return the outputs of ``metadata.outputs`` by meaning, for R rows of the environment's observations.

        ``mask`` is [R, options]; None allows every option. ``memory`` [R, M] is flat, and so is the memory that is
        returned; None is zeros. ``epsilon`` is [R, epsilon_size]; None is zeros.
        """
        behavior, inputs = self.metadata.behavior, self.metadata.inputs
        feed = {o.input: graph_value(o, observations[o.name]) for o in behavior.observations}
        rows = len(next(iter(feed.values())))
        if inputs.action_mask is not None:
            mask = np.ones((rows, sum(behavior.discrete)), np.bool_) if mask is None else mask
            feed[inputs.action_mask] = mask.astype(_dtype(self._inputs[inputs.action_mask]))
        if inputs.memory is not None:
            memory = np.zeros((rows, behavior.memory_size), np.float32) if memory is None else memory
            feed[inputs.memory] = memory.reshape(rows, *self._inputs[inputs.memory].shape[1:])
        if inputs.epsilon is not None:
            epsilon = np.zeros((rows, inputs.epsilon_size), np.float32) if epsilon is None else epsilon
            feed[inputs.epsilon] = epsilon
        feed |= {name: np.zeros((rows, *shape), np.float32) for name, shape in inputs.unused.items()}
        results = self._session.run(list(self._outputs.values()), feed)
        named = dict(zip(self._outputs, results, strict=True))
        if "memory" in named:
            named["memory"] = named["memory"].reshape(rows, -1)
        return named


def _dtype(tensor: Any) -> type[np.generic]:
    return np.bool_ if tensor.type == "tensor(bool)" else np.float32
