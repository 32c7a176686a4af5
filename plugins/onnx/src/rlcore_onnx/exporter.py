"""The exporter ``onnx``. Importing it imports everything an export needs, so that nothing is found missing later."""

from __future__ import annotations

from pathlib import Path

import attrs

from rlcore import BehaviorSpec, ExportAbout, Policy, RunContext, policy_module
from rlcore_onnx.check import Comparison, check_structure, with_output
from rlcore_onnx.conversion import LOGITS, convert
from rlcore_onnx.metadata import Metadata, signed
from rlcore_onnx.session import Session, open_model
from rlcore_onnx.settings import OnnxSettings

__all__ = ["OnnxExporter"]


@attrs.frozen
class CheckedFile:
    """An ONNX file that was compared with its policy.

    Attributes:
        content: The file.
        with_logits: The same model, with the masked logits as an output if it computes them.
        has_logits: Whether it computes them.
        metadata: The metadata of the file.
        opset: The operator set of the file.
        difference: The largest difference between onnxruntime and the policy.
    """

    content: bytes = attrs.field(repr=False)
    with_logits: bytes = attrs.field(repr=False)
    has_logits: bool
    metadata: Metadata
    opset: int
    difference: float


def checked_file(
    policy: Policy, behavior: BehaviorSpec, about: ExportAbout, profile: str, tolerance: float
) -> CheckedFile:
    """Return ``policy`` as an ONNX file of a profile.

    Raises UnsupportedExport for a policy that the profile or ONNX cannot have, and PluginError for a file that fails a
    check.
    """
    module = policy_module(policy)
    model, metadata = convert(module, behavior, about, profile)
    check_structure(model)
    content = signed(model.SerializeToString())
    extra = {}
    compared = content
    has_logits = any(LOGITS in node.output for node in model.graph.node)
    if has_logits:
        compared = with_output(content, LOGITS, behavior.mask_size)
        extra = {"logits": LOGITS}
    session = Session(open_model(compared), metadata, extra)
    comparison = Comparison(session, policy, module, behavior, tolerance)
    difference = comparison.run()
    opset = model.opset_import[0].version
    return CheckedFile(content, compared, has_logits, metadata, opset, difference)


class OnnxExporter:
    """Writes policies as ONNX files, and checks each file before it leaves it."""

    def __init__(self, settings: OnnxSettings, run: RunContext) -> None:
        self.settings = settings

    def export(self, policy: Policy, behavior: BehaviorSpec, path: Path, about: ExportAbout) -> str:
        """Write the file ``path``, and return how much it differs from ``policy``.

        Raises UnsupportedExport for a policy that the profile or ONNX cannot have, and PluginError for a file that
        fails a check.
        """
        settings = self.settings
        checked = checked_file(policy, behavior, about, settings.profile, settings.tolerance)
        path.write_bytes(checked.content)
        return (
            f"profile {settings.profile}, opset {checked.opset}; onnxruntime and the policy differ by at most "
            f"{checked.difference:.2g}"
        )
