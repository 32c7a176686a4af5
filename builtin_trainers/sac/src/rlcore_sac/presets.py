"""Values of SAC for two classes of environments: the presets of rlcore-sac.

The records in :mod:`rlcore_sac.plugin` cite the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["SAC", "SAC_DISCRETE"]

SAC: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 1},
        "default_settings": {
            "trainer_type": "sac",
            "hyperparameters": {
                "save_replay_buffer": "auto",
                "buffer_size": 1_000_000,
                "buffer_init_steps": 1000,
                "batch_size": 256,
                "learning_rate": 3e-4,
                "tau": 0.005,
            },
            "network_settings": {"hidden_units": 256, "num_layers": 2, "activation": "relu", "init": "uniform"},
            "max_steps": 100_000,  # 5 to 15 minutes of a core; robots that walk take up to 1,000,000
            "summary_freq": 2000,  # the first one within a minute on a slow core
        },
    }
)
"""The preset ``sac``: continuous actions."""

SAC_DISCRETE: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 1},
        "default_settings": {
            "trainer_type": "sac",
            "hyperparameters": {
                "save_replay_buffer": "auto",
                "buffer_size": 100_000,
                "buffer_init_steps": 1000,
                "batch_size": 128,
                "learning_rate": 1e-3,
                "learning_rate_schedule": "linear",  # at a constant rate, returns swing until the last step
                "tau": 0.02,
                "init_entcoef": 0.2,
                "steps_per_update": 2,
                "gradient_steps": 8,  # the policy acts unchanged for 16 steps; with 1, Acrobot never swung up
                "n_steps": 3,
            },
            "network_settings": {"hidden_units": 128, "num_layers": 2, "activation": "relu", "init": "uniform"},
            "max_steps": 100_000,
            "summary_freq": 2000,  # the first one within a minute on a slow core
        },
    }
)
"""The preset ``sac-discrete``: discrete actions."""
