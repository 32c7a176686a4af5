"""A file that is not its policy, or not a valid model, is not written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rlcore_onnx.exporter
from rlcore import PluginError
from rlcore_onnx.conversion import LOGITS

Tamper = Callable[[onnx.ModelProto], None]


def changed_weights(model: onnx.ModelProto) -> None:
    """Every matrix of the network, by one part in a thousand."""
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.ndim > 1 and array.dtype == np.float32 and tensor.name != "discrete_action_output_shape":
            tensor.CopyFrom(numpy_helper.from_array(array * np.float32(1.001), tensor.name))


def returning(output: str, other: str) -> Tamper:
    """Give ``output`` the value of the tensor ``other``."""

    def tamper(model: onnx.ModelProto) -> None:
        next(node for node in model.graph.node if node.output[0] == output).output[0] = "unused"
        model.graph.node.append(helper.make_node("Identity", [other], [output]))

    return tamper


def unmasked(model: onnx.ModelProto) -> None:
    """Ignore the mask."""
    node = next(node for node in model.graph.node if "action_mask" in node.input)
    node.op_type = "Identity"
    logits = node.input[1]
    del node.input[:]
    node.input.append(logits)


def tampered(monkeypatch: pytest.MonkeyPatch, tamper: Tamper) -> None:
    convert = rlcore_onnx.exporter.convert

    def converted(*arguments: Any) -> Any:
        model, metadata = convert(*arguments)
        tamper(model)
        return model, metadata

    monkeypatch.setattr(rlcore_onnx.exporter, "convert", converted)


@pytest.mark.parametrize(
    ("network", "actions", "tamper"),
    [
        ("mlp", "continuous", changed_weights),
        ("lstm", "hybrid", changed_weights),
        ("mlp", "discrete", unmasked),
        ("mlp", "continuous", returning("continuous", "deterministic_continuous")),
        ("mlp", "discrete", returning("deterministic_discrete", "discrete")),
        ("lstm", "continuous", returning("memory_out", "memory")),
    ],
)
def test_a_file_that_differs_from_its_policy_is_not_written(
    make_policy: Any, export: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    network: str, actions: str, tamper: Tamper,
) -> None:  # fmt: skip
    policy = make_policy(network, actions)
    export(policy)
    tampered(monkeypatch, tamper)
    with pytest.raises(PluginError, match=r"onnxruntime (and the policy differ by|chose option)"):
        export(policy)
    assert len(list((tmp_path / "exported").iterdir())) == 1


def test_a_model_that_breaks_the_standard_is_refused(
    make_policy: Any, export: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def wrong_shape(model: onnx.ModelProto) -> None:
        model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 7

    def no_operator(model: onnx.ModelProto) -> None:
        model.graph.node[0].op_type = "NoSuchOperator"

    for tamper in (wrong_shape, no_operator):
        with monkeypatch.context() as patch:
            tampered(patch, tamper)
            with pytest.raises(PluginError, match="not a valid ONNX model"):
                export(make_policy("mlp", "continuous"))
    assert not list((tmp_path / "exported").iterdir())


def test_unitys_trial_run_is_a_part_of_the_check(
    make_policy: Any, export: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def divided_by_the_mask(model: onnx.ModelProto) -> None:
        """Divide the logits by the largest number of the mask: 1, unless nothing is allowed."""
        nodes = list(model.graph.node)
        place = next(k for k, node in enumerate(nodes) if node.output[0] == LOGITS)
        nodes[place].output[0] = "before"
        nodes[place + 1 : place + 1] = [
            helper.make_node("ReduceMax", ["action_masks"], ["largest"], axes=[1]),
            helper.make_node("Div", ["before", "largest"], [LOGITS]),
        ]
        del model.graph.node[:]
        model.graph.node.extend(nodes)

    tampered(monkeypatch, divided_by_the_mask)
    with pytest.raises(PluginError, match="not finite where every option is forbidden"):
        export(make_policy("mlp", "discrete"), profile="unity")
    assert not list((tmp_path / "exported").iterdir())


def test_the_tolerance_is_that_of_the_settings(make_policy: Any, export: Any) -> None:
    export(make_policy("mlp", "continuous"), tolerance=1e-6)
    with pytest.raises(PluginError, match=r"more than tolerance \(1e-12\)"):
        export(make_policy("mlp", "continuous"), tolerance=1e-12)
