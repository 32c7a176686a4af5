"""Values of PPO for four classes of environments: the presets of rlcore-ppo.

Each preset gives the keys in which PPO for its class differs from the defaults, which are ML-Agents' and meant for a
Unity scene with many agents. The records in :mod:`rlcore_ppo.plugin` cite the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["PPO_ATARI", "PPO_CONTINUOUS", "PPO_DISCRETE", "PPO_MUJOCO"]

_SMALL_TANH = {"hidden_units": 64, "num_layers": 2, "activation": "tanh", "init": "orthogonal"}

_NORMALIZED = {"normalize": True, "normalize_clip": 10.0}

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

PPO_DISCRETE: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 8},
        "default_settings": {
            "trainer_type": "ppo",
            "hyperparameters": {
                **_OF_VECTORS,
                "learning_rate": 7e-4,
                "beta": 0.01,
                "beta_schedule": "constant",
                "lambd": 0.98,
            },
            "network_settings": _SMALL_TANH,
            "reward_signals": {"extrinsic": {"gamma": 0.999}},
            "time_horizon": 256,
            "max_steps": 300_000,  # what LunarLander takes; CartPole and Acrobot take a third of it
            "summary_freq": 10_000,
        },
    }
)
"""The preset ``ppo-discrete``: discrete actions."""

PPO_CONTINUOUS: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 8},
        "default_settings": {
            "trainer_type": "ppo",
            "hyperparameters": {
                **_OF_VECTORS,
                "beta": 0.0,
                "lambd": 0.95,
                "initial_log_std": -0.5,
                "normalize_rewards": True,
            },
            "network_settings": {**_SMALL_TANH, **_NORMALIZED},
            "time_horizon": 256,
            "max_steps": 300_000,  # three times what Pendulum takes
            "summary_freq": 10_000,
        },
    }
)
"""The preset ``ppo-continuous``: continuous actions, alone or beside discrete ones."""

PPO_MUJOCO: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 8},
        "default_settings": {
            "trainer_type": "ppo",
            "hyperparameters": {
                **_OF_VECTORS,
                "buffer_size": 1024,  # 8 environments x 128 steps
                "beta": 0.0,
                "lambd": 0.95,
                "initial_log_std": -1.0,  # robots learn to walk from small actions, and need noise for a long time
                "target_kl": 0.03,  # without, updates of Ant grew until it unlearned to walk
                "normalize_rewards": True,
            },
            "network_settings": {**_SMALL_TANH, **_NORMALIZED},
            "time_horizon": 128,
            "max_steps": 1_000_000,  # of published tables
            "summary_freq": 20_000,
        },
    }
)
"""The preset ``ppo-mujoco``: robots with joints to move."""

PPO_ATARI: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 8},
        "default_settings": {
            "trainer_type": "ppo",
            "hyperparameters": {
                "buffer_size": 1024,  # 8 environments x 128 steps
                "batch_size": 256,
                "num_epoch": 4,
                "learning_rate": 2.5e-4,
                "learning_rate_schedule": "linear",
                "epsilon": 0.1,
                "epsilon_schedule": "constant",
                "beta": 0.01,
                "beta_schedule": "constant",
                "lambd": 0.95,
                "shared_critic": True,
                "advantage_normalization": "minibatch",
                "clip_rewards": 1.0,
            },
            "network_settings": {
                "vis_encode_type": "nature_cnn",
                "hidden_units": 512,
                "num_layers": 0,
                "activation": "relu",
                "init": "orthogonal",
            },
            "time_horizon": 128,
            "max_steps": 3_000_000,  # tables have 10,000,000, which take a CPU most of a day
            "summary_freq": 20_000,
        },
    }
)
"""The preset ``ppo-atari``: stacks of four frames of Atari's games."""
