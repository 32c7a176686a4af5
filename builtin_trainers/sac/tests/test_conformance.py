"""SAC keeps the rules of every plugin, of every trainer and of every trainer with memory."""

from __future__ import annotations

import pytest

from rlcore_devkit import MemoryTrainerConformance, PluginConformance, TrainerConformance

# An exact resume needs what was stored.
SMALL = {"batch_size": 32, "buffer_size": 2048, "learning_rate": 3e-3, "save_replay_buffer": True}


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-sac/sac"


@pytest.mark.smoke
class TestSAC(TrainerConformance):
    trainer = "rlcore-sac/sac"
    hyperparameters = {**SMALL, "buffer_init_steps": 32, "steps_per_update": 4}
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1}}
    steps = 30
    learns_within = 4000


class TestSACWithEveryOption(TrainerConformance):
    trainer = "sac"
    skip = {"test_two_ranks_learn_what_one_process_learns": "prioritized replay is refused in ranks"}
    hyperparameters = {
        **SMALL,
        "buffer_init_steps": 32,
        "n_steps": 3,
        "replay_sampler": {"type": "prioritized", "alpha": 0.6, "beta": 0.4},
        "steps_per_update": 2,
        "reward_signal_steps_per_update": 4,  # as many as a step brings: one update of the reward with each of ours
        "learning_rate_schedule": "linear",
        "tau": 0.02,
        "num_critics": 3,
        "policy_value": "mean",
        "policy_delay": 2,
        "init_entcoef": 0.5,
    }
    settings = {"network_settings": {"hidden_units": 16, "num_layers": 2, "normalize": True}, "max_steps": 10_000}
    num_envs = 4
    steps = 20
    learns_within = 2000

    @pytest.mark.learning
    def test_learns(self) -> None:
        super().test_learns()


TQC = {**SMALL, "buffer_init_steps": 32, "steps_per_update": 4, "num_critics": 2, "num_quantiles": 5}


class TestTQC(TrainerConformance):
    trainer = "rlcore-sac/tqc"
    hyperparameters = {**TQC, "dropped_quantiles": 1}
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1}}
    steps = 30
    learns_within = 4000


@pytest.mark.learning
class TestTQCWithMemory(MemoryTrainerConformance):
    trainer = "rlcore-sac/tqc"
    hyperparameters = {**TQC, "dropped_quantiles": 1}
    settings = {
        "network_settings": {
            "hidden_units": 32, "num_layers": 1, "memory": {"memory_size": 16, "sequence_length": 8, "burn_in": 2}
        }
    }  # fmt: skip
    steps = 60
    learns_within = 4000


@pytest.mark.learning
class TestSACWithMemory(MemoryTrainerConformance):
    trainer = "sac"
    hyperparameters = {**SMALL, "buffer_init_steps": 64, "steps_per_update": 4}
    settings = {
        "network_settings": {
            "hidden_units": 32, "num_layers": 1, "memory": {"memory_size": 16, "sequence_length": 8, "burn_in": 2}
        }
    }  # fmt: skip
    steps = 60
    learns_within = 4000
