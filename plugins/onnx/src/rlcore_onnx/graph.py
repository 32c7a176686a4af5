"""A graph of ONNX operators, built node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

__all__ = ["BATCH", "Graph"]

BATCH = "batch"
"""The name of the first axis of every input and output, whose size is not fixed."""

# The version of the file format: the one of the first release of onnx that has the operator set. A newer one would
# keep older runtimes from reading the file.
IR_VERSIONS = {15: 8, 17: 8, 18: 8}


class Graph:
    """Nodes, constants, inputs and outputs. Tensors are named by strings, as in ONNX.

    Declare all inputs and outputs before the first node, so that no other tensor gets one of their names.
    """

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._taken: set[str] = set()

    def input(self, name: str, dtype: Any, shape: Sequence[int]) -> str:
        """Declare an input [batch, *shape] and return its name."""
        return self._declare(self._inputs, name, dtype, (BATCH, *shape))

    def output(self, name: str, dtype: Any, shape: Sequence[int]) -> str:
        """Declare an output [batch, *shape] and return its name; :meth:`yield_output` gives it its value."""
        return self._declare(self._outputs, name, dtype, (BATCH, *shape))

    def constant_output(self, name: str, value: NDArray[Any]) -> None:
        """Declare an output, of any shape, that is a constant of the graph, so that readers find it as either."""
        self._declare(self._outputs, name, value.dtype, value.shape)
        self._constants.append(numpy_helper.from_array(value, name))

    def _declare(self, values: list[onnx.ValueInfoProto], name: str, dtype: Any, shape: Sequence[int | str]) -> str:
        if name in self._taken:
            raise ValueError(f"{name!r} is the name of another tensor")
        self._taken.add(name)
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        values.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def yield_output(self, name: str, tensor: str) -> None:
        """Make ``tensor`` the value of the output ``name``."""
        self.nodes.append(helper.make_node("Identity", [tensor], [name], name=self.fresh("Identity")))

    def constant(self, value: NDArray[Any]) -> str:
        """Return the name of a constant of any shape; equal constants are stored once."""
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = self.add_constant(numpy_helper.from_array(array, self.fresh("constant")))
        return self._known[key]

    def add_constant(self, tensor: onnx.TensorProto) -> str:
        """Add a constant under the name it has, which :meth:`fresh` made."""
        self._constants.append(tensor)
        return str(tensor.name)

    def number(self, value: float) -> str:
        """Return the name of a constant float32 scalar."""
        return self.constant(np.array(value, np.float32))

    def integers(self, *values: int) -> str:
        """Return the name of a constant list of integers."""
        return self.constant(np.array(values, np.int64))

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result, and return the name of the result."""
        return self.nodes_of(operator, inputs, 1, attributes)[0]

    def nodes_of(self, operator: str, inputs: Sequence[str], results: int, attributes: Mapping[str, Any]) -> list[str]:
        """Add a node with several results, and return their names."""
        name = self.fresh(operator)
        names = [name] if results == 1 else [self.fresh(operator) for _ in range(results)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=f"{name}_node", **attributes))
        return names

    def split(self, tensor: str, sizes: Sequence[int]) -> list[str]:
        """Split the columns of a tensor [batch, columns]."""
        if len(sizes) == 1:
            return [tensor]
        return self.nodes_of("Split", [tensor, self.integers(*sizes)], len(sizes), {"axis": 1})

    def concatenate(self, tensors: Sequence[str]) -> str:
        """Put tensors [batch, columns] side by side."""
        return tensors[0] if len(tensors) == 1 else self.node("Concat", *tensors, axis=1)

    def cast(self, tensor: str, dtype: Any) -> str:
        """Convert a tensor to another type of numbers."""
        return self.node("Cast", tensor, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def fresh(self, name: str) -> str:
        """Return a name that no other tensor has, which begins with ``name``."""
        number = len(self._taken)
        while f"{name}_{number}" in self._taken:
            number += 1
        self._taken.add(f"{name}_{number}")
        return f"{name}_{number}"

    def model(self, name: str, metadata: Mapping[str, str], producer_version: str) -> onnx.ModelProto:
        """Return the model: the graph with its metadata."""
        graph = helper.make_graph(self.nodes, name, self._inputs, self._outputs, self._constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self.opset)],
            ir_version=IR_VERSIONS[self.opset],
            producer_name="rlcore",
            producer_version=producer_version,
        )
        helper.set_model_props(model, dict(metadata))
        return model
