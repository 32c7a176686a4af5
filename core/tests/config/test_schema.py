"""The JSON Schema accepts and refuses what loading does, plugins' settings included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore.config.document import Document
from rlcore.config.dump import dump_config
from rlcore.config.load import config_from_mapping
from rlcore.config.reading import parse_document
from rlcore.config.schema import json_schema
from rlcore.plugins.call import load_plugins

jsonschema = pytest.importorskip("jsonschema")

DATA = Path(__file__).parent / "data"
VALID = yaml.safe_load((DATA / "valid.yaml").read_text(encoding="utf-8"))
REFUSALS = yaml.safe_load((DATA / "refusals.yaml").read_text(encoding="utf-8"))
INVALID = [case["input"] for case in REFUSALS["the schema refuses this too"]]


@pytest.fixture
def schema(plugins: Any) -> dict[str, Any]:
    return json_schema(plugins)


@pytest.fixture
def check(schema: dict[str, Any]) -> Any:
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("text", VALID)
def test_what_loads_the_schema_accepts(check: Any, plugins: Any, text: str) -> None:
    data = parse_document(text, "c.yaml").data
    config = config_from_mapping(data, plugins)
    check.validate(data)
    check.validate(dump_config(config))


@pytest.mark.parametrize("text", INVALID)
def test_what_is_refused_the_schema_refuses(check: Any, text: str) -> None:
    assert not check.is_valid(parse_document(text, "c.yaml").data)


def test_the_file_ml_agents_wrote_fits(check: Any, sample: Document) -> None:
    assert list(check.iter_errors(sample.data)) == []


def test_every_key_has_a_description_and_plugins_defaults_are_there(schema: dict[str, Any]) -> None:
    missing = [path for path, field in fields(schema) if not field.get("description")]
    assert missing == []
    settings = next(value for name, value in schema["$defs"].items() if name.endswith("PPOLike"))["properties"]
    assert settings["num_epoch"]["default"] == 3 and settings["num_epoch"]["minimum"] == 1
    assert settings["learning_rate_schedule"]["enum"] == ["linear", "constant"]
    self_play = schema["$defs"]["BehaviorSettings"]["properties"]["self_play"]
    assert self_play == {"type": "null", "description": "Needs a plugin: pip install rlcore-ghost"}


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, block in [("", schema), *schema["$defs"].items()]:
        for key, field in block["properties"].items():
            yield f"{name}.{key}", field


def test_the_schema_of_the_installed_plugins_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema(load_plugins()))
