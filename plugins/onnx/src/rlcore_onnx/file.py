"""Writes one file and checks it."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import helper

from rlcore import BehaviorSpec, ExportAbout, Policy, UnsupportedExport, policy_module
from rlcore_onnx.check import Comparison, check_structure
from rlcore_onnx.conversion import convert
from rlcore_onnx.graph import BATCH
from rlcore_onnx.metadata import signed
from rlcore_onnx.session import Session
from rlcore_onnx.settings import OnnxSettings

__all__ = ["write_checked"]


def write_checked(
    policy: Policy, behavior: BehaviorSpec, path: Path, about: ExportAbout, settings: OnnxSettings
) -> str:
    """Write ``policy`` as the file ``path``, and return how much the file differs from it.

    A file that fails a check is deleted.

    Raises UnsupportedExport for a policy that the profile cannot have, and PluginError for a failed check.
    """
    module = policy_module(policy)
    converted = convert(module, behavior, about, settings.profile)
    size = converted.model.ByteSize()
    if size > onnx.checker.MAXIMUM_PROTOBUF:
        raise UnsupportedExport(f"the policy needs {size / 2**30:.1f} GiB, and one ONNX file can have 2 GiB")
    check_structure(converted.model)
    path.write_bytes(signed(converted.model.SerializeToString()))
    try:
        written = path.read_bytes()
        session = Session(written, converted.metadata)
        logits = None
        if converted.logits is not None:
            shown = with_output(written, converted.logits, behavior.mask_size)
            logits = Session(shown, converted.metadata, converted.logits)
        difference = Comparison(session, logits, policy, module, behavior, settings.tolerance).run()
    except BaseException:
        path.unlink()
        raise
    opset = converted.model.opset_import[0].version
    return f"profile {settings.profile}, opset {opset}; onnxruntime and the policy differ by at most {difference:.2g}"


def with_output(written: bytes, tensor: str, size: int) -> bytes:
    """Return a model in which ``tensor`` [B, size] is an output too."""
    model = onnx.load_model_from_string(written)
    model.graph.output.append(helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, [BATCH, size]))
    return bytes(model.SerializeToString())
