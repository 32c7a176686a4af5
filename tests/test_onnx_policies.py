"""Policies that PPO, SAC, bc and iql trained are exported. The exporter compares each file with its policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import recorded
from worlds import World

from rlcore import Run

HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "ppo": {"buffer_size": 40, "batch_size": 20},
    "sac": {"buffer_size": 100, "batch_size": 8, "buffer_init_steps": 8, "steps_per_update": 8},
}
MEMORY = {"memory": {"memory_size": 8, "sequence_length": 5}}


def exported(directory: Path, behavior: dict[str, Any], **blocks: Any) -> list[tuple[str | None, str | None]]:
    """Train, export at the end, and return files and problems."""
    network = {"hidden_units": 16, "num_layers": 1, "normalize": True, **behavior.pop("network", {})}
    config = {
        "behaviors": {"Agent": {"network_settings": network, **behavior}},
        "checkpoint_settings": {"run_id": "run", "results_dir": str(directory)},
        "stats": {"console": False},
        "export": {"onnx": {"profile": "unity", "tolerance": 1e-6}},
        **blocks,
    }
    with Run(config) as run:
        run.train()
        return [(each.file, each.problem) for each in run.exports]


@pytest.mark.parametrize(
    ("trainer", "kind", "network"),
    [
        ("ppo", "image", MEMORY),
        ("ppo", "several vectors", {"hidden_layers": [24, 16], "activation": "tanh"}),
        ("sac", "image of floats and vector", {"vis_encode_type": "match3"}),
        ("sac", "hybrid", {}),
    ],
)
def test_a_trained_policy(tmp_path: Path, trainer: str, kind: str, network: dict[str, Any]) -> None:
    behavior = {
        "trainer_type": trainer, "max_steps": 80, "hyperparameters": HYPERPARAMETERS[trainer], "network": network,
    }  # fmt: skip
    world = {"type": "world", "id": kind, "num_envs": 4}
    files = exported(tmp_path, behavior, environment=world, plugins={"local": ["worlds"]})
    assert files == [("Agent.onnx", None)]


@pytest.mark.parametrize(("trainer", "kind"), [("bc", "hybrid"), ("iql", "uneven bounds")])
def test_a_policy_of_recorded_episodes(tmp_path: Path, trainer: str, kind: str) -> None:
    recordings = recorded(tmp_path / "recordings/Agent", World(kind, 2), 40)
    hyperparameters = {"demo_path": recordings, "batch_size": 32}
    behavior = {"trainer_type": trainer, "max_steps": 20, "hyperparameters": hyperparameters}
    assert exported(tmp_path, behavior) == [("Agent.onnx", None)]
