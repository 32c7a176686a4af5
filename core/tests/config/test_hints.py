"""Keys in the wrong block, keys and files of older versions of ML-Agents: one message that says what to write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlcore.settings import BehaviorSettings

Errors = Callable[..., list[str]]

BEHAVIOR = "behaviors:\n  B:\n    trainer_type: ppo\n"


@pytest.mark.parametrize(
    ("key", "block"),
    [
        ("batch_size: 64", "behaviors.B.hyperparameters"),
        ("beta: 0.1", "behaviors.B.hyperparameters"),
        ("widths: [8]", "behaviors.B.hyperparameters"),  # a key of this trainer alone
        ("hidden_units: 64", "behaviors.B.network_settings"),
        ("memory_size: 64", "behaviors.B.network_settings.memory"),
        ("gamma: 0.9", "behaviors.B.reward_signals.extrinsic"),
        ("curiosity: {strength: 0.1}", "behaviors.B.reward_signals"),
        ("checkpoint_settings: {}", "the top level of the file"),
    ],
)
def test_a_key_one_level_too_high_names_its_block(errors: Errors, key: str, block: str) -> None:
    name = key.partition(":")[0]
    assert errors(f"{BEHAVIOR}    {key}\n") == [f"c.yaml:4: behaviors.B.{name}: unknown key; it belongs in {block}"]


@pytest.mark.parametrize(
    ("block", "block_of_key"),
    [
        ("hyperparameters: {max_steps: 5}", "behaviors.B"),
        ("hyperparameters: {hidden_units: 5}", "behaviors.B.network_settings"),
        ("hyperparameters: {gamma: 0.9}", "behaviors.B.reward_signals.extrinsic"),
        ("network_settings: {batch_size: 5}", "behaviors.B.hyperparameters"),
        ("network_settings: {memory_size: 5}", "behaviors.B.network_settings.memory"),
        ("reward_signals: {strength: 0.5}", "behaviors.B.reward_signals.extrinsic"),
    ],
)
def test_a_key_in_the_wrong_block_names_its_block(errors: Errors, block: str, block_of_key: str) -> None:
    (message,) = errors(f"{BEHAVIOR}    {block}\n")
    assert message.endswith(f"unknown key; it belongs in {block_of_key}")


@pytest.mark.parametrize("key", ["tau", "steps_per_update"])
def test_a_key_of_another_trainer_is_not_sent_to_the_block_it_is_in(errors: Errors, key: str) -> None:
    (message,) = errors(f"{BEHAVIOR}    hyperparameters: {{{key}: 5}}\n")
    assert message.startswith(f"c.yaml:4: behaviors.B.hyperparameters.{key}: unknown key (allowed: batch_size, ")


@pytest.mark.parametrize("key", ["model_path", "trainer", "measure"])
def test_a_section_of_a_plugin_has_no_keys_of_ml_agents(errors: Errors, key: str) -> None:
    (message,) = errors(f"{BEHAVIOR}acme: {{{key}: 5}}\n")
    assert message.startswith(f"c.yaml:4: acme.{key}: unknown key")


def test_the_name_of_a_behavior_at_the_top_level_belongs_in_behaviors(errors: Errors) -> None:
    assert errors(f"{BEHAVIOR}B: 3\n") == ["c.yaml:4: B: unknown key; it belongs in behaviors"]


def test_each_misplaced_key_is_reported_at_its_own_line(errors: Errors) -> None:
    keys = "gamma: 0.9\n    batch_size: 64\n    beta: 0.1\n    max_step: 9\n    hidden_units: 3\n    summary_freq: 0\n"
    gamma, batch_size, beta, max_step, hidden_units, summary_freq = errors(f"{BEHAVIOR}    {keys}")
    belongs = "unknown key; it belongs in behaviors.B"
    assert gamma == f"c.yaml:4: behaviors.B.gamma: {belongs}.reward_signals.extrinsic"
    assert batch_size == f"c.yaml:5: behaviors.B.batch_size: {belongs}.hyperparameters"
    assert beta == f"c.yaml:6: behaviors.B.beta: {belongs}.hyperparameters"
    assert max_step.startswith("c.yaml:7: ") and "did you mean 'max_steps'?" in max_step
    assert hidden_units == f"c.yaml:8: behaviors.B.hidden_units: {belongs}.network_settings"
    assert summary_freq.startswith("c.yaml:9: ") and "summary_freq: must be at least 1" in summary_freq


OLD = """\
default:
  trainer: ppo
  batch_size: 1024
  beta: 5.0e-3
  hidden_units: 128
  max_steps: 5.0e5
  memory_size: 256
  use_recurrent: false
  summary_freq: 1000
  reward_signals:
    extrinsic: {strength: 1.0, gamma: 0.99}

Hopper:
  normalize: true
  max_steps: 2e6
"""


def test_a_file_of_the_old_format_is_one_message(errors: Errors) -> None:
    assert errors(OLD) == [
        "c.yaml:1: default: the format of ML-Agents up to 0.16: behaviors are in behaviors and 'default' is "
        "default_settings; in each, keys of the algorithm are in hyperparameters and those of the network in "
        "network_settings; 'python -m mlagents.trainers.upgrade_config' of ML-Agents converts old trainer files; "
        "also 'Hopper'"
    ]


@pytest.mark.parametrize(("recurrent", "memory"), [("true", True), ("false", False)])
def test_an_old_block_in_behaviors_is_one_message(errors: Errors, recurrent: str, memory: bool) -> None:
    keys = f"trainer: ppo\n    beta: 0.1\n    use_recurrent: {recurrent}\n    memory_size: 64\n    summary_path: x\n"
    deleted = "use_recurrent, summary_path" + ("" if memory else ", memory_size")
    belongs = "; memory_size belongs in network_settings.memory" if memory else ""
    assert errors(f"behaviors:\n  B:\n    {keys}") == [
        "c.yaml:3: behaviors.B.trainer: the format of ML-Agents up to 0.16: beta belongs in hyperparameters"
        f"{belongs}; rename trainer to trainer_type; delete {deleted}; 'python -m mlagents.trainers.upgrade_config' of "
        "ML-Agents converts old trainer files"
    ]


def test_a_behavior_at_the_top_level_belongs_in_behaviors(errors: Errors) -> None:
    block = "{trainer_type: ppo, max_steps: 5}"
    message = "belongs in behaviors, below the name of the behavior"
    assert errors(f"Hopper: {block}\n") == [f"c.yaml:1: Hopper: {message}"]
    assert errors(f"{BEHAVIOR}Hopper: {block}\nWalker: {block}\n") == [f"c.yaml:4: Hopper: {message}; also 'Walker'"]


def test_an_unknown_block_at_the_top_level_is_not_taken_for_a_behavior(errors: Errors) -> None:
    (message,) = errors(f"{BEHAVIOR}tracker: {{max_steps: 5}}\n")
    assert message.startswith("c.yaml:4: tracker: unknown key (allowed: ")


@pytest.mark.parametrize("key", ["output_path", "summary_path", "model_path"])
@pytest.mark.parametrize("place", ["", "    "])
def test_paths_of_old_versions_name_the_run_directory(errors: Errors, key: str, place: str) -> None:
    (message,) = errors(f"{BEHAVIOR}{place}{key}: models\n")
    assert "removed by ML-Agents: a run writes into the directory RUN_ID of checkpoint_settings.results_dir" in message


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("resampling-interval: 5000\n", "c.yaml:4: resampling-interval"),
        ("sampler-type: uniform\n", "c.yaml:4: sampler-type"),
        ("mass: {sampler-type: uniform, min_value: 1, max_value: 2}\n", "c.yaml:4: mass"),
        (
            "environment_parameters:\n  mass: {sampler-type: uniform, min_value: 1}\n",
            "c.yaml:5: environment_parameters.mass.sampler-type",
        ),
    ],
)
def test_old_samplers_are_one_message(errors: Errors, text: str, place: str) -> None:
    (message,) = errors(BEHAVIOR + text)
    assert message.startswith(f"{place}: the format of ML-Agents up to 0.16; write environment_parameters: {{NAME: {{")


def test_an_old_curriculum_is_one_message(errors: Errors) -> None:
    (message,) = errors(f"{BEHAVIOR}Wall: {{measure: progress, thresholds: [0.1], parameters: {{height: [1, 2]}}}}\n")
    assert message.startswith("c.yaml:4: Wall: the format of ML-Agents up to 0.16; write lessons in environment_param")


# ---------------------------------------------------------------- files of ML-Agents


@pytest.mark.parametrize("name", ["B.pt", "B-5000.onnx", "B.nn"])
def test_networks_of_ml_agents_are_refused_before_a_run(errors: Errors, name: str) -> None:
    (message,) = errors(f"{BEHAVIOR}    init_path: models/{name}\n")
    assert message == (
        "c.yaml:4: behaviors.B.init_path: must be a run directory of rlcore, or one of its checkpoints, such as "
        "results/RUN_ID/checkpoints/5000 (rlcore cannot load networks of ML-Agents: .pt, .onnx, .nn), not "
        f"'models/{name}'"
    )
    assert BehaviorSettings(init_path="results/ppo.v2").init_path == "results/ppo.v2"


def test_threads_change_nothing(load: Callable[..., object]) -> None:
    assert load(f"{BEHAVIOR}    threaded: true\n").behaviors["B"].threaded


# ---------------------------------------------------------------- behaviors that an environment does not name


@pytest.mark.parametrize(
    ("behaviors", "found"),
    [("default_settings: {}", "none"), ("behaviors: {A: {}, B: {}}", "2: A, B")],
)
@pytest.mark.parametrize(
    "environment", ["environment: {type: lone}", "evaluation: {interval: 5, environment: {type: lone}}"]
)
def test_an_environment_without_names_needs_one_behavior(
    errors: Errors, load: Callable[..., object], behaviors: str, found: str, environment: str
) -> None:
    (message,) = errors(f"{behaviors}\n{environment}\n")
    assert message.endswith(
        "behaviors: environments of type 'lone' have one behavior, which has the name of the only entry here; there "
        f"must be one entry, not {found}"
    )
    load(f"behaviors: {{A: {{}}}}\n{environment}\n")
    load(f"{behaviors}\n{environment.replace('lone', 'grid')}\n")
