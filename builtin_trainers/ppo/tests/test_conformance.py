"""PPO keeps the rules of every plugin, of every trainer and of every trainer with memory."""

from __future__ import annotations

import pytest

from rlcore_devkit import MemoryTrainerConformance, PluginConformance, TrainerConformance

SMALL = {"buffer_size": 256, "batch_size": 64, "learning_rate": 3e-3}
NETWORK = {"hidden_units": 32, "num_layers": 1}
STEPS = 195  # three updates, and one in a third of them


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-ppo/ppo"


@pytest.mark.smoke
class TestPPO(TrainerConformance):
    trainer = "rlcore-ppo/ppo"
    hyperparameters = SMALL
    settings = {"network_settings": {**NETWORK, "normalize": True}}
    steps = STEPS


class TestPPOWithASharedBodyAndEveryOption(TrainerConformance):
    trainer = "ppo"
    hyperparameters = {
        **SMALL, "shared_critic": True, "value_clip": 0.5, "target_kl": 0.05, "advantage_normalization": "minibatch",
    }  # fmt: skip
    settings = {"network_settings": NETWORK, "time_horizon": 16}
    steps = STEPS


class TestPPOWithMemory(MemoryTrainerConformance):
    trainer = "ppo"
    hyperparameters = SMALL
    settings = {"network_settings": {**NETWORK, "memory": {"memory_size": 16, "sequence_length": 8}}}
    steps = 150
