"""PPO keeps the rules of every plugin and of every trainer."""

from __future__ import annotations

import pytest

from rlcore_devkit import PluginConformance, TrainerConformance


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-ppo/ppo"


@pytest.mark.smoke
class TestPPO(TrainerConformance):
    trainer = "rlcore-ppo/ppo"
    hyperparameters = {"buffer_size": 256, "batch_size": 64, "learning_rate": 3e-3}
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1, "normalize": True}}


class TestPPOWithASharedBodyAndEveryOption(TrainerConformance):
    trainer = "ppo"
    hyperparameters = {
        "buffer_size": 256,
        "batch_size": 64,
        "learning_rate": 3e-3,
        "shared_critic": True,
        "value_clip": 0.5,
        "target_kl": 0.05,
        "advantage_normalization": "minibatch",
    }
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1}, "time_horizon": 16}
