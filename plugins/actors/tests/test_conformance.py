"""The plugin keeps the rules of all plugins, and its trainers those of all trainers and of trainers with memory."""

from __future__ import annotations

import pytest

from rlcore_devkit import MemoryTrainerConformance, PluginConformance, TrainerConformance

SMALL = {"buffer_size": 256, "batch_size": 64, "learning_rate": 3e-3, "num_epoch": 3, "lambd": 0.95}
NETWORK = {"hidden_units": 32, "num_layers": 1}
STEPS = 195  # three updates, and one in a third of them


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-actors/actors"


@pytest.mark.smoke
class TestAPPO(TrainerConformance):
    trainer = "rlcore-actors/appo"
    hyperparameters = SMALL
    settings = {"network_settings": {**NETWORK, "normalize": True}}
    steps = STEPS


@pytest.mark.learning
class TestIMPALA(TrainerConformance):
    trainer = "impala"
    hyperparameters = {**SMALL, "shared_critic": True}
    settings = {"network_settings": NETWORK, "time_horizon": 16}
    steps = STEPS


@pytest.mark.learning
class TestAPPOWithMemory(MemoryTrainerConformance):
    trainer = "appo"
    hyperparameters = SMALL
    settings = {"network_settings": {**NETWORK, "memory": {"memory_size": 16, "sequence_length": 8}}}
    steps = 150
