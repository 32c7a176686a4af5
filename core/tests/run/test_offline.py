"""Trainers that learn from recorded data: the same loop, without an environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlcore.config.problems import ConfigErrors
from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationSpec
from rlcore.errors import ConfigError, PluginError
from rlcore.plugins.context import RunContext
from rlcore.run.run import Run
from rlcore_devkit.fixtures import RunRlcore

CORRIDOR = BehaviorSpec("Agent", (ObservationSpec("position", (6,), np.float32),), discrete=(2,))


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Stands in for a recording of the corridor; the list is of what was asked for."""
    asked: list[tuple[str, str]] = []

    def recorded_behavior(self: RunContext, path: str, name: str) -> BehaviorSpec:
        asked.append((path, name))
        return CORRIDOR

    monkeypatch.setattr(RunContext, "recorded_behavior", recorded_behavior)
    return asked


@pytest.fixture
def offline(configure: Any) -> Callable[..., dict[str, Any]]:
    """``offline({"environment": {...}}, max_steps=100)``: a configuration without an environment."""

    def make(changes: dict[str, Any] | None = None, **behavior: Any) -> dict[str, Any]:
        changes = {"environment": None, **(changes or {})}
        settings = {"trainer_type": "recorded", "hyperparameters": {"demo_path": "somewhere"}, **behavior}
        config: dict[str, Any] = configure(changes, **settings)
        return config

    return make


def test_no_environment_is_made_and_the_behavior_is_the_recorded_one(
    offline: Any, hook_calls: Counter[str], recorded: list[tuple[str, str]]
) -> None:
    with Run(offline({"environment": {"type": "corridor"}})) as run:
        run.train()
        assert run.behaviors["Agent"].spec is CORRIDOR
    assert recorded == [("somewhere", "Agent")]
    assert hook_calls["rlcore_create_environment"] == 0 and hook_calls["rlcore_create_trainer"] == 1


def test_max_steps_summaries_and_checkpoints_count_gradient_steps(offline: Any, files: Any) -> None:
    run = Run(offline(max_steps=202, summary_freq=50, checkpoint_interval=40))
    epochs = list(run)
    assert [epoch.behaviors["Agent"].steps for epoch in epochs] == [52, 100, 152, 200, 204]
    assert [epoch.behaviors["Agent"].updates for epoch in epochs] == [13, 25, 38, 50, 51]
    assert [line["step"] for line in files().metrics] == [50, 100, 150, 200, 204]
    assert files().steps == [80, 120, 160, 200, 204]
    assert all(epoch.steps_per_second > 0 and epoch.collect_seconds == 0 for epoch in epochs)
    assert epochs[-1].behaviors["Agent"].mean_reward is None
    assert files().result["behaviors"]["Agent"] == {"steps": 204, "episodes": 0, "mean_reward": None}


@pytest.mark.parametrize("stopped_at", [48, 52, 100])
def test_a_resumed_run_equals_the_run_never_stopped(offline: Any, files: Any, abandon: Any, stopped_at: int) -> None:
    Run(offline({"checkpoint_settings.run_id": "whole"}, keep_checkpoints=0)).train()
    run = Run(offline(keep_checkpoints=0))
    run.start()
    trainer = run.behaviors["Agent"].trainer
    update = run.behaviors["Agent"].trainer.update

    def stopping() -> Any:
        if trainer.steps + 4 >= stopped_at:
            run.request_stop()
        return update()

    trainer.update = stopping  # type: ignore[method-assign]
    run.train()
    assert run.steps == stopped_at and run.outcome == "interrupted"
    resumed = Run(offline({"checkpoint_settings.resume": True}, keep_checkpoints=0))
    resumed.train()
    assert files().checkpoints().items() >= files("whole").checkpoints().items()


def test_recorded_data_and_an_environment_in_one_run_are_refused(configure: Any) -> None:
    config = configure({"environment.type": "pair"}, behaviors=("Left", "Right"))
    config["behaviors"]["Right"] |= {"trainer_type": "recorded", "hyperparameters": {"demo_path": "x"}}
    with pytest.raises(
        ConfigErrors, match=r"Right.trainer_type: 'recorded' learns from .*, but 'numpy' of .*Left learns"
    ):
        Run(config)


def test_a_recorded_behavior_must_be_listed(offline: Any) -> None:
    config = offline()
    config["default_settings"] = config.pop("behaviors")["Agent"]
    with pytest.raises(ConfigErrors, match="'recorded' learns from recorded data, and no environment names the behav"):
        Run(config)


@pytest.mark.parametrize(
    ("behavior", "told"),
    [  # a trainer that lacks the setting, and data that ends before max_steps
        ({"trainer_type": "pathless", "hyperparameters": {}}, "'pathless' .* have no demo_path; declare this setting"),
        (
            {"hyperparameters": {"demo_path": "x", "last_step": 60}},
            "behavior 'Agent': trainer 'recorded' has no data left to learn from",
        ),
    ],
)
def test_a_trainer_without_data_is_told_so(offline: Any, behavior: dict[str, Any], told: str) -> None:
    with pytest.raises(PluginError, match=told):
        Run(offline(**behavior)).train()


def test_inference_needs_an_environment_and_acts_in_it(offline: Any) -> None:
    Run(offline()).train()
    with pytest.raises(ConfigError, match="environment: missing"):
        Run(offline({"checkpoint_settings.inference": True})).train()
    run = Run(offline({"checkpoint_settings.inference": True, "environment": {"type": "corridor", "num_envs": 3}}))
    assert next(run).behaviors["Agent"].steps == 200 and run.behaviors["Agent"].spec.slots == 3
    run.close("interrupted")


REFUSED = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))["environments"]
EVALUATION = {"interval": 60, "episodes": 3}


def test_the_environment_of_an_offline_run_is_for_evaluation_alone(
    offline: Any, files: Any, run_rlcore: RunRlcore
) -> None:
    without = Run(offline({"checkpoint_settings.run_id": "without"}))
    without.train()
    block = {"environment": {"type": "corridor"}, "evaluation": EVALUATION}
    epochs = list(Run(offline(block)))
    assert [epoch.behaviors["Agent"].steps for epoch in epochs if epoch.evaluation] == [100, 152, 200]
    assert (files().path / "checkpoints/200/Agent.safetensors").read_bytes() == (
        files("without").path / "checkpoints/200/Agent.safetensors"
    ).read_bytes()
    assert run_rlcore("evaluate", files().path, "--episodes", "3", "--json").exit_code == 0


@pytest.mark.parametrize(("environment", "told"), REFUSED)
def test_an_environment_that_does_not_fit_the_recorded_behavior_is_refused_before_training(
    offline: Any, files: Any, environment: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match="to evaluate in: ") as refused:
        Run(offline({"environment": environment, "evaluation": EVALUATION})).train()
    assert told in str(refused.value)
    assert not files().path.exists()


def test_commands_on_a_run_without_an_environment(
    offline: Any, files: Any, run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    """An evaluation takes one from the command line; a training has no use for --num-envs."""
    Run(offline()).train()
    refused = run_rlcore("evaluate", files().path)
    assert refused.exit_code == 2
    assert "environment: missing, so there is nowhere to measure the policies" in refused.stderr
    assert "--set environment.type=" in refused.stderr
    done = run_rlcore("evaluate", files().path, "--set", "environment.type=corridor", "--episodes", "2")
    assert done.exit_code == 0 and "over 2 episodes" in done.stdout
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(offline({"stats.console": {}})))
    done = run_rlcore("run", path, "--force")
    assert "Agent. Step: 50." in done.stdout and "episode was completed" not in done.stdout
    refused = run_rlcore("run", path, "--num-envs", "4")
    assert refused.exit_code == 2
    assert "--num-envs: this run learns from recorded data, so no environment is stepped" in refused.stderr
