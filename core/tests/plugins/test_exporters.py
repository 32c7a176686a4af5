"""Exporters as plugins: their records, the ``export`` block of a file, and what commands show of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import ConfigError, ExporterSpec, apply_overrides, dump_config
from rlcore.config.load import load_config, load_plugins_for, used_references
from rlcore.config.reading import parse_document
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
BLOCKS = yaml.safe_load((Path(__file__).parent / "data/export_blocks.yaml").read_text(encoding="utf-8"))
VALID = "valid, but `rlcore run` needs an environment block: environment: {type: gymnasium, id: CartPole-v1}"


@pytest.fixture(autouse=True)
def acme(installed_plugin: InstallPlugin) -> None:
    """The plugin is installed."""
    installed_plugin("acme", "acme-rl", "1.0", ACME)


def load(block: str, sets: tuple[str, ...] = ()) -> Any:
    """The complete configuration of a file with this block."""
    document = apply_overrides(parse_document("behaviors:\n  B: {trainer_type: walker}\n" + block, "acme.yaml"), sets)
    return load_config(document, load_plugins_for(document))


@pytest.mark.parametrize("case", BLOCKS, ids=lambda case: case["block"])
def test_what_is_said_of_a_block(case: dict[str, Any], run_rlcore: RunRlcore, tmp_path: Path) -> None:
    path = tmp_path / "acme.yaml"
    block = "".join(f"  {line}\n" for line in case["block"].splitlines())
    path.write_text(f"behaviors:\n  B: {{trainer_type: walker}}\nexport:\n{block}")
    checked = run_rlcore("validate", path)
    (line,) = (checked.stdout + checked.stderr).replace("lonely, onnx;", "lonely;").splitlines()  # rlcore-onnx's
    assert line.replace(f"{path}:", "").strip() == (case["said"] or VALID)


def test_commands_show_exporters_and_their_settings(run_rlcore: RunRlcore) -> None:
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


@pytest.mark.parametrize(
    "sets", [["export.chip.bits=4"], ["export=[chip]", "export.chip.bits=4"], ["export={chip: {bits: 4}}"]]
)
def test_settings_of_an_exporter_in_a_list_can_be_set(sets: Any) -> None:
    assert load("export: [chip]", sets).export["chip"].bits == 4


def test_a_list_of_exporters_is_a_mapping_with_their_defaults() -> None:
    short, long = load("export: [acme-rl/chip]"), load("export: {acme-rl/chip: {}}")
    assert short == long and short.export["acme-rl/chip"].bits == 8
    assert dump_config(short)["export"] == {"acme-rl/chip": {"checkpoints": False, "bits": 8}}
    assert load("export: []").export == load("").export == {}
    alone = load("export: [acme-rl/chip]\nplugins: {autoload: false, enable: [acme]}")
    assert list(alone.export) == ["acme-rl/chip"]
    assert used_references(parse_document("export: [acme-rl/chip, other]", "x")) == ("acme-rl/chip",)


def test_the_schema_accepts_what_loading_accepts(run_rlcore: RunRlcore) -> None:
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
