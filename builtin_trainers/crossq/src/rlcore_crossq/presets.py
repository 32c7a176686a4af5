"""Values of CrossQ and XQC for continuous control: the presets of rlcore-crossq.

The records in :mod:`rlcore_crossq.plugin` cite the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["NARROW", "WIDE", "XQC", "XQC_PAPER"]


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


def _xqc_preset(
    critic_units: int, policy_units: int, max_steps: int, summary_freq: int, **learning: Any
) -> Mapping[str, Any]:
    return MappingProxyType(
        {
            "environment": {"num_envs": 1},
            "default_settings": {
                "trainer_type": "xqc",
                "hyperparameters": {
                    "save_replay_buffer": "auto",
                    "buffer_size": 1_000_000,
                    "buffer_init_steps": 5000,
                    "batch_size": 256,
                    "learning_rate": 3e-4,
                    "policy_delay": 3,
                    "tau": 0.005,
                    **learning,
                },
                "network_settings": {
                    "hidden_units": policy_units,
                    "num_layers": 4,
                    "activation": "relu",
                    "init": "orthogonal",
                    "batch_norm": "pre",
                    "critic": {"hidden_units": critic_units},
                },
                # 1 - 5 / T for episodes of T steps, between 0.95 and 0.995 (the authors' code); MuJoCo's have 1,000.
                "reward_signals": {"extrinsic": {"gamma": 0.995}},
                "max_steps": max_steps,
                "summary_freq": summary_freq,
            },
        }
    )


XQC: Mapping[str, Any] = _xqc_preset(
    critic_units=256,
    policy_units=128,
    max_steps=100_000,
    summary_freq=1000,
    steps_per_update=1.0,
    learning_rate_schedule="constant",  # a rate that falls over 100,000 steps would be another algorithm
)
"""The preset ``xqc``: continuous actions, on a CPU."""

XQC_PAPER: Mapping[str, Any] = _xqc_preset(
    critic_units=512,
    policy_units=256,
    max_steps=1_000_000,
    summary_freq=5000,
    steps_per_update=0.5,
    learning_rate_schedule="linear",
    final_learning_rate=3e-5,
)
"""The preset ``xqc-paper``: continuous actions, as published."""
