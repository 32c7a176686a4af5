"""The JSON Schema accepts and refuses what loading does, plugins' settings included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rlcore.config.document import Document
from rlcore.config.dump import dump_config
from rlcore.config.load import config_from_mapping
from rlcore.config.reading import parse_document
from rlcore.config.schema import json_schema
from rlcore.errors import ConfigError
from rlcore.plugins.call import load_plugins

jsonschema = pytest.importorskip("jsonschema")


@pytest.fixture
def schema(plugins: Any) -> dict[str, Any]:
    return json_schema(plugins)


@pytest.fixture
def check(schema: dict[str, Any]) -> Any:
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


VALID = [
    "behaviors: {B: {}}",
    "default_settings: {max_steps: 5e5}",
    "behaviors: {B: {trainer_type: ppo, hyperparameters: {learning_rate: 3e-4, batch_size: '64', widths: [1]}}}",
    "behaviors: {B: {trainer_type: rlcore-fake/other, hyperparameters: {tau: 0.1, extras: {a: 1}}}}",
    "behaviors: {B: {reward_signals: {bonus: {scale: 1}, extrinsic: {network_settings: {init: orthogonal}}}}}",
    "behaviors: {B: {network_settings: {vis_encode_type: deep, vis_encode_settings: {channels: 2}}}}",
    "behaviors: {B: {network_settings: {vector_encode_type: rlcore-fake/deep, vis_encode_settings: null}}}",
    "behaviors: {B: {network_settings: {vector_encode_type: null, hidden_layers: [8, 4], critic: {hidden_units: 3}}}}",
    "behaviors: {B: {}}\nstats: {jsonl: {path: x}, console: {}, rlcore-fake/jsonl: false}",
    "behaviors: {B: {}}\nenvironment: {type: grid, options: {size: 4}, num_envs: null}",
    "behaviors: {B: {}}\nenvironment: {options: {anything: [1]}}",
    "behaviors: {B: {}}\nenvironment: {type: grid, parameters: {a: {cell: 0}}}\nenvironment_parameters: {a: 1}",
    "behaviors: {B: {}}\nenvironment: {type: gymnasium, parameters: {}}\nenvironment_parameters: {a: 1}",
    "behaviors: {B: {}}\nenvironment: {type: grid}\nenv_settings: {num_envs: 4}",
    "behaviors: {B: {}}\nenvironment: {type: grid}\nevaluation: {interval: 9, environment: {options: {size: 7}}}",
    "behaviors: {B: {}}\nevaluation: {interval: 9, environment: {type: grid, num_envs: 2}}",
    "behaviors: {B: {}}\nacme: {project: null}\nplugins: {enable: [x]}\ntorch_settings: {device: cpu}",
]
INVALID = [
    "env_settings: {seed: 1}",
    "behaviors: {B: {max_step: 5}}",
    "behaviors: {B: {max_steps: true}}",
    "behaviors: {B: {max_steps: 0}}",
    "behaviors: {B: {max_steps: many}}",
    "behaviors: {B: {trainer_type: pp}}",
    "behaviors: {'a/b': {}}",
    "behaviors: {B: {trainer_type: ppo, hyperparameters: {tau: 0.1}}}",
    "behaviors: {B: {trainer_type: other, hyperparameters: {num_epoch: 3}}}",
    "behaviors: {B: {reward_signals: {bonus: {}}}}",
    "behaviors: {B: {reward_signals: {rnd: {}}}}",
    "behaviors: {B: {self_play: {window: 3}}}",
    "behaviors: {B: {league: {sizes: 3}}}",
    "behaviors: {B: {sections: {}}}",
    "behaviors: {B: {network_settings: {vis_encode_type: simpel}}}",
    "behaviors: {B: {network_settings: {vector_encode_type: simple}}}",
    "behaviors: {B: {network_settings: {vis_encode_settings: {channels: 2}}}}",
    "behaviors: {B: {network_settings: {vis_encode_type: deep, vis_encode_settings: {chanels: 2}}}}",
    "behaviors: {B: {network_settings: {hidden_layers: [0]}}}",
    "behaviors: {B: {network_settings: {critic: {hidden_units: 0}}}}",
    "behaviors: {B: {reward_signals: {bonus: {scale: 1, network_settings: {vis_encode_type: simpel}}}}}",
    "behaviors: {B: {trainer_type: ppo, hyperparameters: {target_kl: 0}}}",
    "behaviors: {B: {}}\nstats: {console: {color: 1}}",
    "behaviors: {B: {}}\nstats: {jsonl: true}",
    "behaviors: {B: {}}\nenvironment: {type: grid, options: {size: 1}}",
    "behaviors: {B: {}}\nenvironment: {type: grid, parameters: {a: {cell: -1}}}\nenvironment_parameters: {a: 1}",
    "behaviors: {B: {}}\nenvironment: {type: grid, parameters: {a: 3}}\nenvironment_parameters: {a: 1}",
    "behaviors: {B: {}}\nenvironment: {type: gymnasium, parameters: {a: {cell: 0}}}\nenvironment_parameters: {a: 1}",
    "behaviors: {B: {}}\nengine_settings: {width: 100}",
    "behaviors: {B: {}}\nenv_settings: {num_envs: 0}",
    "behaviors: {B: {}}\nenvironment: {type: grid}\nevaluation: {interval: 9, environment: 4}",
    "behaviors: {B: {}}\nsections: {}",
]


@pytest.mark.parametrize("text", VALID)
def test_what_loads_the_schema_accepts(check: Any, plugins: Any, text: str) -> None:
    data = parse_document(text, "c.yaml").data
    config = config_from_mapping(data, plugins)
    check.validate(data)
    check.validate(dump_config(config))


@pytest.mark.parametrize("text", INVALID)
def test_what_is_refused_the_schema_refuses(check: Any, plugins: Any, text: str) -> None:
    data = parse_document(text, "c.yaml").data
    with pytest.raises(ConfigError):
        config_from_mapping(data, plugins)
    assert not check.is_valid(data)


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
