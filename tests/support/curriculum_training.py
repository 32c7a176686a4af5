"""Trainings with and without a curriculum."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

from late_scores import late_score, with_late_summaries
from small_runs import data

from rlcore import Run, SavedRun, config_from_mapping, load_plugins

LOCK = "combination lock"
DIALS = "dials"
CARTPOLE = "CartPole"
NONE = "no curriculum"
LESSONS = "lessons"
ADR = "adr"
PROGRESS = "learning progress"
LEVELS = "prioritized levels"
NOMINAL = (0.5, 9.8)  # CartPole's length and gravity
CORNERS = tuple(product((0.125, 1.0), (4.9, 19.6)))  # a quarter and twice the length, half and twice the gravity


def _config(task: str, curriculum: str, seed: int, directory: str) -> dict[str, Any]:
    training = data("curriculum_trainings")[task]
    config: dict[str, Any] = training["config"]
    config["environment_parameters"] = training["environment_parameters"][curriculum]
    config["env_settings"] = {"seed": seed}
    config["checkpoint_settings"] = {"run_id": "run", "results_dir": directory}
    config["stats"] = {"console": False}
    return config


def train_and_open(task: str, curriculum: str, seed: int, directory: str, to_the_end: bool = False) -> float:
    """The share of 200 episodes in which the whole lock was opened, acting as in training.

    The training ends at the first fifth of it at which the share is 0.98, unless it goes ``to_the_end``.
    """
    enough = math.inf if to_the_end else 0.98
    with Run(with_late_summaries(_config(task, curriculum, seed, directory))) as run:
        return late_score(run, 200, enough=enough, deterministic=False)


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
