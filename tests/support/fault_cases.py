"""Runs of every kind that must survive a kill, small enough to be killed many times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlcore import RecordingAbout, RunContext, config_from_mapping, load_plugins
from rlcore_devkit.conformance.recordings import record
from rlcore_offline import InstalledRecordings

SAC = {
    "trainer_type": "sac",
    "hyperparameters": {
        "batch_size": 32,
        "buffer_size": 1000,  # full long before the end
        "buffer_init_steps": 300,
        "steps_per_update": 7,
        "n_steps": 3,
        "replay_sampler": {"type": "prioritized"},
        "save_replay_buffer": True,
    },
}
# Each step of these is a gradient step.
OFFLINE = {
    "environment": "CartPole-v1",
    "hyperparameters": {"batch_size": 32, "demo_path": "recorded"},
    "max_steps": 600,
    "summary_freq": 150,
    "checkpoint_interval": 100,
}
# CartPole and Pendulum save their state: episodes continue over a checkpoint. Taxi cannot: its copies begin new
# episodes at every checkpoint, in both runs. IQL learns from recorded data and steps no environment.
CASES: dict[str, dict[str, Any]] = {
    "PPO, CartPole-v1": {"environment": "CartPole-v1"},
    "PPO, Taxi-v4": {"environment": "Taxi-v4"},
    "SAC, CartPole-v1": {"environment": "CartPole-v1", **SAC},
    "SAC, Pendulum-v1": {"environment": "Pendulum-v1", **SAC},
    "PPO with memory, CartPole-v1": {
        "environment": "CartPole-v1",
        "network_settings": {"hidden_units": 16, "num_layers": 1, "memory": {"memory_size": 8, "sequence_length": 8}},
    },
    "IQL, CartPole-v1": {"trainer_type": "iql", **OFFLINE},
}
LENGTHS = [
    {"sampler_type": "uniform", "sampler_parameters": {"min_value": low, "max_value": low + 0.2}} for low in (0.3, 0.4)
]
# Of every kind that random kills are tried on.
ATTACKED: dict[str, dict[str, Any]] = {
    **CASES,
    "PPO evaluated": {"environment": "Taxi-v4", "evaluation": {"interval": 150, "episodes": 2}},
    "SAC without its buffer's priorities": {
        "environment": "CartPole-v1",
        **SAC,
        "hyperparameters": {**SAC["hyperparameters"], "replay_sampler": None, "n_steps": 1},
    },
    "BC": {"trainer_type": "bc", **OFFLINE},
    "imitation": {
        "environment": "CartPole-v1",
        "behavioral_cloning": {"demo_path": "recorded", "samples_per_update": 128},
    },
    "lessons": {
        "environment": "CartPole-v1",
        "environment_parameters": {
            "length": {
                "curriculum": [
                    {
                        "name": "short",
                        "value": LENGTHS[0],
                        "completion_criteria": {"behavior": "Agent", "threshold": 5.0, "min_lesson_length": 20},
                    },
                    {"name": "long", "value": LENGTHS[1]},
                ]
            }
        },
    },
    "ADR": {
        "environment": "CartPole-v1",
        "environment_parameters": {
            "length": {
                "curriculum": {
                    "type": "adr", "behavior": "Agent", "initial": 0.5, "limits": [0.1, 2.0], "step": 0.05,
                    "boundary_probability": 0.8, "episodes": 2, "lower_threshold": 1.0, "upper_threshold": 12.0,
                }
            }
        },
    },
}  # fmt: skip


def record_cartpole(path: Path) -> None:
    """Random actions in CartPole, as ``rlcore evaluate --record`` writes them."""
    plugins = load_plugins()
    document = {"environment": {"type": "gymnasium", "id": "CartPole-v1"}, "behaviors": {"Agent": {}}}
    config = config_from_mapping(document, plugins)
    assert config.environment is not None
    context = RunContext(config, plugins, path.parent, seed=1, num_envs=1)
    environment = plugins.create_environment(plugins.environment("gymnasium"), config.environment, context)
    recording = record(environment, 1500)
    writer = InstalledRecordings(plugins).format().resolve()().writer(path, recording.behavior, RecordingAbout())
    writer.write(recording)
    writer.close()
