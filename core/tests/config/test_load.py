"""From text to a RunConfig: the rules, and one line per error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlcore.builtin import plugin as builtin
from rlcore.config.document import Document
from rlcore.config.load import config_from_mapping, load_config, plugin_settings
from rlcore.config.problems import ConfigErrors
from rlcore.config.reading import parse_document
from rlcore.errors import ConfigError
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


def test_all_errors_are_collected_in_the_order_of_the_file(errors: Errors) -> None:
    messages = errors(
        "torch_settings: {num_threads: 0}\n"
        "behaviors:\n"
        "  B:\n"
        "    max_steps: yes\n"
        "    hyperparameters: {lambd: 2, batch_sise: 1}\n"
        "    trainer_type: ppo\n"
        "    network_settings: {vis_encode_type: simpel}\n"
        "stats: {jsonl: 3}\n"
        "bogus: 1\n"
    )
    assert [message.split(": ")[0:2] for message in messages] == [
        ["c.yaml:1", "torch_settings.num_threads"],
        ["c.yaml:4", "behaviors.B.max_steps"],
        ["c.yaml:5", "behaviors.B.hyperparameters.batch_sise"],
        ["c.yaml:5", "behaviors.B.hyperparameters.lambd"],
        ["c.yaml:7", "behaviors.B.network_settings.vis_encode_type"],
        ["c.yaml:8", "stats.jsonl"],
        ["c.yaml:9", "bogus"],
    ]
    assert all("\n" not in message for message in messages)


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


@pytest.mark.parametrize("written", ["true", "1.5", "'1.5'", "many", "null", "[1]", ".inf", "1e400", "nan", "''"])
def test_what_is_not_a_whole_number_is_refused(errors: Errors, written: str) -> None:
    (message,) = errors(BEHAVIOR + f"    max_steps: {written}\n")
    assert message.startswith("c.yaml:4: behaviors.B.max_steps: must be a whole number, not ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hyperparameters: {shared_critic: 1}", "shared_critic: must be true or false, not 1"),
        ("hyperparameters: {learning_rate: .nan}", "learning_rate: must be a finite number, not nan"),
        ("hyperparameters: {learning_rate: 0}", "learning_rate: must be greater than 0, not 0"),
        ("hyperparameters: {lambd: 1.5}", "lambd: must be at most 1, not 1.5"),
        ("hyperparameters: {target_kl: x}", "target_kl: must be a finite number, not 'x'"),
        ("hyperparameters: {widths: [1, two]}", "widths[1]: must be a whole number, not 'two'"),
        ("hyperparameters: {widths: 3}", "widths: must be a list, not 3"),
        ("hyperparameters: 3", "hyperparameters: must be a mapping of settings, not 3"),
        (
            "hyperparameters: {learning_rate_schedule: linaer}",
            "must be one of linear, constant, not 'linaer'; did you mean 'linear'?",
        ),
        ("reward_signals: {extrinsic: null}", "reward_signals.extrinsic: must be a mapping of settings, not null"),
        ("reward_signals: {extrinsic: {gama: 1}}", "unknown key; did you mean 'gamma'?"),
        ("reward_signals: {bonus: {}}", "reward_signals.bonus.scale: missing; it has no default"),
        ("reward_signals: [extrinsic]", "reward_signals: must be a mapping from names to settings"),
        ("framework: pytorch", "framework: removed: every trainer has its own framework; delete this key"),
    ],
)
def test_a_wrong_value_says_what_is_allowed(errors: Errors, line: str, message: str) -> None:
    (found,) = errors(BEHAVIOR + f"    {line}\n")
    assert found.startswith("c.yaml:4: behaviors.B.") and message in found


def test_text_keys_that_yaml_reads_otherwise_need_quotes(errors: Errors) -> None:
    (message,) = errors(BEHAVIOR + "checkpoint_settings: {run_id: 7}\n")
    assert message == "c.yaml:4: checkpoint_settings.run_id: must be text, not 7; put it in quotes"


def test_the_rule_of_a_plugins_class_is_reported_at_the_field_it_names(errors: Errors) -> None:
    (message,) = errors(BEHAVIOR + "    hyperparameters:\n      buffer_size: 10\n      batch_size: 20\n")
    assert message == "c.yaml:6: behaviors.B.hyperparameters.batch_size: must be at most buffer_size (10)"


def test_schedules_left_out_follow_the_plugins_class(load: Load) -> None:
    hyper = load(BEHAVIOR + "    hyperparameters: {learning_rate_schedule: constant}\n").behaviors["B"].hyperparameters
    assert (hyper.beta_schedule, hyper.epsilon_schedule) == ("constant", "constant")


def test_hyperparameters_without_trainer_type_are_refused(errors: Errors) -> None:
    (message,) = errors("behaviors:\n  B:\n    hyperparameters: {batch_size: 3}\n")
    assert message == "c.yaml:3: behaviors.B.hyperparameters: trainer_type must be given when hyperparameters are"


def test_a_behavior_without_a_trainer_type_is_ppo_with_the_extrinsic_reward(load: Load) -> None:
    behavior = load("behaviors: {B: {}}\n").behaviors["B"]
    assert behavior.trainer_type == "ppo" and behavior.hyperparameters.num_epoch == 3
    assert list(behavior.reward_signals) == ["extrinsic"]


# ---------------------------------------------------------------- names that plugins provide


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "behaviors:\n  B:\n    trainer_type: pp\n",
            "c.yaml:3: behaviors.B.trainer_type: unknown trainer 'pp'; did you",
        ),
        (
            "behaviors: {B: {reward_signals: {extrinsc: {}}}}\n",
            "c.yaml:1: behaviors.B.reward_signals.extrinsc: unknown",
        ),
        (BEHAVIOR + "stats:\n  jsnl: {}\n", "c.yaml:5: stats.jsnl: unknown writer 'jsnl'; did you mean 'jsonl'?"),
        (BEHAVIOR + "stats:\n  jsnl: false\n", "c.yaml:5: stats.jsnl: unknown writer 'jsnl'; did you mean 'jsonl'?"),
        (BEHAVIOR + "environment:\n  type: gym\n", "c.yaml:5: environment.type: unknown environment 'gym'"),
        (BEHAVIOR + "acme: {projet: x}\n", "c.yaml:4: acme.projet: unknown key; did you mean 'project'?"),
    ],
)
def test_an_unknown_name_is_refused_where_it_is_written(errors: Errors, text: str, message: str) -> None:
    (found,) = errors(text)
    assert found.startswith(message)


def test_names_may_carry_their_distribution(load: Load) -> None:
    config = load("behaviors: {B: {trainer_type: rlcore-fake/other}}\nstats: {rlcore-fake/jsonl: {path: x}}\n")
    assert config.behaviors["B"].hyperparameters.tau == 0.005
    assert config.stats["rlcore-fake/jsonl"].path == "x"


def test_writers_are_settings_or_false(load: Load, errors: Errors) -> None:
    assert load(BEHAVIOR + "stats: {jsonl: false, console: {}}\n").stats == {"jsonl": False, "console": None}
    (message,) = errors(BEHAVIOR + "stats: {console: {color: 1}}\n")
    assert message == "c.yaml:4: stats.console.color: unknown key; this writer has no settings"


def test_a_section_left_out_has_its_defaults(load: Load) -> None:
    assert load(BEHAVIOR).sections["acme"].ratio == 0.5
    assert load(BEHAVIOR + "acme: {ratio: 1}\n").sections["acme"].ratio == 1.0


def test_options_are_free_form_unless_the_environment_has_settings(load: Load, errors: Errors) -> None:
    config = load(BEHAVIOR + "environment: {id: X-v0, options: {anything: [1, {a: b}]}}\n")
    assert config.environment is not None and config.environment.options == {"anything": [1, {"a": "b"}]}
    config = load(BEHAVIOR + "environment: {type: grid}\n")
    assert config.environment is not None and config.environment.options.size == 3
    (message,) = errors(BEHAVIOR + "environment: {type: grid, options: {size: 1}}\n")
    assert message == "c.yaml:4: environment.options.size: must be at least 2, not 1"


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


def test_an_error_in_default_settings_is_reported_once_where_it_is_written(errors: Errors) -> None:
    messages = errors("default_settings:\n  max_steps: 0\nbehaviors:\n  A: {}\n  B: {}\n")
    assert messages == ["c.yaml:2: default_settings.max_steps: must be at least 1, not 0"]


def test_a_default_that_does_not_fit_a_behavior_names_the_behavior(errors: Errors) -> None:
    (message,) = errors(
        "default_settings:\n"
        "  trainer_type: ppo\n"
        "  hyperparameters:\n"
        "    num_epoch: 3\n"
        "behaviors:\n"
        "  A: {trainer_type: other}\n"
    )
    assert message.startswith("c.yaml:4: default_settings.hyperparameters.num_epoch: unknown key")
    assert message.endswith("(inherited by behaviors.A)")


# ---------------------------------------------------------------- rules between keys


def test_neither_behaviors_nor_default_settings_is_refused(errors: Errors, load: Load) -> None:
    assert errors("env_settings: {seed: 1}\n") == [
        "c.yaml: behaviors: missing; list a behavior, or give default_settings"
    ]
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


def test_num_envs_is_checked_under_either_key_and_also_without_an_environment(errors: Errors) -> None:
    assert errors(BEHAVIOR + "env_settings:\n  num_envs: 0\n") == [
        "c.yaml:5: env_settings.num_envs: must be at least 1, not 0"
    ]
    assert errors(BEHAVIOR + "environment: {}\nenv_settings: {num_envs: many}\n") == [
        "c.yaml:5: env_settings.num_envs: must be a whole number, not 'many'"
    ]


def test_two_different_num_envs_are_refused(errors: Errors) -> None:
    (message,) = errors(BEHAVIOR + "environment: {num_envs: 4}\nenv_settings: {num_envs: 1}\n")
    assert message.startswith("c.yaml:4: environment.num_envs: conflicts with env_settings.num_envs (1); set only one")


def test_resume_and_initialize_from_exclude_one_another(errors: Errors) -> None:
    (message,) = errors(BEHAVIOR + "checkpoint_settings:\n  resume: true\n  initialize_from: old\n")
    assert message.startswith("c.yaml:6: checkpoint_settings.initialize_from: resume continues a run")


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


@pytest.mark.parametrize("name", ["run", "metadata", "checkpoints", "run_logs", "Configuration.yaml", "metrics.jsonl"])
def test_a_behavior_may_not_have_the_name_of_something_in_a_run(errors: Errors, name: str) -> None:
    (message,) = errors(f"behaviors:\n  {name}: {{}}\n")
    assert message == (
        f"c.yaml:2: behaviors.{name if '.' not in name else repr(name)}: {name!r} is a name that rlcore "
        "uses itself in a run; give the behavior another name"
    )


def test_behaviors_whose_names_differ_in_case_alone_are_refused(errors: Errors) -> None:
    first, second = errors("behaviors:\n  Left: {}\n  left: {}\n")
    assert "'Left' and 'left' differ only in upper and lower case" in first and "'left' and 'Left'" in second


def test_a_team_in_a_behaviors_name_is_refused_with_a_hint(errors: Errors) -> None:
    (message,) = errors("behaviors:\n  Striker?team=1: {}\n")
    assert message == (
        "c.yaml:2: behaviors.'Striker?team=1': a behavior's name has no '?team='; "
        "write 'Striker', one block for all its teams"
    )


# ---------------------------------------------------------------- not supported yet


@pytest.mark.parametrize(
    ("text", "path", "part"),
    [
        ("behaviors: {B: {trainer_type: poca}}", "behaviors.B.trainer_type", "the POCA trainer"),
        ("behaviors: {B: {}}\nengine_settings: {width: 100}", "engine_settings.width", "Unity environments"),
        ("behaviors: {B: {}}\nenvironment: {type: unity}", "environment.type", "Unity environments"),
        ("behaviors: {B: {}}\nenv_settings: {env_path: game}", "env_settings.env_path", "Unity environments"),
        ("behaviors: {B: {}}\nenv_settings: {num_areas: 2}", "env_settings.num_areas", "Unity environments"),
    ],
)
def test_what_ml_agents_knows_and_is_not_built_is_refused_as_such(
    errors: Errors, text: str, path: str, part: str
) -> None:
    (message,) = errors(text)
    assert f" {path}: not supported yet: {part}" in message


def test_imitation_is_refused_beside_a_trainer_that_does_not_imitate(errors: Errors) -> None:
    (message,) = errors("behaviors: {B: {trainer_type: other, behavioral_cloning: {demo_path: x}}}")
    assert "behaviors.B.behavioral_cloning: trainer 'other' does not imitate demonstrations" in message


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


def test_rules_between_fields_are_reported_beside_the_errors_of_other_fields(errors: Errors) -> None:
    text = (
        "behaviors:\n  B?team=0:\n    trainer_type: ppo\n    max_steps: 0\n    hyperparameters:\n"
        "      batch_size: 64\n      buffer_size: 32\n      num_epoch: 0\n      color: red\n"
        "checkpoint_settings: {run_id: a/b}\n"
    )
    found = errors(text)
    assert len(found) == 6
    for line, start in ((2, "behaviors.'B?team=0'"), (6, ""), (8, ""), (9, ""), (10, "checkpoint_settings.run_id")):
        assert any(each.startswith(f"c.yaml:{line}: {start}") for each in found), (line, found)
    assert any("batch_size must be at most buffer_size (32)" in each or "batch_size: must be" in each for each in found)


def test_a_settings_error_carries_the_field_and_reads_alone() -> None:
    error = SettingError("low", "must be less than high (3)", others=("high",))
    assert (error.field, error.problem, error.others) == ("low", "must be less than high (3)", ("high",))
    assert str(error) == "low: must be less than high (3)" and isinstance(error, ConfigError)
    with pytest.raises(SettingError, match=r"^EnvironmentSettings\.num_envs: must be at least 1, not 0$") as caught:
        EnvironmentSettings(num_envs=0)
    assert caught.value.field == "num_envs"


def test_an_error_that_names_no_field_is_at_the_block_and_left_out_beside_others(errors: Errors) -> None:
    text = "behaviors: {B: {}}\nenvironment_parameters: {a: 1}\nenvironment:\n  type: grid\n  parameters:\n"
    assert errors(text + "    a: {cell: 1, wall: x}\n") == [
        "c.yaml:6: environment.parameters.a: give either cell or wall"
    ]
    (message,) = errors(text + "    a: {cell: 1, wall: x, door: y}\n")
    assert message.startswith("c.yaml:6: environment.parameters.a.door: unknown key")


@pytest.mark.parametrize("wrong", ["buffer_size: -1", "bufer_size: 99999"])
def test_a_rule_between_fields_is_not_applied_to_the_default_of_a_refused_field(errors: Errors, wrong: str) -> None:
    text = f"behaviors: {{B: {{trainer_type: ppo, hyperparameters: {{batch_size: 20000, {wrong}}}}}}}\n"
    assert len(errors(text)) == 1
