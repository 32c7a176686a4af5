"""Mistakes in a configuration are refused with their place, their cause and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rlcore import ConfigError, EnvironmentFailed
from rlcore_devkit.fixtures import RunRlcore, run_rlcore

pytest.importorskip("envpool", reason="EnvPool has no wheel for this platform")

__all__ = ["run_rlcore"]

CASES = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_one_message(make, case: str) -> None:
    block = CASES[case]
    with pytest.raises(ConfigError) as caught:
        make(block.get("id"), **block.get("options", {}))
    assert str(caught.value) == block["message"].strip()


def test_a_task_without_its_files_names_what_is_missing(make) -> None:
    with pytest.raises(EnvironmentFailed, match=r"VizdoomCustom-v1: cannot be made: RuntimeError: .*does not exist"):
        make("VizdoomCustom-v1")


FILE = """
environment: {type: envpool, id: CartPole-v1}
evaluation: {interval: 100, environment: {options: {max_episode_steps: 30}}}
behaviors: {Cart: {trainer_type: ppo}}
preset: none
"""


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("environment.id=CartPol-v1", "environment.id: 'CartPol-v1' is not an environment of EnvPool; did you mean 'C"),
        ("evaluation.environment.id=Kuhn", "evaluation.environment.id: 'Kuhn' is not an environment of EnvPool"),
        ("evaluation.environment.options.max_steps=3", "options.max_steps: CartPole-v1 has no such option; did you"),
        ("environment.parameters.gravity={}", "environment.parameters"),
    ],
)
def test_validate_refuses_a_mistake_in_either_block(run_rlcore: RunRlcore, tmp_path, setting, message) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(FILE)
    assert run_rlcore("validate", str(config)).stdout.endswith(": valid\n")
    refused = run_rlcore("validate", str(config), "--set", setting)
    assert refused.exit_code == 2 and message in refused.stdout and refused.stdout.count("\n") == 1


def test_a_run_refuses_environment_parameters(run_rlcore: RunRlcore, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "config.yaml"
    config.write_text(FILE + "environment_parameters: {gravity: 9.8}\n")
    refused = run_rlcore("run", str(config))
    assert refused.exit_code == 2
    assert "environment_parameters.gravity: CartPole-v1 has no such parameter; it has none" in refused.stderr
