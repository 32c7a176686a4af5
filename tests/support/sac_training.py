"""Trainings of SAC in processes of their own, which find this module by its name."""

from __future__ import annotations

import os
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import gymnasium
import yaml
from landing import Landing

from rlcore import Run

EXAMPLES = Path(__file__).parents[2] / "examples"
PENDULUM, CARTPOLE, HYBRID = "pendulum_sac.yaml", "cartpole_sac.yaml", "hybrid"
EPISODES = {PENDULUM: 100, CARTPOLE: 20, HYBRID: 200}

HYBRID_CONFIG = """\
environment: {type: gymnasium, id: Landing-v0}
behaviors:
  Walker:
    trainer_type: sac
    hyperparameters:
      batch_size: 128
      buffer_size: 20000
      buffer_init_steps: 500
      learning_rate: 1.0e-3
      learning_rate_schedule: linear
      init_entcoef: 0.1
      tau: 0.01
    network_settings: {hidden_units: 64, activation: relu}
    max_steps: 15000
checkpoint_settings: {run_id: hybrid}
"""


def take_core(free: SimpleQueue[int]) -> None:
    """Keeps this process on a core of its own, where it trains with one thread."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {free.get()})


def train_and_evaluate(name: str, seed: int, directory: str) -> list[float]:
    """Returns of deterministic episodes after a training."""
    gymnasium.register("Landing-v0", Landing)
    text = HYBRID_CONFIG if name == HYBRID else (EXAMPLES / name).read_text(encoding="utf-8")
    config: dict[str, Any] = yaml.safe_load(text)
    config["env_settings"] = {"seed": seed}
    config["checkpoint_settings"]["results_dir"] = directory
    config["stats"] = {"console": False}
    [behavior] = config["behaviors"]
    with Run(config) as run:
        run.train()
        assert run.steps == config["behaviors"][behavior]["max_steps"]
        return list(run.evaluate(EPISODES[name]).behaviors[behavior].returns)
