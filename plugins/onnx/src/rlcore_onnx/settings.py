"""The blocks ``export.onnx`` and ``export.web``.

This module imports neither onnx nor PyTorch: checking a configuration imports it.
"""

from __future__ import annotations

import attrs

from rlcore import ExportSettings, setting


@attrs.frozen(kw_only=True)
class OnnxSettings(ExportSettings):
    """Settings of the exporter ``onnx``. The field ``checkpoints`` comes from ExportSettings."""

    profile: str = setting(
        "generic",
        "Names and layouts of inputs and outputs: those of the behavior (generic), those that Unity's ML-Agents "
        "package reads (unity), or those that the plugin Godot RL Agents reads (godot).",
        choices=("generic", "unity", "godot"),
    )
    tolerance: float = setting(
        1e-5,
        "Largest difference between the file, computed by onnxruntime, and the policy, relative to the numbers that "
        "the network makes, and to at least 1. A file that differs more is not kept.",
        exclusive_minimum=0.0,
    )


@attrs.frozen(kw_only=True)
class WebSettings(ExportSettings):
    """Settings of the exporter ``web``. The field ``checkpoints`` comes from ExportSettings."""

    environment: str | None = setting(
        None, "Id of the Gymnasium environment that the page shows; by default that of the run.", foreign=True
    )
    runtime: str | None = setting(
        None,
        "The archive that `npm pack onnxruntime-web` writes, or a directory with the unpacked package; by default the "
        "archive in the working directory, or node_modules/onnxruntime-web.",
    )
    tolerance: float = setting(
        1e-5, "Largest difference between the page and the policy, as for export.onnx.", exclusive_minimum=0.0
    )
