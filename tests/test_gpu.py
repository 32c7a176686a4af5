"""PPO and SAC on a device: recorded and compiled gradient steps, and bfloat16; data/resumed_runs.yaml resumes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import small_run

from rlcore import ConfigError, Run, load_checkpoint

GRAPHS = {"device": "cuda", "deterministic": True, "cuda_graphs": True}
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
    changes: dict[str, Any] = {"behaviors.Agent.max_steps": STEPS, "behaviors.Agent.checkpoint_interval": 512}
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


def weights(place: Path, case: str, torch_settings: dict[str, Any]) -> dict[str, Any]:
    """The arrays of the network after a training."""
    train(place, case, torch_settings)
    found = {name: array for name, array in arrays(place, STEPS).items() if "/model/" in name}
    assert len(found) > 5
    return found


PLAIN = {"device": "cuda", "deterministic": True}
CHANGES = [
    pytest.param({"compile": True}, {}, id="CPU, compiled", marks=pytest.mark.learning),
    pytest.param(GRAPHS, PLAIN, id="recorded", marks=pytest.mark.cuda),
    pytest.param({**PLAIN, "compile": True}, PLAIN, id="compiled", marks=pytest.mark.cuda),
    pytest.param({**GRAPHS, "compile": True}, PLAIN, id="compiled and recorded", marks=pytest.mark.cuda),
]


@pytest.mark.parametrize(("changed", "plain"), CHANGES)
@pytest.mark.parametrize("case", NAMES)
def test_recorded_and_compiled_gradient_steps_learn_as_plain_ones(
    tmp_path: Path, case: str, changed: dict[str, Any], plain: dict[str, Any]
) -> None:
    expected = weights(tmp_path / "plain", case, {**plain, "fast_cpu": False})
    found = weights(tmp_path / "changed", case, changed)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("case", ["ppo", pytest.param("sac", marks=pytest.mark.learning)])
def test_bfloat16_learns_weights_in_float32_near_those_without_it(tmp_path: Path, case: str) -> None:
    expected = weights(tmp_path / "plain", case, {})
    found = weights(tmp_path / "bfloat16", case, {"bf16": True})
    assert found.keys() == expected.keys()
    moved = near = 0
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert array.dtype != np.float16 and np.isfinite(found[name]).all()
        moved += int((found[name] != array).sum())
        near += int((abs(found[name] - array) < 0.05).sum())
    total = sum(array.size for array in expected.values())
    assert moved > 0.5 * total  # of all numbers
    assert near > 0.9 * total


@pytest.mark.learning
def test_a_missing_compiler_is_named_with_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    torch._dynamo.reset()  # what other tests compiled
    monkeypatch.setattr(config.cpp, "cxx", (None, "/nowhere/c++"))
    monkeypatch.setattr(config, "force_disable_caches", True)
    with pytest.raises(
        ConfigError, match=r"torch_settings\.compile: .*cannot be compiled: .*/nowhere/c\+\+.*leave comp"
    ):
        train(tmp_path, "ppo", {"compile": True})
