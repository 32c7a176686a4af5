"""PPO and SAC on a device: whole runs, recorded gradient steps, and an exact resume. The CPU runs the same tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import small_run

from rlcore import Run, load_checkpoint

GRAPHS = {"device": "cuda", "deterministic": True, "cuda_graphs": True}
DEVICES = [
    pytest.param({}, id="CPU"),
    pytest.param({"device": "cuda", "deterministic": True}, id="GPU", marks=pytest.mark.cuda),
    pytest.param(GRAPHS, id="GPU, recorded", marks=pytest.mark.cuda),
]
SAC = {
    "trainer_type": "sac",
    "hyperparameters": {"batch_size": 32, "buffer_init_steps": 128, "steps_per_update": 8, "save_replay_buffer": True},
}
CASES: dict[str, dict[str, Any]] = {
    "ppo": {},
    "sac": {"environment.id": "Pendulum-v1", "behaviors.Agent": SAC},
    "tensors": {"environment.id": None, "environment.type": "torch-cartpole"},
}
# On a CPU, tests/test_tensor_runs.py tests tensors.
NAMES = ["ppo", "sac", pytest.param("tensors", marks=pytest.mark.cuda)]
STEPS = 1024


def train(place: Path, case: str, torch_settings: dict[str, Any], **checkpoint: Any) -> Run:
    changes = {"behaviors.Agent.max_steps": STEPS, "behaviors.Agent.checkpoint_interval": 512}
    network = {"hidden_units": 32, "normalize": True}
    changes |= {"behaviors.Agent.network_settings": network, "torch_settings": torch_settings}
    config = small_run(place, {**CASES[case], **changes}, **checkpoint)
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
@pytest.mark.parametrize("case", NAMES)
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
