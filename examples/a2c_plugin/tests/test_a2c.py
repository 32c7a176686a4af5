"""Tests of the plugin and the trainer. They need `rlcore-ppo`, `rlcore-gymnasium`, and this package installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import Run, load_config, load_plugins, read_document
from rlcore_devkit import PluginConformance, TrainerConformance

EXAMPLE = Path(__file__).parents[1] / "cartpole.yaml"


class TestPlugin(PluginConformance):
    plugin = "rlcore-a2c/a2c"


class TestA2C(TrainerConformance):
    trainer = "a2c"
    hyperparameters = {"buffer_size": 64, "learning_rate": 0.01, "optimizer": {"type": "adam"}}
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1}}
    steps = 200
    learns_within = 20_000


def model_after(directory: Path, trainer: str, environment: str, **hyperparameters: Any) -> dict[str, Any]:
    """The weights after 25 updates of 40 steps, with the end of many episodes among them."""
    document = {
        "preset": "none",
        "environment": {"type": "gymnasium", "id": environment, "num_envs": 8},
        "env_settings": {"seed": 4},
        "behaviors": {
            "Agent": {
                "trainer_type": trainer,
                "hyperparameters": {"buffer_size": 40, "learning_rate": 7e-4, "max_grad_norm": 0.5, **hyperparameters},
                "network_settings": {"hidden_units": 32, "init": "orthogonal"},
                "max_steps": 1000,
            }
        },
        "checkpoint_settings": {"run_id": trainer, "results_dir": str(directory)},
        "stats": {"console": False},
    }
    with Run(document) as run:
        run.train()
        model: dict[str, Any] = run.behaviors["Agent"].trainer.state_dict()["model"]
        return model


@pytest.mark.parametrize("environment", ["CartPole-v1", "Pendulum-v1"])
def test_a2c_is_ppo_with_one_epoch_and_one_minibatch(tmp_path: Path, environment: str) -> None:
    """Huang et al. 2022 (arXiv:2205.09123): the ratio is 1, so that clipping has no effect."""
    as_ppo = {
        "num_epoch": 1, "batch_size": 40, "lambd": 1.0, "advantage_normalization": "none", "beta": 0.01,
        "beta_schedule": "constant", "learning_rate_schedule": "constant",
    }  # fmt: skip
    ours = model_after(tmp_path, "a2c", environment, beta=0.01)
    theirs = model_after(tmp_path, "ppo", environment, **as_ppo)
    first = model_after(tmp_path / "first", "a2c", environment, beta=0.01, buffer_size=2000)
    assert ours.keys() == theirs.keys()
    for name, weights in ours.items():
        np.testing.assert_allclose(weights, theirs[name], rtol=0, atol=2e-6, err_msg=name)
        assert abs(weights - first[name]).max() > 1e-3, "no update has moved the weights"


def test_cartpole_is_balanced_after_the_example(tmp_path: Path) -> None:
    """About a minute."""
    document = read_document(EXAMPLE)
    assert load_config(document, load_plugins()).behaviors
    with Run({**document.data, "checkpoint_settings": {"run_id": "run", "results_dir": str(tmp_path)}}) as run:
        scores = [epoch.evaluation.score for epoch in run if epoch.evaluation is not None]
    print(scores)
    assert max(scores) >= 400
