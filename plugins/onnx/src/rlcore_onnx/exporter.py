"""The exporter ``onnx``. Importing it imports everything an export needs, so that nothing is found missing later."""

from __future__ import annotations

from pathlib import Path

from rlcore import BehaviorSpec, ExportAbout, Policy, RunContext, policy_module
from rlcore_onnx.check import Comparison, check_structure, with_output
from rlcore_onnx.conversion import LOGITS, convert
from rlcore_onnx.metadata import signed
from rlcore_onnx.session import Session, open_model
from rlcore_onnx.settings import OnnxSettings

__all__ = ["OnnxExporter"]


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
        module = policy_module(policy)
        model, metadata = convert(module, behavior, about, settings.profile)
        check_structure(model)
        content = signed(model.SerializeToString())
        extra = {}
        compared = content
        has_logits = any(LOGITS in node.output for node in model.graph.node)
        if has_logits:
            compared = with_output(content, LOGITS, behavior.mask_size)
            extra = {"logits": LOGITS}
        session = Session(open_model(compared), metadata, extra)
        comparison = Comparison(session, policy, module, behavior, settings.tolerance)
        difference = comparison.run()
        path.write_bytes(content)
        opset = model.opset_import[0].version
        return (
            f"profile {settings.profile}, opset {opset}; onnxruntime and the policy differ by at most {difference:.2g}"
        )
