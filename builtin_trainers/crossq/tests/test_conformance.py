"""CrossQ and XQC keep the rules of every plugin and of every trainer."""

from __future__ import annotations

import pytest

from rlcore_devkit import PluginConformance, TrainerConformance

# An exact resume needs what was stored. Statistics that acting sees must follow those of few minibatches.
SMALL = {"batch_size": 32, "buffer_size": 2048, "learning_rate": 3e-3, "save_replay_buffer": True}
NETWORK = {"hidden_units": 32, "num_layers": 1, "activation": "relu", "batch_norm_momentum": 0.1}


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-crossq/crossq"


@pytest.mark.smoke
class TestCrossQ(TrainerConformance):
    trainer = "rlcore-crossq/crossq"
    hyperparameters = {**SMALL, "buffer_init_steps": 32, "steps_per_update": 4}
    settings = {"network_settings": {**NETWORK, "batch_renorm_after": 10}}
    steps = 30
    learns_within = 4000


class TestCrossQWithEveryOption(TrainerConformance):
    trainer = "crossq"
    hyperparameters = {
        **SMALL,
        "buffer_init_steps": 32,
        "n_steps": 3,
        "replay_sampler": {"type": "prioritized", "alpha": 0.6, "beta": 0.4},
        "steps_per_update": 4,
        "reward_signal_steps_per_update": 4,  # as many as a step brings: one update of the reward with each of ours
        "learning_rate_schedule": "linear",
        "critic_learning_rate": 2e-3,
        "temperature_learning_rate": 1e-3,
        "beta1": 0.9,
        "policy_delay": 2,
        "init_entcoef": 0.1,
        "target_entropy": -0.5,
    }
    settings = {
        "network_settings": {
            **NETWORK,
            "batch_norm": "pre",
            "batch_renorm_after": None,
            "critic": {"hidden_units": 24, "num_layers": 2, "blocks": "residual"},
            "normalize": True,
        },
        "max_steps": 10_000,
    }
    steps = 20
    learns_within = 4000

    @pytest.mark.learning
    def test_learns(self) -> None:
        super().test_learns()


@pytest.mark.smoke
class TestXQC(TrainerConformance):
    trainer = "rlcore-crossq/xqc"
    hyperparameters = {**SMALL, "buffer_init_steps": 64, "steps_per_update": 4, "tau": 0.05, "num_atoms": 21}
    settings = {"network_settings": NETWORK, "max_steps": 10_000}
    steps = 60
    learns_within = 4000


class TestXQCWithEveryOption(TrainerConformance):
    trainer = "xqc"
    hyperparameters = {
        **TestCrossQWithEveryOption.hyperparameters,
        "normalize_rewards_bound": 4.0,
        "learning_rate_schedule": "constant",
        "tau": 0.05,
        "num_atoms": 21,
        "v_min": -8.0,
        "v_max": 8.0,
    }
    settings = {
        "network_settings": {
            **NETWORK,
            "batch_norm": "post",
            "batch_renorm_after": 20,
            "critic": {"hidden_units": 24, "num_layers": 2, "blocks": "residual"},
            "normalize": True,
        },
        "max_steps": 10_000,
    }
    steps = 20
    learns_within = 4000

    @pytest.mark.learning
    def test_learns(self) -> None:
        super().test_learns()
