"""Values of APPO for two classes of environments: the presets of rlcore-actors.

They are those of ``ppo-discrete`` and ``ppo-continuous``, with fewer passes: transitions of actors are some updates old
already. The records in :mod:`rlcore_actors.plugin` cite the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["APPO_CONTINUOUS", "APPO_DISCRETE"]

_SMALL_TANH = {"hidden_units": 64, "num_layers": 2, "activation": "tanh", "init": "orthogonal"}

_OF_VECTORS = {
    "buffer_size": 1024,  # 8 environments x 128 steps
    "batch_size": 64,
    "num_epoch": 4,
    "learning_rate": 3e-4,
    "learning_rate_schedule": "linear",
    "epsilon": 0.2,
    "epsilon_schedule": "constant",
    "advantage_normalization": "minibatch",
    "lambd": 0.95,
}

APPO_DISCRETE: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 8},
        "default_settings": {
            "trainer_type": "appo",
            "hyperparameters": {**_OF_VECTORS, "beta": 0.01, "beta_schedule": "constant"},
            "network_settings": _SMALL_TANH,
            "reward_signals": {"extrinsic": {"gamma": 0.99}},
            "time_horizon": 128,
            "max_steps": 300_000,
            "summary_freq": 10_000,
        },
    }
)
"""The preset ``appo-discrete``: discrete actions."""

APPO_CONTINUOUS: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 8},
        "default_settings": {
            "trainer_type": "appo",
            "hyperparameters": {**_OF_VECTORS, "beta": 0.0, "initial_log_std": -0.5, "normalize_rewards": True},
            "network_settings": {**_SMALL_TANH, "normalize": True, "normalize_clip": 10.0},
            "time_horizon": 128,
            "max_steps": 300_000,
            "summary_freq": 10_000,
        },
    }
)
"""The preset ``appo-continuous``: continuous actions, alone or beside discrete ones."""
