"""Small trainings, in workers too, and what two of them must have in common."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from small_runs import data

import rlcore
from rlcore import SavedRun

CASES: dict[str, dict[str, Any]] = data("worker_runs")
PPO, SAC = CASES["ppo"]["behavior"], CASES["sac"]["behavior"]


def train(directory: Path, case: str, workers: Any, steps: int = 600, resume: bool = False) -> None:
    parts = CASES[case]
    rlcore.Run(
        {
            "environment": {**parts["environment"], "workers": workers},
            "plugins": parts.get("plugins", {}),
            "environment_parameters": parts.get("environment_parameters", {}),
            "behaviors": {
                "Player": {**parts["behavior"], "max_steps": steps, "summary_freq": 200, "checkpoint_interval": 300}
            },
            "checkpoint_settings": {"run_id": "run", "results_dir": str(directory), "resume": resume},
            "env_settings": {"seed": 5},
            "stats": {"console": False, "tensorboard": False},
        }
    ).train()


def train_in(environment: dict[str, Any], directory: Path, steps: int, interval: int, **blocks: Any) -> None:
    """Train PPO for ``steps``, with a summary and a checkpoint at each ``interval``; ``blocks`` are further ones."""
    often = {"summary_freq": interval, "checkpoint_interval": interval, "keep_checkpoints": 9}
    place = {"run_id": "run", "results_dir": str(directory), **blocks.pop("checkpoint_settings", {})}
    rlcore.Run(
        {
            "environment": environment,
            "behaviors": {"Player": {**PPO, "max_steps": steps, **often}},
            "checkpoint_settings": place,
            "env_settings": {"seed": 5},
            "stats": {"console": False, "tensorboard": False},
            **blocks,
        }
    ).train()


def arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        return [array for key in sorted(value) for array in arrays(value[key])]
    return [value] if isinstance(value, np.ndarray) else []


def weights(directory: Path, checkpoint: str = "last") -> list[bytes]:
    return [array.tobytes() for array in arrays(SavedRun.open(directory / "run", checkpoint).models)]


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
