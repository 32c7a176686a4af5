"""TD3 and DDPG keep the rules of every plugin and of every trainer."""

from __future__ import annotations

import pytest

from rlcore_devkit import MemoryTrainerConformance, PluginConformance, TrainerConformance

# An exact resume needs what was stored.
SMALL = {"batch_size": 32, "buffer_size": 2048, "learning_rate": 3e-3, "save_replay_buffer": True}


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-td3/td3"


@pytest.mark.smoke
class TestTD3(TrainerConformance):
    trainer = "rlcore-td3/td3"
    hyperparameters = {**SMALL, "buffer_init_steps": 32, "steps_per_update": 4}
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1}}
    steps = 30
    learns_within = 4000


class TestDDPG(TrainerConformance):
    trainer = "rlcore-td3/ddpg"
    hyperparameters = {**SMALL, "buffer_init_steps": 32, "steps_per_update": 4}
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1}}
    steps = 20
    learns_within = 4000


class TestTD3WithEveryOption(TrainerConformance):
    trainer = "td3"
    skip = {"test_two_ranks_learn_what_one_process_learns": "prioritized replay is refused in ranks"}
    hyperparameters = {
        **SMALL,
        "buffer_init_steps": 32,
        "n_steps": 3,
        "replay_sampler": {"type": "prioritized", "alpha": 0.6, "beta": 0.4},
        "steps_per_update": 4,
        "reward_signal_steps_per_update": 4,  # as many as a step brings: one update of the reward with each of ours
        "learning_rate_schedule": "linear",
        "tau": 0.02,
        "num_critics": 3,
        "actor_delay": 2,
        "exploration_noise_type": "ornstein_uhlenbeck",
        "exploration_noise": 0.3,
        "ou_dt": 0.1,
    }
    settings = {
        "network_settings": {
            "hidden_layers": [16, 12],
            "critic": {"hidden_layers": [20, 10]},
            "activation": "relu",
            "normalize": True,
        },
        "max_steps": 10_000,
    }
    steps = 20
    learns_within = 2500

    @pytest.mark.learning
    def test_learns(self) -> None:
        super().test_learns()


@pytest.mark.learning
class TestTD3WithMemory(MemoryTrainerConformance):
    trainer = "td3"
    hyperparameters = {**SMALL, "buffer_init_steps": 64, "steps_per_update": 8}
    settings = {
        "network_settings": {
            "hidden_units": 32, "num_layers": 1, "memory": {"memory_size": 16, "sequence_length": 8, "burn_in": 2}
        }
    }  # fmt: skip
    steps = 60
    learns_within = 4000
