"""Policies that PPO, SAC and DQN trained are exported. The exporter compares each file with its policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore import Run

PPO: dict[str, Any] = {
    "trainer_type": "ppo", "hyperparameters": {"buffer_size": 40, "batch_size": 20},
    "network_settings": {"hidden_units": 16, "memory": {"memory_size": 8, "sequence_length": 5}},
}  # fmt: skip
SAC: dict[str, Any] = {
    "trainer_type": "sac", "network_settings": {"hidden_units": 16, "normalize": True},
    "hyperparameters": {"buffer_size": 100, "batch_size": 8, "buffer_init_steps": 8, "steps_per_update": 8},
}  # fmt: skip

DQN: dict[str, Any] = {
    "trainer_type": "dqn", "network_settings": {"hidden_units": 16, "normalize": True},
    "hyperparameters": {
        "buffer_size": 100, "batch_size": 8, "buffer_init_steps": 8, "steps_per_update": 8,
        "dueling": True, "noisy": True, "distributional": "c51",
    },
}  # fmt: skip


@pytest.mark.parametrize(("behavior", "kind"), [(PPO, "image"), (SAC, "hybrid"), (DQN, "branches")])
def test_a_trained_policy(tmp_path: Path, behavior: dict[str, Any], kind: str) -> None:
    config = {
        "behaviors": {"Agent": {**behavior, "max_steps": 80}},
        "environment": {"type": "world", "id": kind, "num_envs": 4},
        "plugins": {"local": ["worlds"]},
        "checkpoint_settings": {"run_id": "run", "results_dir": str(tmp_path)},
        "stats": {"console": False},
        "export": {"onnx": {"profile": "unity", "tolerance": 1e-6}},
    }
    with Run(config) as run:
        run.train()
        assert [(each.file, each.problem) for each in run.exports] == [("Agent.onnx", None)]
