"""Trainings with and without a curriculum."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import yaml

from rlcore import Run, SavedRun, config_from_mapping, load_plugins

LOCK, DIALS, CARTPOLE = "combination lock", "dials", "CartPole"
NONE, LESSONS, ADR = "no curriculum", "lessons", "adr"
PROGRESS, LEVELS = "learning progress", "prioritized levels"
NOMINAL = (0.5, 9.8)  # CartPole's length and gravity
CORNERS = tuple(product((0.125, 1.0), (4.9, 19.6)))  # a quarter and twice the length, half and twice the gravity

TOLERANCES = [0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05, 0.03, 0.02, 0.015, 0.01]

LOCK_CONFIG = """\
plugins: {local: [locks]}
environment: {type: lock, id: combination, num_envs: 16}
evaluation: {interval: 100000, environment_parameters: {start: 12}}
behaviors:
  Lock:
    trainer_type: ppo
    hyperparameters:
      batch_size: 256
      buffer_size: 1024
      learning_rate: 3.0e-3
      learning_rate_schedule: constant
      beta: 0.01
      num_epoch: 4
      # Returns as they are, so that nothing but the reward can teach: an untrained critic that by accident expects
      # something of what follows would teach to stay alive.
      lambd: 1.0
      advantage_normalization: none
    network_settings: {hidden_units: 64, num_layers: 1, activation: tanh}
    max_steps: 100000
    summary_freq: 20000
    checkpoint_interval: 100000
"""

DIALS_CONFIG = """\
plugins: {local: [locks]}
environment: {type: lock, id: dials, num_envs: 4}
behaviors:
  Lock:
    trainer_type: sac
    network_settings: {hidden_units: 64, activation: relu}
    hyperparameters:
      batch_size: 128
      buffer_size: 20000
      buffer_init_steps: 500
      learning_rate: 1.0e-3
      learning_rate_schedule: linear
      init_entcoef: 0.1
      tau: 0.01
      continuous_target_entropy: -5.0  # a tolerance of 0.01 leaves no room for more
    max_steps: 12000
    summary_freq: 2000
    checkpoint_interval: 12000
"""

CARTPOLE_CONFIG = """\
environment: {type: gymnasium, id: CartPole-v1, num_envs: 64}
behaviors:
  Pole:
    trainer_type: ppo
    hyperparameters:
      batch_size: 1024
      buffer_size: 8192
      learning_rate: 2.0e-3
      beta: 0.0
      lambd: 0.9
      num_epoch: 10
    network_settings: {hidden_units: 64, activation: tanh}
    max_steps: 700000
    summary_freq: 100000
    checkpoint_interval: 700000
"""


def lessons(values: list[float]) -> dict[str, Any]:
    """From one value to the next when four of five episodes succeed."""
    criteria = {"behavior": "Lock", "measure": "reward", "threshold": 0.8, "min_lesson_length": 50}
    made: list[dict[str, Any]] = [
        {"name": f"{value}", "value": value, "completion_criteria": criteria} for value in values
    ]
    del made[-1]["completion_criteria"]
    return {"curriculum": made}


def adr(initial: float, limits: list[float], step: float, lower: float, upper: float, **more: Any) -> dict[str, Any]:
    thresholds = {"lower_threshold": lower, "upper_threshold": upper}
    return {"curriculum": {"type": "adr", "initial": initial, "limits": limits, "step": step, **thresholds, **more}}


TRAININGS: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    (LOCK, NONE): (LOCK_CONFIG, {}),
    (LOCK, LESSONS): (LOCK_CONFIG, {"start": lessons([float(start) for start in range(1, 13)])}),
    (LOCK, ADR): (LOCK_CONFIG, {"start": adr(1, [1, 12], 1, 0.3, 0.8, integer=True)}),
    (LOCK, PROGRESS): (
        LOCK_CONFIG,
        {"start": {"curriculum": {"type": "learning_progress", "limits": [1, 12], "integer": True, "bins": 12}}},
    ),
    (LOCK, LEVELS): (
        LOCK_CONFIG,
        {
            "start": {
                "curriculum": {
                    "type": "prioritized_levels",
                    "first_level": 1,
                    "levels": 12,
                    "score": "learnability",
                    "success": 1.0,
                }
            }
        },
    ),
    (DIALS, NONE): (DIALS_CONFIG, {}),
    (DIALS, LESSONS): (DIALS_CONFIG, {"tolerance": lessons(TOLERANCES)}),
    (CARTPOLE, NONE): (CARTPOLE_CONFIG, {}),
    (CARTPOLE, ADR): (
        CARTPOLE_CONFIG,
        {
            "length": adr(0.5, [0.125, 1.0], 0.25, 200, 400, episodes=10),
            "gravity": adr(9.8, [4.9, 19.6], 4.9, 200, 400, episodes=10),
        },
    ),
}


def _config(task: str, curriculum: str, seed: int, directory: str) -> dict[str, Any]:
    text, parameters = TRAININGS[task, curriculum]
    config: dict[str, Any] = yaml.safe_load(text)
    config["environment_parameters"] = parameters
    config["env_settings"] = {"seed": seed}
    config["checkpoint_settings"] = {"run_id": "run", "results_dir": directory}
    config["stats"] = {"console": False}
    return config


def train_and_open(task: str, curriculum: str, seed: int, directory: str, to_the_end: bool = False) -> float:
    """The share of 200 episodes in which the whole lock was opened, acting as in training.

    The training ends at the first summary at which the share is 0.98, unless it goes ``to_the_end``.
    """
    with Run(_config(task, curriculum, seed, directory)) as run:
        for _ in run:
            opened = run.evaluate(200, deterministic=False).behaviors["Lock"].mean_reward
            if opened >= 0.98 and not to_the_end:
                break
        return opened


def train_and_balance(task: str, curriculum: str, seed: int, directory: str) -> list[float]:
    """Mean returns of 40 episodes of CartPole as it is, and in each corner."""
    config = _config(task, curriculum, seed, directory)
    with Run(config) as run:
        run.train()
    plugins = load_plugins()
    reached = []
    for length, gravity in (NOMINAL, *CORNERS):
        played = {**config, "environment_parameters": {"length": length, "gravity": gravity}}
        saved = SavedRun.load(Path(directory) / "run", config_from_mapping(played, plugins), plugins)
        reached.append(saved.evaluate(40, seed=1000).behaviors["Pole"].mean_reward)
    return reached
