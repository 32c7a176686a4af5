"""The encoder of the package by its name in a configuration: checked, shown, learned, saved and restored."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlcore import Run, load_policies
from rlcore_devkit import EncoderConformance, PluginConformance, RunRlcore

CONFIG: dict[str, Any] = {
    "preset": "none",
    "environment": {"type": "gymnasium", "id": "acme_cnn.quadrant:AcmeQuadrant-v0", "num_envs": 16},
    "env_settings": {"seed": 1},
    "behaviors": {
        "Quadrant": {
            "trainer_type": "ppo",
            "hyperparameters": {"batch_size": 256, "buffer_size": 1024, "learning_rate": 3e-3},
            "network_settings": {
                "hidden_layers": [64],
                "hidden_units": 64,
                "critic": {"hidden_layers": [64, 32]},
                "vis_encode_type": "pooled_cnn",
                "vis_encode_settings": {"channels": [8, 16]},
            },
            "max_steps": 20_480,
            "summary_freq": 4096,
        }
    },
    "checkpoint_settings": {"run_id": "quadrant"},
}

Configure = Callable[..., dict[str, Any]]


class TestPlugin(PluginConformance):
    plugin = "acme-cnn"


class TestEncoder(EncoderConformance):
    encoder = "acme-cnn/pooled_cnn"
    settings = {"channels": [8, 16]}


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """``configure(block, **network)``: the example's configuration with these changes, in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def changed(block: dict[str, Any] | None = None, **network: Any) -> dict[str, Any]:
        config = copy.deepcopy(CONFIG)
        behavior = config["behaviors"]["Quadrant"] | (block or {})
        behavior["network_settings"] = {**behavior["network_settings"], **network}
        return config | {"behaviors": {"Quadrant": behavior}, "stats": {"console": False}}

    return changed


def test_the_image_task_is_learned_and_the_policy_is_restored_from_its_checkpoint(configure: Configure) -> None:
    with Run(configure()) as run:
        run.train()
        assert run.evaluate(episodes=40).behaviors["Quadrant"].mean_reward >= 7.0  # guessing earns 2
        trained = run.behaviors["Quadrant"].policy
        (observation,) = trained.behavior.observations
        seen = {observation.name: np.random.default_rng(0).integers(0, 256, (32, 16, 16, 1), np.uint8)}
        expected = trained.act(seen).discrete
    np.testing.assert_array_equal(load_policies("results/quadrant")["Quadrant"].act(seen).discrete, expected)


def test_sac_takes_the_encoder_too(configure: Configure) -> None:
    block = {"trainer_type": "sac", "hyperparameters": {"batch_size": 16, "buffer_init_steps": 32}, "max_steps": 64}
    with Run(configure(block)) as run:
        run.train()
        assert run.behaviors["Quadrant"].trainer.steps >= 64


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"vis_encode_type": "poled_cnn"}, "unknown encoder 'poled_cnn'"),
        ({"vis_encode_type": "poled_cnn"}, "did you mean 'pooled_cnn'?"),
        (
            {"vector_encode_type": "pooled_cnn"},
            "of plugin 'acme-cnn' (acme-cnn 0.1.0) does not read vector observations",
        ),
        ({"vis_encode_settings": {"grid": 0}}, "vis_encode_settings.grid: must be at least 1, not 0"),
    ],
)
def test_validate_finds_mistakes_without_creating_a_network(
    configure: Configure, run_rlcore: RunRlcore, tmp_path: Path, network: dict[str, Any], message: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(configure(**network)))
    refused = run_rlcore("validate", str(config))
    assert refused.exit_code == 2 and message in refused.stdout + refused.stderr


def test_info_shows_what_the_encoder_reads_and_its_settings(run_rlcore: RunRlcore) -> None:
    shown = run_rlcore("plugins", "info", "pooled_cnn").stdout
    assert "encoder pooled_cnn:" in shown and "kinds image" in shown and "channels = (16, 32)" in shown
