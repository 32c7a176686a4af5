"""`rlcore evaluate --record`, and what environment and data say of one behavior."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import gymnasium
import minari
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array
from minari.data_collector import EpisodeBuffer

from rlcore import BehaviorSpec, EnvironmentSettings, ExitCode
from rlcore.cli.main import main
from rlcore_gymnasium.environment import make_environment
from rlcore_offline import recording_problem
from rlcore_offline.minari_format import MinariFormat

CONFIGURATION = """\
preset: none
environment: {type: gymnasium, id: CartPole-v1, num_envs: 4}
env_settings: {seed: 3}
behaviors:
  Agent:
    trainer_type: ppo
    max_steps: 512
    hyperparameters: {batch_size: 64, buffer_size: 256}
"""


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """``evaluate("--episodes", "3", code=2)`` in a directory with a trained ``run``: what it printed."""
    monkeypatch.chdir(tmp_path)

    def evaluate(*arguments: str, code: int = ExitCode.DONE) -> Any:
        if not Path("results/run").exists():
            Path("c.yaml").write_text(CONFIGURATION)
            assert main(["run", "c.yaml", "--run-id", "run"]) == ExitCode.DONE
        capsys.readouterr()
        assert main(["evaluate", "run", *arguments]) == code
        return capsys.readouterr()

    return evaluate


def assert_same_behavior(one: BehaviorSpec, other: BehaviorSpec) -> None:
    for field in attrs.fields(BehaviorSpec):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), field.name)
    assert [each.dtype for each in one.observations] == [each.dtype for each in other.observations]


@pytest.mark.parametrize("how", [[], ["--stochastic", "--seed", "11"]], ids=" ".join)
def test_the_recorded_episodes_are_those_that_were_counted(evaluate: Any, how: list[str]) -> None:
    printed = json.loads(evaluate("--episodes", "21", "--record", "to", "--json", *how).out)["behaviors"]["Agent"]
    assert os.listdir("to") == ["Agent"]
    recording = MinariFormat().read(Path("to/Agent"), "Agent")
    assert recording_problem(recording) is None
    assert recording.episodes == printed["episodes"] == 21
    returns = recording.returns
    assert (returns.mean(), returns.std()) == (printed["mean_reward"], printed["std_reward"])
    # Recording changes nothing about what is played.
    again = json.loads(evaluate("--episodes", "21", "--json", *how).out)["behaviors"]["Agent"]
    assert again == printed


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1"])
def test_data_and_environment_agree_on_the_behavior(tmp_path: Path, monkeypatch: Any, id: str) -> None:
    """Or a policy learned from the one could not be played in the other."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    environment = gymnasium.make(id)

    def stacked(space: spaces.Space[Any], count: int) -> Any:
        return concatenate(space, [space.sample() for _ in range(count)], create_empty_array(space, count))

    buffer = EpisodeBuffer(
        observations=stacked(environment.observation_space, 3), actions=stacked(environment.action_space, 2),
        rewards=[0.0, 1.0], terminations=[False, True], truncations=[False, False],
    )  # fmt: skip
    with pytest.warns(UserWarning, match="is set to None"):
        minari.create_dataset_from_buffers("theirs-v0", [buffer], environment)
    config = SimpleNamespace(environment_parameters={})
    run: Any = SimpleNamespace(
        behavior_names=("Agent",), num_envs=1, video=None, purpose="train", first_env=0, config=config
    )
    played = make_environment(EnvironmentSettings(id=id), run).behaviors["Agent"]
    assert_same_behavior(MinariFormat().behavior(tmp_path / "theirs-v0", "Agent"), played)
