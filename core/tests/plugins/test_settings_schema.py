"""The JSON Schema of the settings of each record, which ``rlcore plugins info --json`` has too."""

from __future__ import annotations

import json
from typing import Any

import attrs
import jsonschema

from rlcore import SettingsSchema, load_plugins
from rlcore_devkit.fixtures import RunRlcore


def test_the_schemas_of_all_settings_are_valid_and_accept_defaults_and_no_unknown_key() -> None:
    plugins = load_plugins()
    schemas: dict[str, Any] = {}
    for record in [each for kind in plugins.kinds for each in plugins.records(kind)]:
        for attribute in ("settings", "parameters"):
            if getattr(record, attribute, None) and attrs.has(record.resolve(attribute)):
                schemas[getattr(record, attribute)] = SettingsSchema(plugins).document(record.resolve(attribute))
    assert len(schemas) > 3
    for name, schema in schemas.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        block = schema["$defs"][schema["$ref"].rpartition("/")[2]]
        for key, part in block["properties"].items():
            if part.get("default") is not None:
                jsonschema.Draft202012Validator({**part, "$defs": schema["$defs"]}).validate(part["default"])
            assert part.get("description"), f"{name}.{key}"
        assert not jsonschema.Draft202012Validator(schema).is_valid({"no_such_key": 1})


def test_the_report_of_a_plugin_has_the_schema(run_rlcore: RunRlcore) -> None:
    (report,) = json.loads(run_rlcore("plugins", "info", "core", "--json").stdout)
    (extrinsic,) = [each for each in report["records"] if each["name"] == "extrinsic"]
    schema = extrinsic["settings"]["schema"]
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"gamma": 0.9}) and not validator.is_valid({"gamma": 2})
    assert "schema" not in run_rlcore("plugins", "info", "core").stdout
