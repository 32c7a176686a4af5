"""Conformance tests of the plugin and the trainer. They need `rlcore[torch]`, pytest, and this package installed."""

from __future__ import annotations

from rlcore_devkit import PluginConformance, TrainerConformance


class TestPlugin(PluginConformance):
    plugin = "rlcore-dqn/dqn"


class TestDQN(TrainerConformance):
    trainer = "dqn"
    hyperparameters = {
        "batch_size": 32,
        "buffer_size": 5000,
        "learning_rate": 3e-3,
        "exploration_steps": 500,
        "save_replay_buffer": True,
    }
    learns_within = 4000
    skip = {"test_rewards_that_learn_are_updated_saved_and_restored": "it uses two discounts; dqn supports one"}
