"""Exporters as plugins: their records, the ``export`` block of a file, and what commands show of them."""

from __future__ import annotations

import json

import pytest

from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

ACME = """
import attrs
from rlcore import ExporterSpec, hookimpl
from rlcore.settings import ExportSettings, setting

@attrs.frozen(kw_only=True)
class ChipSettings(ExportSettings):
    bits: int = setting(8, "Bits of a weight.", minimum=1, maximum=32)

@hookimpl
def rlcore_exporters():
    return [
        ExporterSpec(
            name="chip", target="a:b", settings="acme_rl_acme_hooks:ChipSettings", suffix=".bin", summary="for chips"
        ),
        ExporterSpec(name="flash", target="a:b", suffix=".bin", summary="for flash memories"),
    ]
"""


@pytest.fixture(autouse=True)
def acme(installed_plugin: InstallPlugin) -> None:
    """The plugin is installed."""
    installed_plugin("acme", "acme-rl", "1.0", ACME)


def test_commands_show_exporters_and_their_settings(run_rlcore: RunRlcore) -> None:
    assert "exporter:chip" in run_rlcore("plugins", "list", "--provides").stdout
    shown = run_rlcore("plugins", "info", "chip").stdout
    assert "exporter chip: for chips" in shown and "suffix .bin" in shown
    assert "bits = 8  Bits of a weight." in shown and "checkpoints = False" in shown
    schema = json.loads(run_rlcore("schema").stdout)
    block, names = schema["properties"]["export"]["anyOf"]
    assert names["type"] == "array" and "chip" in names["items"]["enum"]
    assert block["additionalProperties"] is False
    acme = {f"{prefix}{name}" for prefix in ("", "acme-rl/") for name in ("chip", "flash")}
    ours = {f"{prefix}{name}" for prefix in ("", "rlcore-onnx/") for name in ("onnx", "web")}
    assert set(block["properties"]) == acme | ours
    assert block["properties"]["chip"]["description"] == "for chips"
