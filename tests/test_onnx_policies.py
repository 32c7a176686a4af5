"""Policies of PPO, PQN, SAC, TD7 and DQN, exported. The exporter compares each file with its policy; so do tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import Run, UnsupportedExport, export_policies, load_policies
from rlcore_devkit.playing import random_observations
from rlcore_onnx.runtime import load

PPO: dict[str, Any] = {
    "trainer_type": "ppo", "hyperparameters": {"buffer_size": 40, "batch_size": 20},
    "network_settings": {"hidden_units": 16, "memory": {"memory_size": 8, "sequence_length": 5}},
}  # fmt: skip
SAC: dict[str, Any] = {
    "trainer_type": "sac", "network_settings": {"hidden_units": 16, "normalize": True},
    "hyperparameters": {"buffer_size": 100, "batch_size": 8, "buffer_init_steps": 8, "steps_per_update": 8},
}  # fmt: skip

CROSSQ: dict[str, Any] = {**SAC, "trainer_type": "crossq"}

XQC: dict[str, Any] = {**SAC, "trainer_type": "xqc"}

DQN: dict[str, Any] = {
    "trainer_type": "dqn", "network_settings": {"hidden_units": 16, "normalize": True},
    "hyperparameters": {
        "buffer_size": 100, "batch_size": 8, "buffer_init_steps": 8, "steps_per_update": 8,
        "dueling": True, "noisy": True, "distributional": "c51",
    },
}  # fmt: skip

PQN: dict[str, Any] = {
    "trainer_type": "pqn", "network_settings": {"hidden_units": 16},
    "hyperparameters": {"buffer_size": 40, "batch_size": 20},
}  # fmt: skip

TD7: dict[str, Any] = {
    "trainer_type": "td7", "network_settings": {"hidden_units": 16, "normalize": True},
    "hyperparameters": {
        "buffer_size": 100, "batch_size": 8, "buffer_init_steps": 8, "steps_per_update": 8, "embedding_units": 8,
        "target_update_interval": 3,
    },
}  # fmt: skip


@pytest.mark.parametrize(("behavior", "kind"), [(PPO, "image"), (PQN, "image"), (SAC, "hybrid"), (DQN, "branches")])
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


# What acts otherwise while a network learns, or reads more than its last layer: the policy, the environment, the keys.
NETWORKS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "gsde": (PPO, "uneven bounds", {"memory": None, "action_distribution": "gsde"}),
    "squashed gsde": (SAC, "vector", {"action_distribution": "squashed_gsde"}),
    "dropout": (SAC, "uneven bounds", {"dropout": 0.5}),
    "batch normalization": (CROSSQ, "uneven bounds", {"batch_norm_momentum": 0.1, "batch_renorm_after": 3}),
    "residual blocks": (CROSSQ, "vector", {"batch_norm": "pre", "batch_norm_momentum": 0.1, "blocks": "residual"}),
    "units of norm 1": (XQC, "uneven bounds", {"batch_norm_momentum": 0.1}),
    "embeddings": (TD7, "uneven bounds", {}),
    "LayerNorm": (DQN, "branches", {"layer_norm": True}),
    "GRU": (PPO, "branches", {"memory": {"type": "gru", "memory_size": 8, "sequence_length": 5}}),
    "all with a GRU": (
        SAC,
        "vector",
        {
            "memory": {"type": "gru", "memory_size": 8, "sequence_length": 5},
            "action_distribution": "squashed_gsde",
            "layer_norm": True,
            "dropout": 0.2,
        },
    ),
}


def trained_in(directory: Path, name: str) -> Path:
    """The run directory of 80 steps with at least one update."""
    behavior, world, network = NETWORKS[name]
    block = {**behavior, "network_settings": {**behavior["network_settings"], **network}, "max_steps": 80}
    document = {
        "behaviors": {"Agent": block},
        "environment": {"type": "world", "id": world, "num_envs": 4},
        "plugins": {"local": ["worlds"]},
        "checkpoint_settings": {"run_id": "run", "results_dir": str(directory)},
        "stats": {"console": False},
    }
    with Run(document) as run:
        run.train()
        assert run.behaviors["Agent"].updates > 0
    return directory / "run"


def exported(run: Path, profile: str) -> Path:
    settings = {"profile": profile}
    (path,) = export_policies(run, "onnx", run.parent / f"{profile}.onnx", settings=settings).values()
    return path


@pytest.mark.parametrize("name", NETWORKS)
def test_onnxruntime_acts_as_torch_in_each_profile(tmp_path: Path, name: str) -> None:
    """A file that left features out, or added noise to the most likely actions, would differ."""
    run = trained_in(tmp_path, name)
    policy: Any = load_policies(run)["Agent"]
    generator = np.random.default_rng(1)
    for profile in ("generic", "unity", "godot"):
        if profile == "godot" and policy.memory_size:
            with pytest.raises(UnsupportedExport, match="memory"):
                exported(run, profile)
            continue
        file = load(exported(run, profile), seed=1)
        theirs = file.initial_memory(7)
        ours = theirs.copy()
        for _ in range(3):
            seen = random_observations(policy.behavior, 7, generator)
            found = file.act(seen, None, True, *([theirs] if policy.memory_size else []))
            expected = policy.act(seen, None, True, *([ours] if policy.memory_size else []))
            np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5)
            if expected.continuous is not None:
                assert np.ptp(expected.continuous, axis=0).min() > 0
                np.testing.assert_allclose(found.continuous, expected.continuous, rtol=0, atol=1e-5)
            else:
                np.testing.assert_array_equal(found.discrete, expected.discrete)


@pytest.mark.parametrize("name", ["gsde", "squashed gsde"])
@pytest.mark.parametrize("profile", ["generic", "unity"])
def test_noise_made_of_features_has_the_spread_of_torch_in_a_file(tmp_path: Path, name: str, profile: str) -> None:
    """For each observation its own: gSDE's depends on the last hidden layer."""
    run = trained_in(tmp_path, name)
    count = 10_000
    policy: Any = load_policies(run)["Agent"]
    file: Any = load(exported(run, profile), seed=1)
    policy.seed(2)
    spreads = []
    for seen in np.random.default_rng(5).uniform(-1.0, 1.0, (3, 1, 3)).astype(np.float32):
        many = {"seen": np.repeat(seen, count, axis=0)}
        ours, theirs = (each.act(many, None, False).continuous for each in (file, policy))
        middle = theirs.std(0)
        assert (np.abs(ours.mean(0) - theirs.mean(0)) < 4 * middle * np.sqrt(2 / count)).all()
        assert (np.abs(ours.std(0) / middle - 1) < 0.05).all()
        spreads.append(middle)
    assert np.ptp(spreads, axis=0).min() > 0.05 * np.min(spreads), "observations of one spread test nothing"
