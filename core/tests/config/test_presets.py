"""``preset: NAME``: values of a plugin that lie under those of the file, and the behavior that a file may leave out."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import yaml

from rlcore import ConfigErrors, PluginError, Preset, RunConfig, dump_config
from rlcore.config.load import load_config, load_document
from rlcore.config.overrides import apply_overrides
from rlcore.config.presets import preset_lines
from rlcore.config.reading import document_from_mapping, parse_document
from rlcore_devkit import json_schema

CALM = {
    "environment": {"type": "lone", "num_envs": 8, "options": {"speed": 2}},
    "default_settings": {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 64, "buffer_size": 512, "learning_rate": 0.001},
        "time_horizon": 32,
    },
}
START = "preset: calm\nenvironment: {id: Robot-v3}\n"


def make(name: str, values: str) -> Preset:
    return Preset(name=name, target=f"fake:{values}", summary="values", source="measured by none")


@pytest.fixture
def plugins(plugins: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, values in {
        "Calm": CALM,
        "Mistyped": {"default_settings": {"trainer_type": "ppo", "hyperparameters": {"batch_sise": 64}}},
        "Choosing": {"plugins": {"disable": ["ppo"]}},
        "Nested": {"preset": "calm"},
        "Number": 5,
        "Object": {"default_settings": {"max_steps": object()}},
        "Wide": {"default_settings": {"trainer_type": "other", "hyperparameters": {"tau": 0.5}}},
        "Patient": {"default_settings": {"trainer_type": "ppo", "reward_signals": {"extrinsic": {"gamma": 0.999}}}},
    }.items():
        monkeypatch.setattr(f"fake.{name}", values, raising=False)
    names = ("Calm", "Mistyped", "Choosing", "Nested", "Number", "Object", "Absent")
    plugins._records += [make(name.lower(), name) for name in names]
    return plugins


def messages(text: str, plugins: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigErrors) as caught:
        load_config(parse_document(text, "c.yaml"), plugins)
    assert caught.value.exit_code == 2
    return caught.value.messages


def test_two_lines_are_a_configuration(load: Any) -> None:
    config: RunConfig = load(START)
    behavior = config.behaviors["Robot"]
    assert list(config.behaviors) == ["Robot"]
    assert (behavior.trainer_type, behavior.time_horizon, behavior.hyperparameters.batch_size) == ("ppo", 32, 64)
    assert behavior.hyperparameters.learning_rate == 0.001 and behavior.hyperparameters.beta == 5e-3  # its default
    assert config.environment is not None and config.environment.type == "lone"
    assert (config.num_envs, config.environment.options) == (8, {"speed": 2})


@pytest.mark.parametrize(
    ("more", "sets", "batch_size"),
    [
        ("default_settings: {hyperparameters: {batch_size: 128}}", [], 128),
        ("behaviors: {Robot: {hyperparameters: {batch_size: 128}}}", [], 128),
        (
            "default_settings: {hyperparameters: {batch_size: 32}}\n"
            "behaviors: {Robot: {hyperparameters: {batch_size: 128}}}",
            [],
            128,
        ),
        ("", ["default_settings.hyperparameters.batch_size=128"], 128),
        ("", ["behaviors.Robot.hyperparameters.batch_size=128"], 128),
        ("default_settings: null", [], 64),
        ("behaviors: {}", [], 64),
    ],
)
def test_every_key_that_the_user_gives_wins(load: Any, more: str, sets: list[str], batch_size: int) -> None:
    behavior = load(START + more, sets).behaviors["Robot"]
    assert (behavior.hyperparameters.batch_size, behavior.hyperparameters.buffer_size) == (batch_size, 512)


def test_the_number_of_environments_may_be_given_in_each_of_its_ways(load: Any) -> None:
    start = "preset: calm\nbehaviors: {B: {}}\n"
    assert load(start + "environment: {num_envs: 3}").num_envs == 3
    assert load(start + "environment: {}\nenv_settings: {num_envs: 3}").num_envs == 3
    assert load(start + "environment: {}\nenv_settings: {seed: 3}").num_envs == 8


def test_a_file_without_an_environment_gets_none_from_a_preset(load: Any) -> None:
    assert load("preset: calm\nbehaviors: {B: {}}").environment is None


def test_the_configuration_of_a_run_has_the_values_and_no_preset(load: Any, plugins: Any) -> None:
    config = load(START + "evaluation: {interval: 100}")
    data = dump_config(config)
    assert data["preset"] == config.preset == "none" and data["default_settings"]["hyperparameters"]["batch_size"] == 64
    plugins._records = [record for record in plugins._records if record.kind != "preset"]
    assert load_config(document_from_mapping(data), plugins) == config
    assert config.evaluation.environment.options == {"speed": 2}


def test_without_a_preset_nothing_is_merged(load: Any) -> None:
    assert load("preset: null\nbehaviors: {B: {}}") == load("behaviors: {B: {}}")


def test_an_unknown_preset_is_answered_with_the_known_ones_and_the_nearest(plugins: Any) -> None:
    plugins._records = [each for each in plugins._records if each.kind != "preset" or each.name in ("calm", "nested")]
    text = "environment: {id: Robot-v3}\npreset: clam\n"
    assert messages(text, plugins) == (
        "c.yaml:2: preset: unknown preset 'clam'; allowed: calm, nested; did you mean 'calm'?",
    )
    assert messages("preset: [calm]\nbehaviors: {B: {}}", plugins) == (
        "c.yaml:1: preset: unknown preset \"['calm']\"; allowed: calm, nested; did you mean 'calm'?",
    )


def test_a_preset_may_be_named_with_its_distribution(load: Any) -> None:
    assert load(START.replace("calm", "rlcore-fake/calm")) == load(START)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("default_settings: {trainer_type: other}", "c.yaml:3: default_settings.trainer_type"),
        ("behaviors: {A: {trainer_type: ppo}, B: {trainer_type: other}}", "c.yaml:3: behaviors.B.trainer_type"),
    ],
)
def test_a_preset_of_another_trainer_is_refused_with_one_message(plugins: Any, more: str, key: str) -> None:
    assert messages(START + more, plugins) == (
        f"{key}: preset 'calm' is for trainer 'ppo', not 'other'; delete this key, or choose a preset of that trainer",
    )


def test_the_trainer_of_a_preset_may_be_repeated_in_either_form(load: Any) -> None:
    for name in ("ppo", "rlcore-fake/ppo"):
        assert load(START + f"default_settings: {{trainer_type: {name}}}").behaviors["Robot"].time_horizon == 32


def test_an_error_in_a_preset_names_the_preset_as_its_place(plugins: Any) -> None:
    (first, *_) = messages("preset: mistyped\nbehaviors: {B: {}}", plugins)
    assert first.startswith("preset mistyped (rlcore-fake): default_settings.hyperparameters.batch_sise: unknown key")
    text = START + "behaviors:\n  Robot:\n    hyperparameters: {buffer_size: 32}\n"
    (only,) = messages(text, plugins)  # the rule is between a value of the preset and one of the file
    assert only == (
        "preset calm (rlcore-fake): default_settings.hyperparameters.batch_size: must be at most buffer_size (32) "
        "(inherited by behaviors.Robot)"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("choosing", "plugins and preset cannot be among its keys"),
        ("nested", "plugins and preset cannot be among its keys"),
        ("number", "to read fake:Number"),
        ("object", "default_settings.max_steps: must be plain data"),
        ("absent", "fake has no 'Absent'"),
    ],
)
def test_a_preset_that_is_no_part_of_a_configuration_is_its_plugins_error(plugins: Any, name: str, said: str) -> None:
    with pytest.raises(PluginError, match=f"^preset '{name}' of plugin 'fake' .*{said}"):
        load_config(parse_document(START.replace("calm", name), "c.yaml"), plugins)


def values(text: str, plugins: Any, *sets: str) -> set[str]:
    document = apply_overrides(parse_document(text, "c.yaml"), sets)
    (line,) = preset_lines(load_document(document, plugins)[1])
    assert line.startswith("calm (rlcore-fake): ")
    return set(line.removeprefix("calm (rlcore-fake): ").split(", "))


def test_the_line_of_a_preset_has_the_values_that_come_from_it(plugins: Any) -> None:
    given = {"type lone", "speed 2", "trainer_type ppo", "buffer_size 512", "time_horizon 32"}
    assert values(START, plugins) == given | {"num_envs 8", "batch_size 64", "learning_rate 0.001"}
    own = START + "default_settings: {hyperparameters: {batch_size: 32}}"
    sets = ("behaviors.Robot.hyperparameters.learning_rate=1", "environment.num_envs=2")
    assert values(own, plugins, *sets) == given
    assert not [*preset_lines(load_document(parse_document("behaviors: {B: {}}", "c.yaml"), plugins)[1])]


def test_the_schema_knows_presets(plugins: Any) -> None:
    check = jsonschema.Draft202012Validator(json_schema(plugins))
    inherits = START + "default_settings: {hyperparameters: {batch_size: 32}}"
    for text in (START, inherits, "preset: rlcore-fake/calm", "preset: null\nbehaviors: {B: {}}"):
        assert check.is_valid(yaml.safe_load(text)), text
    for text in ("preset: none\nbehaviors: {B: {}}", "environment: {id: Robot-v3}", "behaviors: {B: {preset: calm}}"):
        assert check.is_valid(yaml.safe_load(text)), text
    for text in ("preset: clam", "preset: 5", "behaviors: {B: {preset: clam}}", "acme: {}"):
        assert not check.is_valid(yaml.safe_load(text)), text


# ---------------------------------------------------------------- the behavior that a file may leave out


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        ("CartPole-v1", "CartPole"),
        ("ALE/Pong-v5", "Pong"),
        ("ale_py:ALE/Pong-v5", "Pong"),
        ("mine.games:Grid-World-v12", "Grid-World"),
        ("Nameless", "Nameless"),
        ("MiniGrid-Empty-5x5-v0", "MiniGrid-Empty-5x5"),
        ("a b/c d-v1", "c_d"),
    ],
)
def test_a_behavior_that_nothing_names_is_named_after_the_environment(load: Any, env_id: str, name: str) -> None:
    defaults = "default_settings: {time_horizon: 7}\n"
    config = load(f"{defaults}environment: {{type: lone, id: '{env_id}'}}")
    assert list(config.behaviors) == [name] and config.behaviors[name].time_horizon == 7
    again = load(f"{defaults}environment: {{type: rlcore-fake/lone, id: '{env_id}'}}\nbehaviors: null")
    assert again.behaviors == config.behaviors


def test_an_environment_with_names_and_one_without_an_id_get_no_behavior(load: Any, plugins: Any) -> None:
    assert load("default_settings: {}\nenvironment: {type: grid, id: X-v1}").behaviors == {}
    for environment in ("{type: lone}", "{type: lone, id: null}", "{type: lone, id: ''}"):
        (only,) = messages(f"default_settings: {{}}\nenvironment: {environment}", plugins)
        assert only.endswith("there must be one entry, not none")
    (only,) = messages("default_settings: {}\nenvironment: {type: loan, id: X-v1}", plugins)
    assert "unknown environment 'loan'" in only and only.endswith("did you mean 'lone'?")


def test_a_file_without_settings_gets_no_behavior(plugins: Any) -> None:
    (only,) = messages("environment: {type: lone, id: X-v1}", plugins)
    assert only == "c.yaml: behaviors: missing; list a behavior, or give default_settings or a preset"


def test_none_is_the_trainers_defaults(load: Any) -> None:
    config: RunConfig = load("preset: none\nenvironment: {id: Robot-v3, type: lone}\ndefault_settings: {}")
    assert config.preset == "none" and config.behaviors["Robot"].time_horizon == 64


# ---------------------------------------------------------------- a preset for each behavior


def test_each_behavior_may_have_a_preset_of_its_own(load: Any, plugins: Any) -> None:
    plugins._records.append(make("wide", "Wide"))
    config: RunConfig = load(
        "default_settings: {hyperparameters: {batch_size: 16}, trainer_type: ppo, summary_freq: 7}\n"
        "behaviors:\n"
        "  A: {preset: calm, time_horizon: 9}\n"
        "  B: {preset: wide, trainer_type: other}\n"
        "  C: {preset: none}\n"
        "  D: {}\n"
    )
    calm, wide, plain, unnamed = (config.behaviors[name] for name in "ABCD")
    assert (calm.hyperparameters.batch_size, calm.hyperparameters.buffer_size, calm.time_horizon) == (16, 512, 9)
    assert (wide.trainer_type, wide.hyperparameters.tau, wide.summary_freq) == ("other", 0.5, 7)
    assert plain.hyperparameters == unnamed.hyperparameters and plain.hyperparameters.buffer_size == 10240
    assert config.environment is None  # the copies are those of a preset for all


def test_the_preset_of_a_behavior_adds_no_reward_to_those_that_the_file_lists(load: Any, plugins: Any) -> None:
    plugins._records.append(make("patient", "Patient"))
    config: RunConfig = load(
        "behaviors:\n"
        "  A: {preset: patient, reward_signals: {bonus: {scale: 1}}}\n"
        "  B: {preset: patient, reward_signals: {bonus: {scale: 1}, extrinsic: {strength: 2.0}}}\n"
        "  C: {preset: patient}\n"
        "  D: {preset: patient, reward_signals: {}}\n"
    )
    rewards = {name: behavior.reward_signals for name, behavior in config.behaviors.items()}
    assert [list(rewards[name]) for name in "ABCD"] == [["bonus"], ["bonus", "extrinsic"], ["extrinsic"], ["extrinsic"]]
    assert rewards["B"]["extrinsic"].strength == 2.0
    assert {rewards[name]["extrinsic"].gamma for name in "BCD"} == {0.999}
    (only,) = messages("behaviors: {A: {preset: patient, reward_signals: 5}}", plugins)
    assert only.startswith("c.yaml:1: behaviors.A.reward_signals: must be a mapping")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "preset: calm\nbehaviors: {A: {preset: calm}}",
            "c.yaml:2: behaviors.A.preset: is a second one, beside that of",
        ),
        (
            "default_settings: {preset: calm}",
            "c.yaml:1: default_settings.preset: is not read here; give preset once, at",
        ),
        ("behaviors: {A: {preset: clam}}", "c.yaml:1: behaviors.A.preset: unknown preset 'clam'"),
        (
            "behaviors: {A: {preset: calm, trainer_type: other}}",
            "c.yaml:1: behaviors.A.trainer_type: preset 'calm' is for trainer 'ppo', not 'other'; delete this key",
        ),
        (
            "default_settings: {trainer_type: other}\nbehaviors: {A: {preset: calm}}",
            "c.yaml:1: default_settings.trainer_type: preset 'calm' is for trainer 'ppo', not 'other'; delete this key",
        ),
    ],
)
def test_a_preset_of_a_behavior_that_cannot_be_is_refused(plugins: Any, text: str, said: str) -> None:
    (only,) = messages(text, plugins)
    assert only.startswith(said)
