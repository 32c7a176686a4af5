"""Small trainings with workers, and what two of them must have in common."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import rlcore
from rlcore import SavedRun

# Schedules that do not depend on max_steps: a run that is continued equals one that was longer from the start.
STEADY = {"learning_rate_schedule": "constant", "beta_schedule": "constant", "epsilon_schedule": "constant"}
PPO: dict[str, Any] = {
    "trainer_type": "ppo",
    "hyperparameters": {"batch_size": 32, "buffer_size": 128, "num_epoch": 2, **STEADY},
    "network_settings": {"hidden_units": 8, "num_layers": 1, "normalize": True},
}
SAC: dict[str, Any] = {
    "trainer_type": "sac",
    "hyperparameters": {
        "batch_size": 32,
        "buffer_size": 1000,
        "buffer_init_steps": 100,
        "learning_rate_schedule": "constant",
        "save_replay_buffer": True,
    },
    "network_settings": {"hidden_units": 8, "num_layers": 1},
}
MEMORY = {"network_settings": {**PPO["network_settings"], "memory": {"memory_size": 8, "sequence_length": 8}}}
LESSONS = {
    "g": {
        "curriculum": [
            {
                "name": "light",
                "value": {"sampler_type": "uniform", "sampler_parameters": {"min_value": 4.0, "max_value": 8.0}},
                "completion_criteria": {
                    "behavior": "Player",
                    "measure": "reward",
                    "threshold": -1e6,
                    "min_lesson_length": 4,
                },
            },
            {"name": "heavy", "value": 10.0},
        ]
    }
}
PENDULUM = {"type": "gymnasium", "id": "Pendulum-v1", "num_envs": 3, "options": {"max_episode_steps": 30}}
# Saves no state.
LAKE = {"type": "gymnasium", "id": "FrozenLake-v1", "num_envs": 3, "options": {"max_episode_steps": 30}}
SLIPPERY = {
    "success_rate": {
        "curriculum": [
            {**LESSONS["g"]["curriculum"][0], "value": 0.5},
            {"name": "certain", "value": 0.9},
        ]
    }
}
DUEL = {"type": "pettingzoo", "id": "classic/tictactoe-v3", "num_envs": 4}
CASES: dict[str, dict[str, Any]] = {
    "ppo": {"environment": PENDULUM, "behavior": PPO},
    "memory": {"environment": PENDULUM, "behavior": {**PPO, **MEMORY}},
    "sac": {"environment": PENDULUM, "behavior": SAC},
    "curriculum": {"environment": PENDULUM, "behavior": PPO, "environment_parameters": LESSONS},
    "lake": {"environment": LAKE, "behavior": PPO, "environment_parameters": SLIPPERY},
    "corridor": {  # saves its state, and not in rows
        "plugins": {"local": ["rlcore_devkit.hooks"]},
        "environment": {"type": "testing", "id": "corridor", "num_envs": 3},
        "behavior": PPO,
    },
    "ghost": {
        "environment": DUEL,
        "behavior": {**PPO, "self_play": {"save_steps": 200, "team_change": 400, "swap_steps": 100}},
    },
}


def train(
    directory: Path, case: str, workers: Any, steps: int = 600, resume: bool = False, checkpoint: str | None = None
) -> None:
    parts = CASES[case]
    start = {"resume": resume, "checkpoint": checkpoint}
    rlcore.Run(
        {
            "environment": {**parts["environment"], "workers": workers},
            "plugins": parts.get("plugins", {}),
            "environment_parameters": parts.get("environment_parameters", {}),
            "behaviors": {
                "Player": {**parts["behavior"], "max_steps": steps, "summary_freq": 200, "checkpoint_interval": 300}
            },
            "checkpoint_settings": {"run_id": "run", "results_dir": str(directory), **start},
            "env_settings": {"seed": 5},
            "stats": {"console": False, "tensorboard": False},
        }
    ).train()


def copy_of_run(directory: Path, copy: Path) -> str:
    """Copy a run with all its checkpoints; return the step of the first one, to resume from it."""
    shutil.copytree(directory, copy)
    return min((path.name for path in (copy / "run" / "checkpoints").iterdir() if path.name.isdecimal()), key=int)


def arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        return [array for key in sorted(value) for array in arrays(value[key])]
    return [value] if isinstance(value, np.ndarray) else []


def weights(directory: Path) -> list[bytes]:
    return [array.tobytes() for array in arrays(SavedRun.open(directory / "run").models)]


def metrics(directory: Path) -> list[Any]:
    """The summaries, without what depends on the clock and on workers."""
    lines = [json.loads(line) for line in (directory / "run" / "metrics.jsonl").read_text().splitlines()]
    return [
        {
            **{key: value for key, value in line.items() if key not in ("time", "stats")},
            "stats": {
                tag: value
                for tag, value in line["stats"].items()
                if "Worker" not in tag and "Aborted" not in tag and "Per Second" not in tag
            },
        }
        for line in lines
    ]
