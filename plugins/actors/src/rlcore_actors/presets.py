"""Values of APPO for two classes of environments: the presets of rlcore-actors.

They are those of ``ppo-continuous``, and those of ``ppo-discrete`` with a learning rate of 3e-4. The records in
:mod:`rlcore_actors.plugin` cite the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["APPO_CONTINUOUS", "APPO_DISCRETE"]

_SMALL_TANH = {"hidden_units": 64, "num_layers": 2, "activation": "tanh", "init": "orthogonal"}

_OF_VECTORS = {
    "buffer_size": 2048,  # 8 environments x 256 steps
    "batch_size": 64,
    "num_epoch": 10,
    "learning_rate": 3e-4,
    "learning_rate_schedule": "linear",
    "epsilon": 0.2,
    "epsilon_schedule": "constant",
    "advantage_normalization": "minibatch",
}

APPO_DISCRETE: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 8},
        "default_settings": {
            "trainer_type": "appo",
            "hyperparameters": {
                **_OF_VECTORS,
                "beta": 0.01,
                "beta_schedule": "constant",
                "lambd": 0.98,
            },
            "network_settings": _SMALL_TANH,
            "reward_signals": {"extrinsic": {"gamma": 0.999}},
            "time_horizon": 256,
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
            "hyperparameters": {
                **_OF_VECTORS,
                "beta": 0.0,
                "lambd": 0.95,
                "initial_log_std": -0.5,
                "normalize_rewards": True,
            },
            "network_settings": {**_SMALL_TANH, "normalize": True, "normalize_clip": 10.0},
            "time_horizon": 256,
            "max_steps": 300_000,
            "summary_freq": 10_000,
        },
    }
)
"""The preset ``appo-continuous``: continuous actions, alone or beside discrete ones."""
