"""Modules of other packages as nodes: torch.onnx converts them, and their nodes become a part of the graph."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import helper, inliner, numpy_helper, shape_inference
from torch import nn

from rlcore import UnsupportedExport
from rlcore_onnx.graph import Graph
from rlcore_onnx.packages import missing_packages

__all__ = ["MissingPackage", "foreign"]

TORCH_OPSET = 18  # the lowest that torch.onnx writes
ROWS = 3  # of the example; torch.onnx treats sizes 0 and 1 as fixed


class MissingPackage(UnsupportedExport):
    """A policy that could be exported if a package were installed."""


def foreign(graph: Graph, module: nn.Module, what: str, inputs: Mapping[str, NDArray[Any]], results: int) -> list[str]:
    """Add ``module`` to the graph, and return the names of its ``results``.

    ``what`` names the module in messages. ``inputs`` are tensors of the graph, in the order of the module's arguments,
    each with one row [*shape] of an example. All inputs and results have the batch as their first axis. Raises
    UnsupportedExport with the reason if torch.onnx cannot convert the module to operators of the graph's opset, and
    MissingPackage without onnxscript.
    """
    missing = missing_packages(("onnxscript",))
    if missing:
        raise MissingPackage(
            f"{what} is not one of rlcore's, and is converted by torch.onnx, which needs onnxscript; "
            "pip install 'rlcore-onnx[torch-export]'"
        )
    example = tuple(torch.from_numpy(np.stack([row] * ROWS)) for row in inputs.values())
    try:
        with _quiet():
            model = _converted(module.eval(), example, results)
            _require_contract(model, len(inputs), results)
            model = lowered(inliner.inline_local_functions(model), graph.opset)
    except UnsupportedExport as error:
        raise UnsupportedExport(f"{what}: {error}") from error
    except Exception as error:
        raise UnsupportedExport(f"{what} cannot be converted by torch.onnx: {_first_line(error)}") from error
    return _spliced(graph, model, list(inputs))


class _Positional(nn.Module):
    """A module with any number of arguments: torch.onnx describes those of ``*tensors`` as one tuple."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.module(*tensors)


def _converted(module: nn.Module, example: tuple[torch.Tensor, ...], results: int) -> onnx.ModelProto:
    rows = torch.export.Dim("rows")
    program = torch.onnx.export(
        _Positional(module),
        example,
        input_names=[f"input_{k}" for k in range(len(example))],
        output_names=[f"result_{k}" for k in range(results)],
        opset_version=TORCH_OPSET,
        dynamo=True,
        dynamic_shapes=(tuple({0: rows} for _ in example),),
        external_data=False,
        verbose=False,
    )
    assert program is not None
    return program.model_proto


def _require_contract(model: onnx.ModelProto, inputs: int, results: int) -> None:
    """Raise UnsupportedExport unless the model has the names, the free batch and the constants that were asked for."""
    for values, kind, count in ((model.graph.input, "input", inputs), (model.graph.output, "result", results)):
        names = [value.name for value in values]
        if names != [f"{kind}_{k}" for k in range(count)]:
            raise UnsupportedExport(f"torch.onnx made the {kind}s {', '.join(names)}, not {count}")
        for value in values:
            axes = value.type.tensor_type.shape.dim
            if not axes or not axes[0].dim_param:
                raise UnsupportedExport(f"torch.onnx fixed the number of rows of {value.name}")
    if any(each.data_location == onnx.TensorProto.EXTERNAL for each in model.graph.initializer):
        raise UnsupportedExport("torch.onnx wrote constants to other files")
    random = {node.op_type for node in model.graph.node} & RANDOM
    if random:
        raise UnsupportedExport(f"it draws random numbers by itself ({', '.join(sorted(random))})")


RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}


# ---------------------------------------------------------------- an older operator set


def lowered(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Rewrite a model of opset 18 for ``opset``. Raises UnsupportedExport for operators that ``opset`` does not have.

    From 15 to 18, operators got types of numbers, and the forms of Split and of reductions changed.
    """
    domains = {each.domain for each in model.opset_import} - {"", "ai.onnx"}
    used = {node.domain for node in model.graph.node} & domains
    if used:
        raise UnsupportedExport(f"it has operators of {', '.join(sorted(used))}, which are not in the standard")
    made = onnx.ModelProto()
    made.CopyFrom(model)
    if opset < TORCH_OPSET:
        constants = {each.name: numpy_helper.to_array(each) for each in made.graph.initializer}
        shapes = _shapes(made)
        nodes = [_lowered_node(node, constants, shapes) for node in made.graph.node]
        del made.graph.node[:]
        made.graph.node.extend(nodes)
        extra = {name: array for name, array in constants.items() if name.startswith(SIZES)}
        made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in extra.items())
    del made.opset_import[:]
    made.opset_import.append(helper.make_opsetid("", opset))
    del made.graph.value_info[:]
    try:
        onnx.checker.check_model(made, full_check=True)
    except (onnx.checker.ValidationError, shape_inference.InferenceError) as error:
        raise UnsupportedExport(f"it needs a newer operator set than {opset}: {_first_line(error)}") from error
    return made


# Those whose axes became an input in opset 18.
REDUCTIONS = {
    f"Reduce{name}" for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
}
SIZES = "split_sizes_of_"  # names of constants that a Split of opset 13 needs


def _shapes(model: onnx.ModelProto) -> dict[str, list[int]]:
    """The sizes of all tensors; 0 for a size that is not fixed."""
    graph = shape_inference.infer_shapes(model, data_prop=True).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    return {value.name: [axis.dim_value for axis in value.type.tensor_type.shape.dim] for value in values}


def _lowered_node(
    node: onnx.NodeProto, constants: dict[str, NDArray[Any]], shapes: Mapping[str, list[int]]
) -> onnx.NodeProto:
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    inputs = list(node.input)
    if node.op_type == "Split" and "num_outputs" in attributes:
        count = attributes.pop("num_outputs")
        size = shapes[inputs[0]][attributes.get("axis", 0)]
        each = -(-size // count)
        name = f"{SIZES}{node.output[0]}"
        constants[name] = np.array([each] * (count - 1) + [size - each * (count - 1)], np.int64)
        inputs = [inputs[0], name]
    elif node.op_type in REDUCTIONS and not attributes.pop("noop_with_empty_axes", 0) and len(inputs) > 1:
        attributes["axes"] = constants[inputs[1]].tolist()
        inputs = inputs[:1]
    return helper.make_node(node.op_type, inputs, list(node.output), name=node.name, domain=node.domain, **attributes)


# ---------------------------------------------------------------- into the graph


def _spliced(graph: Graph, model: onnx.ModelProto, inputs: Sequence[str]) -> list[str]:
    """Add the nodes of ``model`` to the graph, with names that no other tensor has, and return its results."""
    if any(attribute.g.node or attribute.graphs for node in model.graph.node for attribute in node.attribute):
        raise UnsupportedExport("it has branches or loops that depend on values")
    names = dict(zip([value.name for value in model.graph.input], inputs, strict=True))
    names[""] = ""  # an input that is left out
    for each in model.graph.initializer:
        names[each.name] = graph.fresh("constant")
        constant = onnx.TensorProto()
        constant.CopyFrom(each)
        constant.name = names[each.name]
        constant.ClearField("doc_string")
        graph.add_constant(constant)
    for node in model.graph.node:
        for result in node.output:
            names.setdefault(result, graph.fresh(node.op_type))
        made = helper.make_node(
            node.op_type, [names[each] for each in node.input], [names[each] for each in node.output],
            name=graph.fresh(f"{node.op_type}_node"), domain=node.domain,
        )  # fmt: skip
        made.attribute.extend(node.attribute)
        graph.nodes.append(made)
    return [names[value.name] for value in model.graph.output]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch.onnx from printing what only its authors can use."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _first_line(error: BaseException) -> str:
    """The first line of the error that caused ``error``."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
