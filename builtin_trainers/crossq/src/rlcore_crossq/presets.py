"""Values of CrossQ for continuous control: the presets of rlcore-crossq.

The records in :mod:`rlcore_crossq.plugin` cite the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["NARROW", "WIDE"]


def _preset(critic_units: int) -> Mapping[str, Any]:
    return MappingProxyType(
        {
            "environment": {"num_envs": 1},
            "default_settings": {
                "trainer_type": "crossq",
                "hyperparameters": {
                    "save_replay_buffer": "auto",
                    "buffer_size": 1_000_000,
                    "buffer_init_steps": 5000,
                    "batch_size": 256,
                    "learning_rate": 1e-3,
                    "policy_delay": 3,
                },
                "network_settings": {
                    "hidden_units": 256,
                    "num_layers": 2,
                    "activation": "relu",
                    "batch_norm": "post",
                    "batch_renorm_after": 100_000,
                    "critic": {"hidden_units": critic_units},
                },
                "max_steps": 100_000,
                "summary_freq": 1000,  # a gradient step takes longer than one of SAC
            },
        }
    )


NARROW: Mapping[str, Any] = _preset(critic_units=512)
"""The preset ``crossq``: continuous actions, on a CPU."""

WIDE: Mapping[str, Any] = _preset(critic_units=2048)
"""The preset ``crossq-wide``: continuous actions, as published."""
