"""The hook of rlcore-onnx. rlcore imports this module at every start, so it must import neither onnx nor PyTorch."""

from __future__ import annotations

from rlcore import ExporterSpec, hookimpl


@hookimpl
def rlcore_exporters() -> list[ExporterSpec]:
    return [
        ExporterSpec(
            name="onnx",
            target="rlcore_onnx.exporter:OnnxExporter",
            settings="rlcore_onnx.settings:OnnxSettings",
            suffix=".onnx",
            summary="ONNX files for Unity, for Godot and for any ONNX runtime",
        ),
        ExporterSpec(
            name="web",
            target="rlcore_onnx.web.exporter:WebExporter",
            settings="rlcore_onnx.settings:WebSettings",
            suffix=".html",
            only_by_name=True,
            summary="pages in which a policy plays its task: CartPole and others of classic control",
        ),
    ]
