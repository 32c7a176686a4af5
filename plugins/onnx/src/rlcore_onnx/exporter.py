"""The exporter ``onnx``. Creating it imports everything an export needs, so that nothing is found missing later."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.errors import ConfigError
from rlcore.exporters import ExportAbout
from rlcore_onnx.packages import missing_packages
from rlcore_onnx.settings import OnnxSettings

if TYPE_CHECKING:
    from rlcore import RunContext
    from rlcore.environment import BehaviorSpec
    from rlcore.policy import Policy

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
        warn_of_foreign_modules(run)
        self.settings = settings
        import_module("rlcore_onnx.file")

    def export(self, policy: Policy, behavior: BehaviorSpec, path: Path, about: ExportAbout) -> str:
        """Write the file ``path``, and compare it with ``policy``; return how much both differ."""
        from rlcore_onnx.file import write_checked

        written = write_checked(policy, behavior, path, about, self.settings)
        return (
            f"profile {self.settings.profile}, opset {written.opset}; onnxruntime and the policy differ by at most "
            f"{written.difference:.2g}"
        )


def warn_of_foreign_modules(run: RunContext) -> None:
    """Warn if the configuration has encoders or distributions of other packages, and onnxscript is missing."""
    found = []
    for name, settings in run.config.behaviors.items():
        network = settings.network_settings
        records = [*network.encoders.values(), network.distribution]
        foreign = [each.described for each in records if each is not None and not each.target.startswith("rlcore.")]
        found += [f"{described} of behavior {name!r}" for described in foreign]
    if found and missing_packages(("onnxscript",)):
        run.logger("onnx").warning(
            "an export of %s may need onnxscript; pip install 'rlcore-onnx[torch-export]'", " and ".join(found)
        )
