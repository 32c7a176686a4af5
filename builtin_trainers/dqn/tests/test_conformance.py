"""DQN keeps the rules of every plugin and of every trainer, with each of its parts."""

from __future__ import annotations

import pytest

from rlcore_devkit import MemoryTrainerConformance, PluginConformance, TrainerConformance

# An exact resume needs what was stored.
SMALL = {"batch_size": 32, "buffer_size": 2048, "learning_rate": 3e-3, "epsilon_steps": 500, "save_replay_buffer": True}


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-dqn/dqn"


@pytest.mark.smoke
class TestDQN(TrainerConformance):
    trainer = "rlcore-dqn/dqn"
    hyperparameters = {**SMALL, "buffer_init_steps": 32, "steps_per_update": 4, "target_update_interval": 10}
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1}}
    steps = 30
    learns_within = 4000


class TestRainbow(TrainerConformance):
    """All that Rainbow joined: double, dueling, c51, noisy, of several steps, prioritized."""

    trainer = "dqn"
    skip = {"test_two_ranks_learn_what_one_process_learns": "prioritized replay is refused in ranks"}
    hyperparameters = {
        **SMALL,
        "buffer_init_steps": 32,
        "n_steps": 3,
        "replay_sampler": {"type": "prioritized", "alpha": 0.5, "beta": 0.4},
        "steps_per_update": 4,
        "dueling": True,
        "noisy": True,
        "distributional": "c51",
        "num_atoms": 11,
        "v_min": -2.0,
        "v_max": 5.0,
        "target_update_interval": 20,
    }
    settings = {
        "network_settings": {"hidden_units": 16, "num_layers": 2, "normalize": True},
        "max_steps": 10_000,
        "reward_signals": {"extrinsic": {"gamma": 0.5}},
    }
    steps = 30
    learns_within = 4000


@pytest.mark.learning
class TestQuantiles(TrainerConformance):
    """QR-DQN with dueling streams and a soft target network."""

    trainer = "dqn"
    hyperparameters = {
        **SMALL,
        "steps_per_update": 2,
        "distributional": "quantile",
        "num_quantiles": 5,
        "dueling": True,
        "double": False,
        "tau": 0.05,
        "learning_rate_schedule": "linear",
        "max_grad_norm": None,
    }
    settings = {"network_settings": {"hidden_units": 16, "num_layers": 1}, "max_steps": 10_000}
    steps = 30
    learns_within = 4000


@pytest.mark.learning
class TestDQNWithMemory(MemoryTrainerConformance):
    trainer = "dqn"
    hyperparameters = {**SMALL, "buffer_init_steps": 64, "steps_per_update": 8}
    settings = {
        "network_settings": {
            "hidden_units": 32, "num_layers": 1, "memory": {"memory_size": 16, "sequence_length": 8, "burn_in": 2}
        }
    }  # fmt: skip
    steps = 60
    learns_within = 4000
