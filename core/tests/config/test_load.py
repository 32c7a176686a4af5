"""From text to a RunConfig: the rules, and one line per error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlcore.config.document import Document
from rlcore.config.load import config_from_mapping, load_config, plugin_settings
from rlcore.config.problems import ConfigErrors
from rlcore.config.reading import parse_document
from rlcore.errors import ConfigError
from rlcore.plugins import core as builtin
from rlcore.plugins.call import Plugins
from rlcore.settings import EnvironmentSettings, RunConfig, SettingError

Load = Callable[..., RunConfig]
Errors = Callable[..., list[str]]

BEHAVIOR = "behaviors:\n  B:\n    trainer_type: ppo\n"


def test_a_misspelt_key_names_file_line_path_nearest_and_allowed(errors: Errors) -> None:
    (message,) = errors(BEHAVIOR + "    hyperparameters:\n      batch_sise: 64\n")
    assert message.startswith(
        "c.yaml:5: behaviors.B.hyperparameters.batch_sise: unknown key; did you mean 'batch_size'? "
        "(allowed: batch_size, buffer_size, "
    )


def test_the_text_of_many_errors_is_the_first_and_a_count(load: Load) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load(BEHAVIOR + "    max_steps: 0\n    summary_freq: 0\n    time_horizon: 0\n")
    assert str(caught.value) == (
        "c.yaml:4: behaviors.B.max_steps: must be at least 1, not 0 (and 2 more; rlcore validate shows all)"
    )
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("written", ["5e5", "'5e5'", "500000.0", "500_000", "5.0e+5"])
def test_whole_numbers_may_be_written_in_any_form(load: Load, written: str) -> None:
    steps = load(BEHAVIOR + f"    max_steps: {written}\n").behaviors["B"].max_steps
    assert steps == 500_000 and type(steps) is int


@pytest.mark.parametrize("written", ["3e-4", "'3e-4'", "0.0003"])
def test_numbers_may_be_written_in_any_form(load: Load, written: str) -> None:
    config = load(BEHAVIOR + f"    hyperparameters: {{learning_rate: {written}}}\n")
    assert config.behaviors["B"].hyperparameters.learning_rate == 3e-4


def test_schedules_left_out_follow_the_plugins_class(load: Load) -> None:
    hyper = load(BEHAVIOR + "    hyperparameters: {learning_rate_schedule: constant}\n").behaviors["B"].hyperparameters
    assert (hyper.beta_schedule, hyper.epsilon_schedule) == ("constant", "constant")


def test_a_behavior_without_a_trainer_type_is_ppo_with_the_extrinsic_reward(load: Load) -> None:
    behavior = load("behaviors: {B: {}}\n").behaviors["B"]
    assert behavior.trainer_type == "ppo" and behavior.hyperparameters.num_epoch == 3
    assert list(behavior.reward_signals) == ["extrinsic"]


# ---------------------------------------------------------------- names that plugins provide


def test_names_may_carry_their_distribution(load: Load) -> None:
    config = load("behaviors: {B: {trainer_type: rlcore-fake/other}}\nstats: {rlcore-fake/jsonl: {path: x}}\n")
    assert config.behaviors["B"].hyperparameters.tau == 0.005
    assert config.stats["rlcore-fake/jsonl"].path == "x"


def test_writers_are_settings_or_false(load: Load) -> None:
    assert load(BEHAVIOR + "stats: {jsonl: false, console: {}}\n").stats == {"jsonl": False, "console": None}


def test_a_section_left_out_has_its_defaults(load: Load) -> None:
    assert load(BEHAVIOR).sections["acme"].ratio == 0.5
    assert load(BEHAVIOR + "acme: {ratio: 1}\n").sections["acme"].ratio == 1.0


def test_options_are_free_form_unless_the_environment_has_settings(load: Load) -> None:
    config = load(BEHAVIOR + "environment: {id: X-v0, options: {anything: [1, {a: b}]}}\n")
    assert config.environment is not None and config.environment.options == {"anything": [1, {"a": "b"}]}
    config = load(BEHAVIOR + "environment: {type: grid}\n")
    assert config.environment is not None and config.environment.options.size == 3


# ---------------------------------------------------------------- default_settings


def test_default_settings_are_merged_deep_under_each_behavior(load: Load) -> None:
    config = load(
        "default_settings:\n"
        "  trainer_type: ppo\n"
        "  max_steps: 100\n"
        "  hyperparameters: {batch_size: 32, num_epoch: 5}\n"
        "  network_settings: {hidden_units: 16}\n"
        "  reward_signals: {bonus: {scale: 2}}\n"
        "behaviors:\n"
        "  A: {max_steps: 7, hyperparameters: {batch_size: 64}, reward_signals: {extrinsic: {gamma: 0.9}}}\n"
        "  B: {}\n"
    )
    a, b = config.behaviors["A"], config.behaviors["B"]
    assert (a.max_steps, b.max_steps) == (7, 100)
    assert (a.hyperparameters.batch_size, a.hyperparameters.num_epoch) == (64, 5)
    assert a.network_settings.hidden_units == 16
    assert set(a.reward_signals) == {"bonus", "extrinsic"}
    assert b == config.default_settings


# ---------------------------------------------------------------- rules between keys


def test_default_settings_alone_are_enough(load: Load) -> None:
    assert load("default_settings: {}\n").behaviors == {}


@pytest.mark.parametrize(
    "text",
    [
        "environment: {num_envs: 4}\n",
        "environment: {}\nenv_settings: {num_envs: 4}\n",
        "environment: {num_envs: 4}\nenv_settings: {num_envs: 4}\n",
    ],
)
def test_either_key_gives_num_envs(load: Load, text: str) -> None:
    config = load(BEHAVIOR + text)
    assert config.environment is not None
    assert (config.environment.num_envs, config.num_envs) == (4, 4)


def test_num_envs_is_one_unless_it_is_given(load: Load) -> None:
    config = load(BEHAVIOR + "environment: {}\n")
    assert config.environment is not None and config.environment.num_envs == 1
    assert load(BEHAVIOR).num_envs == RunConfig().num_envs == 1


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "a..b", "", "-x", "x" * 101, "é", "a b", "a\n", "C:\\x"])
def test_names_that_become_paths_are_refused(plugins: Any, name: str) -> None:
    files: list[dict[str, Any]] = [
        {"behaviors": {name: {}}},
        {"behaviors": {"B": {}}, "checkpoint_settings": {"run_id": name}},
        {"behaviors": {"B": {}}, "checkpoint_settings": {"initialize_from": name}},
    ]
    for data in files:
        with pytest.raises(ConfigErrors, match="1 to 100 letters, digits") as caught:
            config_from_mapping(data, plugins)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a\0b", r"'a\x00b' has a NUL character"),
        ("r\udcff", r"'r\udcff' is not UTF-8, so a configuration with it could"),
    ],
)
@pytest.mark.parametrize("block", [{"checkpoint_settings": {"results_dir": 0}}, {"behaviors": {"B": {"init_path": 0}}}])
def test_a_text_that_no_path_or_file_can_hold_is_refused(plugins: Any, block: Any, value: str, said: str) -> None:
    data = json.loads(json.dumps({"behaviors": {"B": {}}} | block).replace("0", json.dumps(value)))
    with pytest.raises(ConfigErrors) as caught:
        config_from_mapping(data, plugins)
    key = "behaviors.B.init_path" if block.keys() == {"behaviors"} else "checkpoint_settings.results_dir"
    assert str(caught.value).startswith(f"{key}: {said}")


# ---------------------------------------------------------------- not supported yet


def test_the_file_ml_agents_wrote_is_valid(sample: Document, plugins: Any) -> None:
    config = load_config(sample, plugins)
    lessons = config.environment_parameters["pole_length"].curriculum.lessons
    assert [lesson["name"] for lesson in lessons] == ["Short", "Mid", "Long"]
    assert config.behaviors["B"].hyperparameters.learning_rate == 3e-4
    assert config.default_settings is None and config.environment is None


# ---------------------------------------------------------------- other ways in


def test_python_data_is_checked_without_a_file_in_the_message(plugins: Any) -> None:
    with pytest.raises(ConfigErrors) as caught:
        config_from_mapping({"default_settings": {"max_steps": 0}, "behaviors": {"B": {}}}, plugins)
    assert str(caught.value) == "default_settings.max_steps: must be at least 1, not 0"
    assert config_from_mapping({"behaviors": {"B": {"max_steps": 5}}}, plugins).behaviors["B"].max_steps == 5


def test_local_plugin_files_are_found_from_anywhere_afterwards(plugins: Any, tmp_path: Path) -> None:
    text = "behaviors: {B: {}}\nplugins: {local: [./hooks.py, module:b.py, module:acme.hooks]}\n"
    config = load_config(parse_document(text, str(tmp_path / "c.yaml")), plugins)
    assert config.plugins.local == [str(tmp_path / "hooks.py"), str(tmp_path / "b.py"), "acme.hooks"]


def test_the_plugins_block_is_read_alone() -> None:
    document = parse_document("plugins: {disable: [x]}\nnonsense: 1\n", "c.yaml")
    assert plugin_settings(document).disable == ["x"]
    with pytest.raises(ConfigError, match=r"c\.yaml:2: plugins\.disable: must be a list, not 'x'"):
        plugin_settings(parse_document("plugins:\n  disable: x\n", "c.yaml"))


def test_a_bare_core_names_every_package_that_is_missing_at_once() -> None:
    data = {
        "environment": {"type": "gymnasium"},
        "behaviors": {"CartPole": {"trainer_type": "ppo"}},
    }
    core = Plugins()
    core.register(builtin, "core")
    with pytest.raises(ConfigErrors) as caught:
        config_from_mapping(data, core)
    assert str(caught.value).endswith("; for all of it: pip install rlcore-ppo rlcore-gymnasium")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("reward", ["curiosity", "gail", "rnd"])
def test_a_reward_of_ml_agents_names_the_package_that_has_it(reward: str) -> None:
    core = Plugins()
    core.register(builtin, "core")
    with pytest.raises(ConfigErrors) as caught:
        config_from_mapping({"default_settings": {"reward_signals": {reward: {}}}}, core)
    found = next(text for text in caught.value.messages if "reward_signals" in text)
    assert found.startswith(f"default_settings.reward_signals.{reward}: unknown reward provider {reward!r}; allowed: ")
    assert "pip install rlcore-intrinsic" in found


def test_a_settings_error_carries_the_field_and_reads_alone() -> None:
    error = SettingError("low", "must be less than high (3)", others=("high",))
    assert (error.field, error.problem, error.others) == ("low", "must be less than high (3)", ("high",))
    assert str(error) == "low: must be less than high (3)" and isinstance(error, ConfigError)
    with pytest.raises(SettingError, match=r"^EnvironmentSettings\.num_envs: must be at least 1, not 0$") as caught:
        EnvironmentSettings(num_envs=0)
    assert caught.value.field == "num_envs"
