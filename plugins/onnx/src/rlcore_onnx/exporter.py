"""The exporter ``onnx``. Creating it imports everything an export needs, so that nothing is found missing later."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore import ConfigError, ExportAbout, UnsupportedExport, policy_module
from rlcore_onnx.packages import missing_packages
from rlcore_onnx.settings import OnnxSettings

if TYPE_CHECKING:
    from rlcore import BehaviorSpec, Policy, RunContext

__all__ = ["OnnxExporter"]

PACKAGES = ("onnx", "onnxruntime")


class OnnxExporter:
    """Writes policies as ONNX files, and checks each file before it leaves it."""

    def __init__(self, settings: OnnxSettings, run: RunContext) -> None:
        """Raise ConfigError if a package that every export needs is missing."""
        missing = missing_packages(PACKAGES)
        if missing:
            raise ConfigError(
                f"exporter 'onnx' needs packages that cannot be imported: {', '.join(missing)}; pip install rlcore-onnx"
            )
        self.settings = settings
        import_module("rlcore_onnx.file")

    def check(self, policy: Policy, behavior: BehaviorSpec) -> None:
        """Raise ConfigError if ``policy`` has parts that only torch.onnx converts, and onnxscript is missing."""
        if not missing_packages(("onnxscript",)):
            return
        from rlcore_onnx.conversion import convert
        from rlcore_onnx.torch_export import MissingPackage

        about = ExportAbout(
            run_id="", step=0, behavior_steps=0, trainer_type="", rlcore_version="", configuration_sha256=""
        )
        try:
            convert(policy_module(policy), behavior, about, self.settings.profile)
        except MissingPackage as error:
            raise ConfigError(f"behavior {behavior.name!r} cannot be exported: {error}") from error
        except UnsupportedExport:  # no package would change this: the export says so
            pass

    def export(self, policy: Policy, behavior: BehaviorSpec, path: Path, about: ExportAbout) -> str:
        """Write the file ``path``, and compare it with ``policy``; return how much both differ."""
        from rlcore_onnx.file import write_checked

        return write_checked(policy, behavior, path, about, self.settings)
