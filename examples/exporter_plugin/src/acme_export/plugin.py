"""The hook that announces the exporter. Imported whenever rlcore starts, so torch is imported with the target."""

from __future__ import annotations

from rlcore import ExporterSpec, hookimpl


@hookimpl
def rlcore_exporters() -> list[ExporterSpec]:
    return [
        ExporterSpec(
            name="pt2",
            target="acme_export.exporter:PT2Exporter",
            settings="acme_export.settings:PT2Settings",
            suffix=".pt2",
            summary="programs of torch.export, which need only PyTorch",
        )
    ]
