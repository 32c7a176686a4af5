"""Values of PQN for two classes of environments: the presets of rlcore-pqn.

The records in :mod:`rlcore_pqn.plugin` cite the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["PQN", "PQN_IMAGES"]

PQN: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 16},
        "default_settings": {
            "trainer_type": "pqn",
            "hyperparameters": {
                "buffer_size": 2048,  # 16 environments x 128 steps
                "batch_size": 128,
                "num_epoch": 4,
                "normalize_rewards": True,  # values of Acrobot took half of the training to fall to -100 without
                "learning_rate": 2.5e-4,
                "learning_rate_schedule": "linear",
                "lambd": 0.65,
                "epsilon_steps": 250_000,
                "final_epsilon": 0.05,
            },
            "network_settings": {"hidden_layers": [120, 84], "activation": "relu", "init": "orthogonal"},
            "time_horizon": 128,
            "max_steps": 500_000,
            "summary_freq": 10_000,
        },
    }
)
"""The preset ``pqn``: discrete actions and vectors."""

PQN_IMAGES: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 128},
        "default_settings": {
            "trainer_type": "pqn",
            "hyperparameters": {
                "buffer_size": 4096,  # 128 environments x 32 steps
                "batch_size": 128,
                "num_epoch": 2,
                "learning_rate": 5e-4,
                "learning_rate_schedule": "linear",
                "lambd": 0.65,
                "epsilon_steps": 300_000,
                "final_epsilon": 0.05,
            },
            "network_settings": {"hidden_units": 128, "num_layers": 0, "activation": "relu", "init": "orthogonal"},
            "time_horizon": 32,
            "max_steps": 3_000_000,
            "summary_freq": 50_000,
        },
    }
)
"""The preset ``pqn-images``: discrete actions and images."""
