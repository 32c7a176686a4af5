"""A file that is not its policy, or not a valid model, gets no name; missing packages are found before a run starts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rlcore_onnx.file
from rlcore import ConfigError, ExportAbout, PluginError, RunContext
from rlcore.run.export import OpenExporter
from rlcore_onnx.exporter import OnnxExporter
from rlcore_onnx.settings import OnnxSettings

Tamper = Callable[[onnx.ModelProto], None]
ABOUT = ExportAbout(
    run_id="walker", step=500, behavior_steps=300, trainer_type="ppo", rlcore_version="0.1.0",
    configuration_sha256="0" * 64,
)  # fmt: skip


def changed_weights(model: onnx.ModelProto) -> None:
    """Every matrix of the network, by one part in a thousand."""
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.ndim > 1 and array.dtype == np.float32 and tensor.name != "discrete_action_output_shape":
            tensor.CopyFrom(numpy_helper.from_array(array * np.float32(1.001), tensor.name))


def without(operator: str) -> Tamper:
    """Replace the first node of a kind by one that passes its first input through."""

    def tamper(model: onnx.ModelProto) -> None:
        node = next(node for node in model.graph.node if node.op_type == operator)
        node.op_type = "Identity"
        del node.input[1:], node.attribute[:]

    return tamper


def without_output(name: str, other: str) -> Tamper:
    """Give the output ``name`` the value of the output ``other``."""

    def tamper(model: onnx.ModelProto) -> None:
        node, source = (next(n for n in model.graph.node if n.output[0] == each) for each in (name, other))
        node.input[0] = source.input[0]

    return tamper


def stale_memory(model: onnx.ModelProto) -> None:
    """Return the memory before the step."""
    next(node for node in model.graph.node if node.output[0] == "memory_out").input[0] = "memory"


def unmasked(model: onnx.ModelProto) -> None:
    """Ignore the mask."""
    node = next(node for node in model.graph.node if "action_mask" in node.input)
    node.op_type = "Identity"
    logits = node.input[1]
    del node.input[:]
    node.input.append(logits)


def tampered(monkeypatch: pytest.MonkeyPatch, tamper: Tamper) -> None:
    convert = rlcore_onnx.file.convert

    def converted(*arguments: Any) -> Any:
        made = convert(*arguments)
        model = onnx.ModelProto()
        model.CopyFrom(made.model)
        tamper(model)
        return attrs.evolve(made, model=model)

    monkeypatch.setattr(rlcore_onnx.file, "convert", converted)


@pytest.mark.parametrize(
    ("network", "actions", "tamper"),
    [
        ("mlp", "continuous", changed_weights),
        ("mlp", "discrete", changed_weights),
        ("cnn", "branches", changed_weights),
        ("lstm", "hybrid", changed_weights),
        ("mlp", "continuous", without("Sub")),  # the mean of observations
        ("mlp", "discrete", without("Min")),  # their limit
        ("mlp", "discrete", unmasked),
        ("mlp", "continuous", without_output("continuous", "deterministic_continuous")),
        ("mlp", "discrete", without_output("discrete", "deterministic_discrete")),
        ("mlp", "discrete", without_output("deterministic_discrete", "discrete")),
        ("lstm", "continuous", stale_memory),
    ],
)
def test_a_file_that_differs_from_its_policy_is_deleted(
    make_policy: Any, export: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    network: str, actions: str, tamper: Tamper,
) -> None:  # fmt: skip
    policy = make_policy(network, actions)
    export(policy)
    tampered(monkeypatch, tamper)
    with pytest.raises(PluginError, match=r"onnxruntime (and the policy differ by|chose option).*was deleted"):
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
        nodes = model.graph.node
        last = next(k for k, node in enumerate(nodes) if node.op_type == "ArgMax")
        logits = nodes[last].input[0]
        made = [
            helper.make_node("ReduceMax", ["action_masks"], ["largest"], axes=[1]),
            helper.make_node("Div", [f"{logits}_before", "largest"], [logits]),
        ]
        next(node for node in nodes if node.output[0] == logits).output[0] = f"{logits}_before"
        rest = list(nodes[last:])
        del nodes[last:]
        nodes.extend([*made, *rest])

    tampered(monkeypatch, divided_by_the_mask)
    with pytest.raises(PluginError, match="not finite where every option is forbidden; the file was deleted"):
        export(make_policy("mlp", "discrete"), profile="unity")
    assert not list((tmp_path / "exported").iterdir())


def test_the_tolerance_is_that_of_the_settings(make_policy: Any, export: Any) -> None:
    export(make_policy("mlp", "continuous"), tolerance=1e-6)
    with pytest.raises(PluginError, match=r"more than tolerance \(1e-12\)"):
        export(make_policy("mlp", "continuous"), tolerance=1e-12)


def test_the_report_of_an_export_says_how_much_the_file_differs(
    make_policy: Any, run_context: RunContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through rlcore, which gives the file its name: a file that differs never has it."""
    settings = OnnxSettings(profile="unity")
    opened = OpenExporter(OnnxExporter(settings, run_context), _record(run_context), settings)
    policy, path = make_policy("mlp", "hybrid"), tmp_path / "Walker.onnx"
    report = opened.write(policy, policy.behavior, path, ABOUT, tmp_path)
    assert report is not None
    start, _, number = report.rpartition(" ")
    assert start == "profile unity, opset 15; onnxruntime and the policy differ by at most"
    assert 0 < float(number) < 1e-5
    good = path.read_bytes()
    tampered(monkeypatch, changed_weights)
    with pytest.raises(PluginError, match=r"exporter 'onnx' of .*rlcore-onnx.* differ by"):
        opened.write(policy, policy.behavior, path, ABOUT, tmp_path)
    assert path.read_bytes() == good
    assert [each.name for each in tmp_path.iterdir()] == ["Walker.onnx"]


def _record(run: RunContext) -> Any:
    (record,) = [each for each in run.plugins.records("exporter") if each.name == "onnx"]
    return record


@pytest.mark.parametrize("missing", [("onnx",), ("onnxruntime",), ("onnx", "onnxruntime")])
def test_missing_packages_are_found_when_the_exporter_is_created(
    run_context: RunContext, monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]
) -> None:
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"exporter 'onnx' needs .*; pip install rlcore-onnx$") as caught:
        run_context.plugins.create(_record(run_context), settings=OnnxSettings(), run=run_context)
    assert all(f"{name} (" in str(caught.value) for name in missing)
