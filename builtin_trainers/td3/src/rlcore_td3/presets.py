"""Values of TD3 and DDPG for continuous control: the presets of rlcore-td3.

The records in :mod:`rlcore_td3.plugin` cite the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["DDPG", "TD3"]

TD3: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 1},
        "default_settings": {
            "trainer_type": "td3",
            "hyperparameters": {
                "save_replay_buffer": "auto",
                "buffer_size": 1_000_000,
                "buffer_init_steps": 1000,  # the paper's for all but HalfCheetah and Ant, which have 10,000
                "batch_size": 256,
                "learning_rate": 1e-3,
                "tau": 0.005,
                "actor_delay": 2,
                "exploration_noise": 0.1,
                "target_noise": 0.2,
                "target_noise_clip": 0.5,
            },
            "network_settings": {"hidden_units": 256, "num_layers": 2, "activation": "relu", "init": "uniform"},
            "max_steps": 100_000,  # 5 to 15 minutes of a core; robots that walk need as many as 1,000,000
            "summary_freq": 2000,  # the first one within a minute on a slow core
        },
    }
)
"""The preset ``td3``: continuous actions."""

DDPG: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 1},
        "default_settings": {
            "trainer_type": "ddpg",
            "hyperparameters": {
                "save_replay_buffer": "auto",
                "buffer_size": 1_000_000,
                "buffer_init_steps": 1000,
                "batch_size": 256,
                "learning_rate": 1e-3,
                "tau": 0.005,  # the paper's 0.001 is slower than needed with this batch
                "exploration_noise": 0.1,
            },
            "network_settings": {"hidden_units": 256, "num_layers": 2, "activation": "relu", "init": "uniform"},
            "max_steps": 100_000,
            "summary_freq": 2000,
        },
    }
)
"""The preset ``ddpg``: continuous actions."""
