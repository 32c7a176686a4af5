"""Values of SAC, RLPD and TQC for continuous control: the presets of rlcore-sac."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["RLPD", "SAC", "TQC", "TQC_PAPER"]

_LEARNING = {
    "save_replay_buffer": "auto",
    "buffer_size": 1_000_000,
    "batch_size": 256,
    "learning_rate": 3e-4,
    "tau": 0.005,
}
_NETWORK = {"hidden_units": 256, "num_layers": 2, "activation": "relu", "init": "uniform"}
_QUANTILES = {"num_quantiles": 25, "dropped_quantiles": 2}

SAC: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 1},
        "default_settings": {
            "trainer_type": "sac",
            "hyperparameters": {**_LEARNING, "buffer_init_steps": 1000},
            "network_settings": _NETWORK,
            "max_steps": 100_000,  # 5 to 15 minutes of a core; robots that walk need as many as 1,000,000
            "summary_freq": 2000,  # the first one within a minute on a slow core
        },
    }
)
"""The preset ``sac``: continuous actions."""

RLPD: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 1},
        "default_settings": {
            "trainer_type": "sac",
            "hyperparameters": {
                **_LEARNING,
                # Only users know where theirs is: without this directory, a run is refused at its start.
                "prior_data": {"demo_path": "recordings", "share": 0.5},
                "buffer_init_steps": 5000,
                "steps_per_update": 0.05,
                "policy_delay": 20,
                "policy_value": "mean",
                "num_critics": 10,
                "target_critics": 2,
                "continuous_target_entropy": -0.5,
            },
            "network_settings": {**_NETWORK, "critic": {"layer_norm": True}},
            "max_steps": 100_000,
            "summary_freq": 1000,  # 20 gradient steps of ten critics in each step
        },
    }
)
"""The preset ``rlpd``: continuous actions, with recorded transitions in each minibatch."""

TQC: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 1},
        "default_settings": {
            "trainer_type": "tqc",
            "hyperparameters": {**_LEARNING, **_QUANTILES, "buffer_init_steps": 1000, "num_critics": 2},
            "network_settings": _NETWORK,
            "max_steps": 100_000,
            "summary_freq": 2000,  # the first one within a minute on a slow core
        },
    }
)
"""The preset ``tqc``: continuous actions on a CPU."""

TQC_PAPER: Mapping[str, Any] = MappingProxyType(
    {
        "environment": {"num_envs": 1},
        "default_settings": {
            "trainer_type": "tqc",
            "hyperparameters": {**_LEARNING, **_QUANTILES, "num_critics": 5},
            "network_settings": {**_NETWORK, "critic": {"hidden_units": 512, "num_layers": 3}},
            "max_steps": 1_000_000,
            "summary_freq": 10_000,
        },
    }
)
"""The preset ``tqc-paper``: the critics of the paper."""
