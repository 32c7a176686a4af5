"""Runs whose environment and wrappers are in a Python file beside their configuration."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rlcore_devkit.fixtures import RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

WORLDS = """
import gymnasium
import numpy as np

gymnasium.register("Coin-v0", "worlds_beside:Coin")

class Coin(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.seen = 0, self.np_random.random(2).astype(np.float32)
        return self.seen, {}

    def step(self, action):
        reward, self.seen = float(self.seen[action]), self.np_random.random(2).astype(np.float32)
        self.steps += 1
        return self.seen, reward, False, self.steps >= 9, {}

class Half(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward / 2
"""
CONFIG = """
preset: none
environment:
  id: worlds_beside:Coin-v0
  num_envs: 2
  wrappers: [{name: 'worlds_beside:Half'}, {name: FrameStackObservation, stack_size: 2}]
evaluation: {interval: 80, episodes: 2, environment: {wrappers: [{name: FrameStackObservation, stack_size: 2}]}}
behaviors:
  Coin:
    trainer_type: ppo
    max_steps: 80
    summary_freq: 40
    checkpoint_interval: 40
    hyperparameters: {batch_size: 16, buffer_size: 32, num_epoch: 1}
    network_settings: {hidden_units: 8}
env_settings: {seed: 3}
checkpoint_settings: {run_id: coin}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "worlds_beside.py").write_text(WORLDS)
    (folder / "coin.yaml").write_text(CONFIG)
    return folder / "coin.yaml"


@pytest.fixture
def forget(config: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have the next command find the module as a new process would."""

    def forget() -> None:
        sys.modules.pop("worlds_beside", None)
        monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(config.parent)])

    return forget


def test_a_run_finds_them_and_a_resumed_run_finds_them_again(
    run_rlcore: RunRlcore, config: Path, forget: Callable[[], None]
) -> None:
    done = run_rlcore("run", config)
    assert done.exit_code == 0, done.stderr
    (file,) = config.parent.parent.rglob("checkpoints/80/Coin.safetensors")
    weights = file.read_bytes()
    file.unlink()
    forget()
    resumed = run_rlcore("run", "--resume", "--run-id", "coin", "--checkpoint", "40")
    assert resumed.exit_code == 0, resumed.stderr
    assert file.read_bytes() == weights


def test_commands_that_read_do_not_import_them_unless_that_is_allowed(
    run_rlcore: RunRlcore, config: Path, forget: Callable[[], None]
) -> None:
    run_rlcore("run", config)
    what = "worlds_beside.py was not imported: looking at a configuration runs no code that it names; --allow-local"
    for command in (("validate", config), ("status", "results/coin"), ("evaluate", "results/coin", "--episodes", "1")):
        forget()
        looked = run_rlcore(*command)
        assert what in looked.stderr or command[0] == "status"
        assert "worlds_beside" not in sys.modules
        assert looked.exit_code == (2 if command[0] == "evaluate" else 0)
    assert "cannot import 'worlds_beside'" in looked.stderr
    forget()
    measured = run_rlcore("evaluate", "results/coin", "--episodes", "1", "--allow-local")
    assert measured.exit_code == 0 and "over 1 episodes of 9.0 steps" in measured.stdout
