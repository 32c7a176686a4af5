"""Values of DQN for two classes of environments: the presets of rlcore-dqn.

The records in :mod:`rlcore_dqn.plugin` cite the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["DQN", "DQN_ATARI"]

DQN: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 1},
        "default_settings": {
            "trainer_type": "dqn",
            "hyperparameters": {
                "save_replay_buffer": "auto",
                "batch_size": 128,
                "buffer_size": 50_000,
                "buffer_init_steps": 1000,
                "steps_per_update": 2,
                "gradient_steps": 8,  # the policy acts unchanged for 16 steps, which finds MountainCar's flag
                "n_steps": 3,
                "learning_rate": 1e-3,
                "learning_rate_schedule": "linear",  # at a constant rate, returns swing until the last step
                "target_update_interval": 250,
                "epsilon_steps": 12_000,
                "final_epsilon": 0.05,
            },
            # Half of RL Zoo's width, with half of its gradient steps: about an eighth of the arithmetic.
            "network_settings": {"hidden_units": 128, "num_layers": 2, "activation": "relu", "init": "uniform"},
            "max_steps": 100_000,
            "summary_freq": 2000,  # the first one within a minute on a slow core
        },
    }
)
"""The preset ``dqn``: discrete actions."""

DQN_ATARI: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 1},
        "default_settings": {
            "trainer_type": "dqn",
            "hyperparameters": {
                "save_replay_buffer": "auto",
                "batch_size": 32,
                "buffer_size": 100_000,  # RL Zoo's: the paper's million frames take ten times the memory
                "buffer_init_steps": 50_000,
                "steps_per_update": 4,
                "learning_rate": 1e-4,  # Adam, as in RL Zoo; the paper has RMSProp with 2.5e-4
                "target_update_interval": 2500,  # 10,000 agent steps, as the authors' code counts
                "epsilon_steps": 250_000,  # 1,000,000 frames of 4 for each step
                "final_epsilon": 0.1,
                "double": False,
                "max_grad_norm": None,  # the loss limits each error instead
                "clip_rewards": 1.0,
            },
            "network_settings": {
                "vis_encode_type": "nature_cnn",
                "hidden_units": 512,
                "num_layers": 0,
                "activation": "relu",
                "init": "uniform",
            },
            "max_steps": 1_000_000,
            "summary_freq": 10_000,
        },
    }
)
"""The preset ``dqn-atari``: stacks of four frames of Atari's games."""
