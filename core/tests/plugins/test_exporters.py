"""Exporters as plugins: their records, the ``export`` block of a file, and what commands show of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlcore import ExporterSpec
from rlcore.config.dump import dump_config
from rlcore.config.load import load_config, load_plugins_for, used_references
from rlcore.config.reading import parse_document
from rlcore.config.rewriting import apply_overrides
from rlcore.errors import ConfigError, PluginError
from rlcore.plugins.call import Plugins
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

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
        text = (checked.stdout + checked.stderr).replace("lonely, onnx;", "lonely;")  # if rlcore-onnx is installed
        return [line.replace(f"{path}:", "").strip() for line in text.splitlines()]

    return check


@pytest.fixture
def load(installed_plugin: InstallPlugin) -> Any:
    """``load("export: [chip]", sets)``: the complete configuration of a file with this block."""

    def complete(block: str, sets: tuple[str, ...] = ()) -> Any:
        text = "behaviors:\n  B: {trainer_type: walker}\n" + block
        document = apply_overrides(parse_document(text, "acme.yaml"), sets)
        return load_config(document, load_plugins_for(document))

    return complete


@pytest.mark.parametrize(
    "block",
    [
        *("  chip: {}", "  chip: {bits: 16, checkpoints: true}", "  acme-rl/chip: {}", "  flash: {}", "  {}"),
        *("  - chip", "  [acme-rl/flash]", "  []"),
    ],
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
        ("  - chpi", "4: export[0]: unknown exporter 'chpi'; allowed: chip, flash, lonely; did you mean 'chip'?"),
        ("  - chip\n  - chip", "5: export[1]: 'chip' is in the list already; delete one of them"),
        (
            "  - chip\n  - flash",
            "5: export[1]: writes files with the ending .bin, as export.chip does; delete one of them",
        ),
        (
            "  - flash\n  - chip: {bits: 4}",
            "5: export[1]: must be the name of an exporter, not {'chip': {'bits': 4}}; to give settings, write export "
            "as a mapping from exporters to settings",
        ),
        (
            "  - 3",
            "4: export[0]: must be the name of an exporter, not 3; to give settings, write export as a mapping from "
            "exporters to settings",
        ),
        ("  chip", "3: export: must be a list of exporters, or a mapping from exporters to settings, not 'chip'"),
        ("  null", "3: export: must be a list of exporters, or a mapping from exporters to settings, not null"),
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
    block, names = schema["properties"]["export"]["anyOf"]
    assert names["type"] == "array" and names["uniqueItems"] and "chip" in names["items"]["enum"]
    assert block["additionalProperties"] is False
    assert set(block["properties"]) - {"onnx", "rlcore-onnx/onnx"} == {
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


# ------------------------------------------------------------ the short form


def test_a_list_of_exporters_is_a_mapping_with_their_defaults(
    installed_plugin: InstallPlugin, load: Any, tmp_path: Path
) -> None:
    installed_plugin("acme", "acme-rl", "1.0", ACME)
    short, long = load("export: [acme-rl/chip]"), load("export: {acme-rl/chip: {}}")
    assert short == long and short.export["acme-rl/chip"].bits == 8
    assert dump_config(short)["export"] == {"acme-rl/chip": {"checkpoints": False, "bits": 8}}
    assert load("export: []").export == load("").export == {}


def test_the_plugin_of_an_exporter_in_a_list_is_loaded_without_autoload(
    installed_plugin: InstallPlugin, load: Any
) -> None:
    installed_plugin("acme", "acme-rl", "1.0", ACME)
    config = load("export: [acme-rl/chip]\nplugins: {autoload: false, enable: [acme]}")
    assert list(config.export) == ["acme-rl/chip"]
    assert used_references(parse_document("export: [acme-rl/chip, other]", "x")) == ("acme-rl/chip",)


@pytest.mark.parametrize(
    "sets", [["export.chip.bits=4"], ["export=[chip]", "export.chip.bits=4"], ["export={chip: {bits: 4}}"]]
)
def test_settings_of_an_exporter_in_a_list_can_be_set(
    installed_plugin: InstallPlugin, load: Any, sets: list[str]
) -> None:
    installed_plugin("acme", "acme-rl", "1.0", ACME)
    assert load("export: [chip]", sets).export["chip"].bits == 4


def test_the_schema_accepts_what_loading_accepts(
    installed_plugin: InstallPlugin, load: Any, run_rlcore: RunRlcore
) -> None:
    installed_plugin("acme", "acme-rl", "1.0", ACME)
    schema = json.loads(run_rlcore("validate", "--schema").stdout)
    Validator = pytest.importorskip("jsonschema").Draft202012Validator
    Validator.check_schema(schema)
    behaviors = {"B": {"trainer_type": "walker"}}
    for block in (["chip"], [], {}, {"chip": {"bits": 4}}, ["acme-rl/flash"]):
        assert Validator(schema).is_valid({"behaviors": behaviors, "export": block})
    for wrong in (["chpi"], ["chip", "chip"], "chip", None, [{"chip": {}}], {"chip": {"bit": 4}}):
        assert not Validator(schema).is_valid({"behaviors": behaviors, "export": wrong})
        with pytest.raises(ConfigError):
            load(f"export: {json.dumps(wrong)}")
