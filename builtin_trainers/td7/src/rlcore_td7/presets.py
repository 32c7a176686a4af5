"""Values of TD7 for continuous control: the preset of rlcore-td7."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["TD7"]

TD7: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 1},
        "default_settings": {
            "trainer_type": "td7",
            "hyperparameters": {
                "save_replay_buffer": "auto",
                "buffer_size": 1_000_000,
                "buffer_init_steps": 25_000,
                "batch_size": 256,
                "learning_rate": 3e-4,
                "target_update_interval": 250,
                "exploration_noise": 0.1,
            },
            "network_settings": {
                "hidden_units": 256,
                "num_layers": 2,
                "activation": "relu",
                "critic": {"activation": "elu"},  # of the encoders too
                "init": "uniform",
            },
            "max_steps": 300_000,  # the shorter one of the paper's two lengths
            "summary_freq": 2000,
        },
    }
)
"""The preset ``td7``: continuous actions."""
