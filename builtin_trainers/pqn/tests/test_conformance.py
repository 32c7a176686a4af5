"""PQN keeps the rules of plugins, of trainers and of trainers with memory, and its encoder those of encoders."""

from __future__ import annotations

import pytest

from rlcore_devkit import EncoderConformance, MemoryTrainerConformance, PluginConformance, TrainerConformance

SMALL = {"buffer_size": 256, "batch_size": 64, "learning_rate": 3e-3, "epsilon_steps": 4000}
NETWORK = {"hidden_units": 32, "num_layers": 1, "activation": "relu"}
STEPS = 195  # three updates, and one in a third of them


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-pqn/pqn"


@pytest.mark.smoke
class TestPQN(TrainerConformance):
    trainer = "rlcore-pqn/pqn"
    hyperparameters = SMALL
    settings = {"network_settings": {**NETWORK, "normalize": True}}
    steps = STEPS


@pytest.mark.learning
class TestPQNWithAdamAndShortTrajectories(TrainerConformance):
    trainer = "pqn"
    hyperparameters = {**SMALL, "optimizer": None, "normalize_rewards": True, "lambd": 0.0}
    settings = {"network_settings": {**NETWORK, "deterministic": True}, "time_horizon": 16}
    steps = STEPS


class TestPQNWithMemory(MemoryTrainerConformance):
    trainer = "pqn"
    hyperparameters = SMALL
    settings = {
        "network_settings": {**NETWORK, "memory": {"memory_size": 16, "sequence_length": 8}},
        "reward_signals": {"extrinsic": {"gamma": 0.5}},  # values are small then, as the outputs of eight units are
    }
    steps = 150


class TestEncoder(EncoderConformance):
    encoder = "rlcore-pqn/layer_norm_cnn"
