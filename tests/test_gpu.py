"""PPO and SAC on a device: whole runs, recorded gradient steps, and an exact resume. The CPU runs the same tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import Run, load_checkpoint

GRAPHS = {"device": "cuda", "deterministic": True, "cuda_graphs": True}
DEVICES = [
    pytest.param({}, id="CPU"),
    pytest.param({"device": "cuda", "deterministic": True}, id="GPU", marks=pytest.mark.cuda),
    pytest.param(GRAPHS, id="GPU, recorded", marks=pytest.mark.cuda),
]
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": (
        "CartPole-v1",
        {"trainer_type": "ppo", "hyperparameters": {"batch_size": 64, "buffer_size": 256, "num_epoch": 3}},
    ),
    "sac": (
        "Pendulum-v1",
        {
            "trainer_type": "sac",
            "hyperparameters": {
                "batch_size": 32,
                "buffer_init_steps": 128,
                "steps_per_update": 8,
                "buffer_size": 4096,
                "save_replay_buffer": True,
            },
        },
    ),
}
STEPS = 1024


def train(place: Path, case: str, torch_settings: dict[str, Any], **checkpoint: Any) -> Run:
    environment, behavior = CASES[case]
    shape = {
        "network_settings": {"hidden_units": 32, "normalize": True},
        "max_steps": STEPS,
        "checkpoint_interval": 512,
    }
    config = {
        "environment": {"type": "gymnasium", "id": environment, "num_envs": 4},
        "env_settings": {"seed": 5},
        "behaviors": {"Agent": {**behavior, **shape}},
        "torch_settings": torch_settings,
        "checkpoint_settings": {"run_id": "run", "results_dir": str(place), **checkpoint},
    }
    with Run(config) as run:
        run.train()
    return run


def arrays(place: Path, step: int) -> dict[str, Any]:
    """Every array of a checkpoint by its path."""
    found: dict[str, Any] = {}

    def collect(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for name, part in value.items():
                collect(part, f"{path}/{name}")
        elif isinstance(value, np.ndarray):
            found[path] = value

    collect(load_checkpoint(place / "run" / "checkpoints" / str(step)), "")
    return found


@pytest.mark.parametrize("torch_settings", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_equals_the_run_never_stopped(tmp_path: Path, case: str, torch_settings: dict[str, Any]) -> None:
    train(tmp_path, case, torch_settings)
    whole = arrays(tmp_path, STEPS)
    assert len(whole) > 10
    train(tmp_path, case, torch_settings, resume=True, checkpoint="512")
    again = arrays(tmp_path, STEPS)
    assert whole.keys() == again.keys()
    for name, array in whole.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert "exact" in json.dumps(result)


@pytest.mark.cuda
@pytest.mark.parametrize("case", CASES)
def test_recorded_gradient_steps_learn_as_plain_ones(tmp_path: Path, case: str) -> None:
    weights = []
    for name, recorded in (("plain", False), ("recorded", True)):
        train(tmp_path / name, case, {**GRAPHS, "cuda_graphs": recorded})
        weights.append({k: v for k, v in arrays(tmp_path / name, STEPS).items() if "/model/" in k})
    assert weights[0].keys() == weights[1].keys() and len(weights[0]) > 5
    for name, array in weights[0].items():
        np.testing.assert_allclose(weights[1][name], array, rtol=1e-4, atol=1e-5, err_msg=name)
