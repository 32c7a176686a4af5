"""An error in a block ``sweep`` is said with its place and the fix, before anything is trained."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from sweeps import RATE, configuration

from rlcore import document_from_mapping, load_plugins
from rlcore_devkit import RunRlcore
from rlcore_study.sweep import block
from rlcore_study.sweep.settings import ParameterSettings, SweepSettings

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"trails": 3}, "sweep.trails: unknown key; did you mean 'trials'?"),
    "no parameter": ({"parameters": {}}, "sweep.parameters: is empty; name at least one parameter"),
    "unknown path": (
        {"parameters": {"behaviors.Agent.hyperparameters.rat": {"low": 0.1, "high": 1.0}}},
        "behaviors.Agent.hyperparameters.rat: no value can be used: unknown key; did you mean 'rate'?",
    ),
    "no high": ({"parameters": {RATE: {"low": 0.1}}}, ".high: is missing; give low and high, or choices"),
    "empty range": ({"parameters": {RATE: {"low": 1.0, "high": 1.0}}}, ".low: must be less than high, 1.0"),
    "log of 0": ({"parameters": {RATE: {"low": 0.0, "high": 1.0, "log": True}}}, ".low: must be greater than 0"),
    "two kinds": ({"parameters": {RATE: {"low": 0.1, "choices": [1]}}}, ".choices: cannot be combined with low"),
    "same choices": ({"parameters": {RATE: {"choices": [0.1, 0.1]}}}, "must be a list of different values"),
    "condition": (
        {"parameters": {RATE: {"low": 0.1, "high": 1.0, "when": {"behaviors.Agent.hyperparameters.rats": 1}}}},
        f"when: behaviors.Agent.hyperparameters.rats is not a parameter; did you mean '{RATE}'?",
    ),
    "grid without steps": (
        {"sampler": "grid", "parameters": {RATE: {"low": 0.1, "high": 1.0}}},
        "sampler: grid needs a step, or choices",
    ),
    "more trials than points": (
        {"sampler": "grid", "parameters": {RATE: {"choices": [0.1, 0.2]}}, "trials": 3},
        "sweep.trials: must be at most 2, the number of points of the grid",
    ),
    "more points than memory": (
        {"sampler": "grid", "parameters": {RATE: {"low": 0.0, "high": 1.0, "step": 1e-18}}},
        "sampler: grid has 100,001 points with these steps; at most 100,000 are allowed",
    ),
    "whole points": (
        {"sampler": "grid", "parameters": {"env_settings.seed": {"low": 1, "high": 10**18}}},
        "sampler: grid has 1,000,000,000,000,000,000 points with these steps",
    ),
    "equal choices of other kinds": (
        {"parameters": {RATE: {"choices": [[1, {"a": 2}], [1.0, {"a": 2.0}]]}}},
        "must be a list of different values",
    ),
    "cmaes with conditions": (
        {
            "sampler": "cmaes",
            "parameters": {
                RATE: {"low": 0.1, "high": 1.0},
                "env_settings.seed": {"choices": [1, 2], "when": {RATE: 1}},
            },
        },
        "env_settings.seed: when cannot be combined with sampler: cmaes",
    ),
    "cmaes without a range": (
        {"sampler": "cmaes", "parameters": {RATE: {"choices": [0.1, 0.2]}}},
        "sampler: cmaes needs a range; choices are drawn at random",
    ),
    "seeds": ({"seeds": [1, 1]}, "sweep.seeds: must differ"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_block_is_refused_in_one_line(run_rlcore: RunRlcore, tmp_path: Path, name: str) -> None:
    changes, message = REFUSED[name]
    (tmp_path / "config.yaml").write_text(json.dumps(configuration(changes)))
    refused = run_rlcore("sweep", tmp_path / "config.yaml")
    assert refused.exit_code == 2 and refused.stderr.count("\n") == 1
    assert message in refused.stderr
    assert not (tmp_path / "results").exists() or not [*(tmp_path / "results").glob("*/sweep.json")]
    if name == "unknown key":
        assert run_rlcore("validate", "--allow-local", tmp_path / "config.yaml").exit_code == 2


def test_cmaes_names_the_package_that_it_needs(
    run_rlcore: RunRlcore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlcore_study.sweep.settings.find_spec", lambda name: None)
    (tmp_path / "config.yaml").write_text(json.dumps(configuration({"sampler": "cmaes"})))
    refused = run_rlcore("validate", "--allow-local", tmp_path / "config.yaml")
    message = "sweep.sampler: cmaes needs a package that is missing; pip install 'rlcore-study[cmaes]'"
    assert refused.exit_code == 2 and message in refused.stdout


def test_a_metric_of_evaluations_needs_evaluations(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    document = configuration({})
    del document["evaluation"]
    (tmp_path / "config.yaml").write_text(json.dumps(document))
    refused = run_rlcore("sweep", tmp_path / "config.yaml")
    assert refused.exit_code == 2 and "metric: evaluation needs evaluations; give evaluation.interval" in refused.stderr


def test_a_run_trains_with_the_values_of_a_file_with_a_sweep(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps(configuration({})))
    assert run_rlcore("validate", "--allow-local", tmp_path / "config.yaml").exit_code == 0
    assert run_rlcore("run", tmp_path / "config.yaml", "--results-dir", tmp_path, "--run-id", "alone").exit_code == 0
    assert "sweep:" not in (tmp_path / "alone/configuration.yaml").read_text()


def test_the_schema_for_editors_knows_the_block(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    check = jsonschema.Draft202012Validator(json.loads(run_rlcore("schema").stdout))
    document = configuration({"trials": 3, "sampler": "tpe", "pruner": "median", "seeds": [1, 2]})
    sound = {"behaviors": {}, "sweep": document["sweep"]}
    assert [*check.iter_errors(sound)] == []
    for wrong in ({"trails": 3}, {"trials": 0}, {"sampler": "tbe"}, {"parameters": {RATE: {"lo": 0.1}}}):
        (problem,) = check.iter_errors({"behaviors": {}, "sweep": document["sweep"] | wrong})
        assert problem.absolute_path[0] == "sweep"
    assert check.schema["properties"]["sweep"]["description"]
    info = run_rlcore("plugins", "info", "sweep").stdout
    assert "trials = 20  Trials in all" in info


def test_many_choices_are_read_in_a_time_that_grows_with_their_number() -> None:
    def seconds(count: int) -> float:
        choices = [*range(count - 1), {"a": [1, 2]}]
        begun = time.process_time()  # of this process alone, whatever else the machine does
        made = SweepSettings(parameters={RATE: ParameterSettings(choices=choices)})
        assert made.parameters[RATE].points == count
        return time.process_time() - begun

    seconds(1_000)
    assert seconds(80_000) < 2.0  # comparing all pairs takes minutes


def test_a_trial_has_the_preset_for_its_environment() -> None:
    document = document_from_mapping(
        {"environment": {"id": "CartPole-v1"}, "default_settings": {"trainer_type": "ppo"}}
    )
    plugins = load_plugins()
    pole = block.configuration(document, plugins, {"default_settings.hyperparameters.num_epoch": 3})
    assert pole.behaviors["CartPole"].hyperparameters.num_epoch == 3
    robot = block.configuration(document, plugins, {"environment.id": "HalfCheetah-v5"})
    assert [config.preset for config in (pole, robot)] == ["none", "none"]
    horizons = [each.time_horizon for config in (pole, robot) for each in config.behaviors.values()]
    assert horizons == [256, 128]  # of ppo-discrete and of ppo-mujoco
