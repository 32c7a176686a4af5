"""Exporters as plugins: their records, the ``export`` block of a file, and what commands show of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlcore import ExporterSpec
from rlcore.errors import PluginError
from rlcore.plugins import Plugins
from rlcore.testing.fixtures import InstallPlugin, RunRlcore

ACME = """
import attrs
from rlcore import ExporterSpec, TrainerSpec, hookimpl
from rlcore.settings import ExportSettings, setting

@attrs.frozen(kw_only=True)
class ChipSettings(ExportSettings):
    bits: int = setting(8, "Bits of a weight.", minimum=1, maximum=32)

@attrs.frozen(kw_only=True)
class Lonely:
    bits: int = setting(8, "Bits of a weight.")

@hookimpl
def rlcore_trainers():
    return [TrainerSpec(name="walker", target="a:b", settings="rlcore.settings:TorchSettings")]

@hookimpl
def rlcore_exporters():
    return [
        ExporterSpec(
            name="chip", target="a:b", settings="acme_rl_acme_hooks:ChipSettings", suffix=".bin", summary="for chips"
        ),
        ExporterSpec(name="flash", target="a:b", suffix=".bin", summary="for flash memories"),
        ExporterSpec(name="lonely", target="a:b", settings="acme_rl_acme_hooks:Lonely", suffix=".lonely"),
    ]
"""
VALID = ["valid, but `rlcore run` needs an environment block: environment: {type: gymnasium, id: CartPole-v1}"]
FILE = "behaviors:\n  B: {trainer_type: walker}\nexport:\n"


@pytest.fixture
def validate(installed_plugin: InstallPlugin, run_rlcore: RunRlcore, tmp_path: Path) -> Any:
    """``validate("  chip: {bits: 4}")``: what ``rlcore validate`` prints about a file with this ``export`` block."""
    installed_plugin("acme", "acme-rl", "1.0", ACME)

    def check(block: str, *options: str) -> list[str]:
        path = tmp_path / "acme.yaml"
        path.write_text(FILE + block + "\n")
        checked = run_rlcore("validate", path, *options)
        text = checked.stdout + checked.stderr
        return [line.replace(f"{path}:", "").strip() for line in text.splitlines()]

    return check


@pytest.mark.parametrize(
    "block", ["  chip: {}", "  chip: {bits: 16, checkpoints: true}", "  acme-rl/chip: {}", "  flash: {}", "  {}"]
)
def test_an_exporter_that_is_installed_may_be_named(validate: Any, block: str) -> None:
    assert validate(block) == VALID


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("  chpi: {}", "4: export.chpi: unknown exporter 'chpi'; allowed: chip, flash, lonely; did you mean 'chip'?"),
        ("  chip: {bits: 64}", "4: export.chip.bits: must be at most 32, not 64"),
        ("  chip: {bit: 4}", "4: export.chip.bit: unknown key; did you mean 'bits'? (allowed: checkpoints, bits)"),
        ("  chip: {checkpoints: always}", "4: export.chip.checkpoints: must be true or false, not 'always'"),
        ("  flash: false", "4: export.flash: must be a mapping of settings, not false"),
        ("  - chip", "3: export: must be a mapping from names to settings, not ['chip']"),
        ("  onnx: {}", "4: export.onnx: not supported yet: ONNX files, which the plugin rlcore-onnx is to provide"),
        (
            "  chip: {}\n  flash: {}",
            "5: export.flash: writes files with the ending .bin, as export.chip does; delete one of them",
        ),
        (
            "  chip: {}\n  acme-rl/chip: {}",
            "5: export.acme-rl/chip: writes files with the ending .bin, as export.chip does; delete one of them",
        ),
    ],
)
def test_a_mistake_in_the_block_is_reported_at_its_key(validate: Any, block: str, problem: str) -> None:
    assert validate(block) == [problem]


def test_a_block_of_another_name_is_answered_with_the_name(validate: Any, tmp_path: Path) -> None:
    (line,) = validate("  {}\nexporters: {chip: {}}")
    assert line.startswith("5: exporters: unknown key; did you mean 'export'?")


def test_settings_of_another_kind_are_an_error_of_the_plugin(validate: Any) -> None:
    (line,) = validate("  lonely: {}")
    of = "exporter 'lonely' of plugin 'acme' (acme-rl 1.0)"
    assert line == f"error: 4: export.lonely: {of}: its settings class Lonely is not an ExportSettings"


@pytest.mark.parametrize("how", ["no:acme", "no:acme-rl/acme"])
def test_an_exporter_of_a_plugin_that_is_off_names_the_plugin(validate: Any, how: str) -> None:
    lines = validate("  chip: {}", "-p", how)
    (line,) = [line for line in lines if "export.chip" in line]
    assert "unknown exporter 'chip'" in line
    assert line.endswith("turned off: plugin 'acme' (acme-rl 1.0); -p acme turns it on")


def test_two_plugins_with_one_name_must_be_told_apart(validate: Any, installed_plugin: InstallPlugin) -> None:
    installed_plugin("twin", "acme-twin", "1.0", ACME.replace("walker", "runner").replace(".bin", ".twin"))
    (line,) = validate("  chip: {}")
    assert "exporter 'chip' is provided by plugin 'acme' (acme-rl 1.0) and plugin 'twin' (acme-twin 1.0)" in line
    assert line.endswith("write export: acme-rl/chip or acme-twin/chip")
    assert validate("  acme-twin/flash: {}") == VALID


def test_commands_show_exporters_and_their_settings(validate: Any, run_rlcore: RunRlcore) -> None:
    assert "exporter:chip" in run_rlcore("plugins", "list", "--provides").stdout
    shown = run_rlcore("plugins", "info", "chip").stdout
    assert "exporter chip: for chips" in shown and "ending .bin" in shown
    assert "bits = 8  Bits of a weight." in shown and "checkpoints = False" in shown
    schema = json.loads(run_rlcore("validate", "--schema").stdout)
    block = schema["properties"]["export"]
    assert block["additionalProperties"] is False
    assert set(block["properties"]) == {
        f"{prefix}{name}" for prefix in ("", "acme-rl/") for name in ("chip", "flash", "lonely")
    }
    assert block["properties"]["chip"]["description"] == "for chips"


@pytest.mark.parametrize("suffix", ["onnx", "", ".", "..onnx", ".a/b", 3])
def test_a_suffix_is_an_ending_of_file_names(suffix: Any) -> None:
    with pytest.raises(ValueError, match=r"ExporterSpec 'chip': suffix .* must be an ending of file names"):
        ExporterSpec(name="chip", target="a:b", suffix=suffix)
    assert ExporterSpec(name="chip", target="a:b", suffix=".tar.gz").suffix == ".tar.gz"


def test_what_is_created_must_be_an_exporter(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("json.made_by_this_test", lambda settings, run: object(), raising=False)
    spec = ExporterSpec(name="chip", target="json:made_by_this_test", suffix=".bin")
    with pytest.raises(PluginError, match="which is not a Exporter: it lacks export"):
        plugins.create_exporter(spec, None, None)  # type: ignore[arg-type]
