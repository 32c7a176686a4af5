"""Whole episodes that onnxruntime plays through ``rlcore_onnx.runtime`` have the returns of the trained policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import gymnasium
import numpy as np
import pytest
from memory_tasks import TASKS
from numpy.typing import NDArray

from rlcore import Run, load_policies
from rlcore_onnx.runtime import load

EPISODES = 20
MEMORY = {"memory_size": 16, "sequence_length": 8}
PPO = {"buffer_size": 512, "batch_size": 128, "num_epoch": 2}
SAC = {"buffer_size": 2000, "batch_size": 32, "buffer_init_steps": 100, "steps_per_update": 8}


@attrs.frozen
class Training:
    """A short training: long enough that weights and normalizer are not those of the start."""

    task: str
    trainer: str
    memory: bool = False

    def run(self, directory: Path) -> Path:
        """Train, and return the run directory."""
        network = {"hidden_units": 32, "num_layers": 1, "normalize": self.trainer == "ppo"}
        behavior = {
            "trainer_type": self.trainer,
            "hyperparameters": PPO if self.trainer == "ppo" else SAC,
            "network_settings": network | ({"memory": MEMORY} if self.memory else {}),
            "max_steps": 1024 if self.trainer == "ppo" else 400,
        }
        config = {
            "environment": {"type": "gymnasium", "id": self.task, "num_envs": 4},
            "behaviors": {"Agent": behavior},
            "env_settings": {"seed": 1},
            "export": ["onnx"],
            "checkpoint_settings": {"run_id": "run", "results_dir": str(directory)},
            "stats": {"console": False},
        }
        with Run(config) as run:
            run.train()
            assert run.failures == []
            return run.directory.path


TRAININGS = [
    Training("CartPole-v1", "ppo"),
    Training("Pendulum-v1", "sac"),
    Training("HiddenVelocities-v0", "ppo", memory=True),
]


@pytest.fixture(autouse=True)
def _tasks() -> Iterator[None]:
    for name, make in TASKS.items():
        gymnasium.register(name, make, max_episode_steps=500)
    yield
    for name in TASKS:
        del gymnasium.registry[name]


def returns(
    task: str, act: Callable[[NDArray[Any], NDArray[np.float32]], NDArray[Any]], memory_size: int
) -> NDArray[np.float64]:
    """The returns of 20 whole episodes, all played at once: ``act(observations, memory)`` has a row for each."""
    environments = [gymnasium.make(task) for _ in range(EPISODES)]
    seen = np.stack([each.reset(seed=seed)[0] for seed, each in enumerate(environments)])
    memory = np.zeros((EPISODES, memory_size), np.float32)
    total, playing = np.zeros(EPISODES), np.ones(EPISODES, bool)
    while playing.any():
        rows = np.flatnonzero(playing)
        kept = memory[rows]
        actions = act(seen[rows], kept)
        memory[rows] = kept
        for row, action in zip(rows, actions, strict=True):
            seen[row], reward, terminated, truncated, _ = environments[row].step(action)
            total[row] += float(reward)
            playing[row] = not (terminated or truncated)
    return total


@pytest.mark.parametrize("training", TRAININGS, ids=lambda each: f"{each.task}-{each.trainer}")
def test_episodes_have_the_returns_of_the_trained_policy(training: Training, tmp_path: Path) -> None:
    directory = training.run(tmp_path)
    (trained,) = load_policies(directory).values()
    policy = load(directory / "Agent.onnx")
    (observation,) = policy.behavior.observations
    size = policy.memory_size
    assert (size > 0) == training.memory

    def chosen(actions: Any) -> NDArray[Any]:
        return actions.discrete[:, 0] if actions.continuous is None else actions.continuous  # type: ignore[no-any-return]

    def act_in_torch(seen: NDArray[Any], memory: NDArray[np.float32]) -> NDArray[Any]:
        return chosen(trained.act({observation.name: seen}, None, True, *((memory,) if size else ())))

    def act_in_onnxruntime(seen: NDArray[Any], memory: NDArray[np.float32]) -> NDArray[Any]:
        return chosen(policy.act(seen, memory=memory))

    expected = returns(training.task, act_in_torch, size)
    np.testing.assert_allclose(returns(training.task, act_in_onnxruntime, size), expected, rtol=1e-4)
    assert len(np.unique(expected.round(6))) > 1
