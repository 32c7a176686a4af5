"""Every configuration of ``data/loads.yaml``: its settings, what is written of it, and the JSON schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rlcore import Document, RunConfig, config_from_mapping, load_config, load_plugins
from rlcore.config.dump import dump_config, plain
from rlcore.config.reading import parse_document
from rlcore_devkit import json_schema

DATA = Path(__file__).parent / "data"
RULES = yaml.safe_load((DATA / "loads.yaml").read_text(encoding="utf-8"))
CASES = [
    pytest.param(case, id=f"{rule} {index}" if index else rule)
    for rule, cases in RULES.items()
    for index, case in enumerate(cases)
]
REFUSALS = yaml.safe_load((DATA / "refusals.yaml").read_text(encoding="utf-8"))
INVALID = [case["input"] for case in REFUSALS["the schema refuses this too"]]


@pytest.fixture(scope="module")
def schema(plugins_once: Any) -> dict[str, Any]:
    return json_schema(plugins_once)


@pytest.fixture(scope="module")
def check(schema: dict[str, Any]) -> Any:
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def at(found: Any, path: str) -> Any:
    """Return the value at a path of keys and attributes, as plain data."""
    for part in path.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    return plain(found, ())


def same(found: Any, wanted: Any) -> bool:
    return json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)  # not ==: 1, 1.0 and true are equal


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_has_these_settings(
    load: Callable[..., RunConfig], plugins: Any, check: Any, case: dict[str, Any]
) -> None:
    flags = {tuple(key.split(".")): value for key, value in case.get("flags", {}).items()}
    config = load(case["input"], case.get("sets", ()), flags)
    written = dump_config(config)
    for found, wanted in ((config, case.get("loads", {})), (written, case.get("written", {}))):
        for path, value in wanted.items():
            assert same(at(found, path), value), (path, at(found, path), value)
    assert "records:" not in yaml.safe_dump(written)
    if case.get("but_for") != "again":
        again = config_from_mapping(written, plugins)
        assert again == config and same(dump_config(again), written)
    if case.get("but_for") != "schema":
        check.validate(parse_document(case["input"], "c.yaml").data)
        check.validate(written)


@pytest.mark.parametrize("text", INVALID)
def test_what_is_refused_the_schema_refuses(check: Any, text: str) -> None:
    assert not check.is_valid(parse_document(text, "c.yaml").data)


def test_the_file_ml_agents_wrote_is_valid(sample: Document, plugins: Any, check: Any) -> None:
    assert list(check.iter_errors(sample.data)) == []
    config = load_config(sample, plugins)
    lessons = config.environment_parameters["pole_length"].curriculum.lessons
    assert [lesson["name"] for lesson in lessons] == ["Short", "Mid", "Long"]
    assert config.behaviors["B"].hyperparameters.learning_rate == 3e-4
    assert config.default_settings is None and config.environment is None


def test_every_key_has_a_description_and_plugins_defaults_are_there(schema: dict[str, Any]) -> None:
    missing = [path for path, field in fields(schema) if not field.get("description")]
    assert missing == []
    settings = next(value for name, value in schema["$defs"].items() if name.endswith("PPOLike"))["properties"]
    assert settings["num_epoch"]["default"] == 3 and settings["num_epoch"]["minimum"] == 1
    assert settings["learning_rate_schedule"]["enum"] == ["linear", "constant"]


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, block in [("", schema), *schema["$defs"].items()]:
        for key, field in block["properties"].items():
            yield f"{name}.{key}", field


def test_the_schema_of_the_installed_plugins_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema(load_plugins()))
