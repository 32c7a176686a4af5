"""TD7 and its replay sampler keep the rules of every plugin, of every trainer and of every sampler."""

from __future__ import annotations

import pytest

from rlcore_devkit import PluginConformance, ReplaySamplerConformance, TrainerConformance

# An exact resume needs what was stored. Targets move within the few gradient steps of a test.
SMALL = {
    "batch_size": 32,
    "buffer_size": 2048,
    "buffer_init_steps": 32,
    "learning_rate": 3e-3,
    "save_replay_buffer": True,
    "steps_per_update": 4,
    "embedding_units": 16,
    "target_update_interval": 2,
}
NETWORK = {"hidden_units": 32, "num_layers": 1, "activation": "relu", "critic": {"activation": "elu"}}


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-td7/td7"


@pytest.mark.smoke
class TestTD7(TrainerConformance):
    trainer = "rlcore-td7/td7"
    hyperparameters = SMALL
    settings = {"network_settings": NETWORK}
    steps = 30
    learns_within = 4000


@pytest.mark.learning
class TestTD7WithOtherOptions(TrainerConformance):
    trainer = "td7"
    hyperparameters = {**SMALL, "replay_sampler": None, "actor_delay": 1, "learning_rate_schedule": "linear"}
    settings = {"network_settings": {**NETWORK, "normalize": True}, "max_steps": 10_000}
    steps = 20
    learns_within = 4000


class TestLAP(ReplaySamplerConformance):
    sampler = "rlcore-td7/lap"
