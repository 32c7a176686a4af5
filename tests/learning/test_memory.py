"""PPO and SAC with memory solve what no policy without memory can solve."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from late_scores import late_score, with_late_summaries
from memory_tasks import TASKS
from small_runs import data

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]

SEEDS = (1, 2, 3)
TRAININGS: dict[str, dict[str, Any]] = data("memory_trainings")
MEMORY = {"memory_size": 64, "sequence_length": 16}
SAC = {
    "trainer_type": "sac",
    "max_steps": 10_000,
    "hyperparameters": {
        "batch_size": 128, "buffer_size": 20_000, "buffer_init_steps": 500, "steps_per_update": 4,
        "learning_rate": 1e-3, "init_entcoef": 0.1,
    },
    "network_settings": {"hidden_units": 32, "num_layers": 1},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _tasks() -> Any:
    for name, make in TASKS.items():
        gymnasium.register(name, make, max_episode_steps=500)
    yield
    for name in TASKS:
        del gymnasium.registry[name]


def mean_return(
    task: str, seed: int, memory: Any, directory: Path, enough: float = math.inf, training: Any = None
) -> float:
    """The mean return of 100 episodes late in the training, or at the first fifth of it at which it is ``enough``."""
    block = dict(training or {**TRAININGS[task], "trainer_type": "ppo"})
    block["network_settings"] = {**block["network_settings"], "memory": memory}
    config = {
        "preset": "none",
        "environment": {"type": "gymnasium", "id": task, "num_envs": 16},
        "behaviors": {"Agent": block},
        "env_settings": {"seed": seed},
        "checkpoint_settings": {"run_id": f"{seed}", "results_dir": str(directory)},
        "stats": {"console": False},
    }
    with Run(with_late_summaries(config)) as run:
        return late_score(run, 100, enough=enough)


@pytest.mark.parametrize(
    ("task", "solved"), [("Cue-v0", 0.9), ("CueImage-v0", 0.9), ("HiddenVelocities-v0", 400.0)], ids=TRAININGS
)
def test_memory_solves_it(reached_on_every_seed: Any, tmp_path: Path, task: str, solved: float, deep: bool) -> None:
    near = 0.05 * solved
    enough = math.inf if deep else solved + near

    def measure(seed: int) -> float:
        return mean_return(task, seed, MEMORY, tmp_path, enough)

    reached_on_every_seed(measure, solved, near=near, seeds=SEEDS)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_sac_with_memory_solves_it(reached_on_every_seed: Any, tmp_path: Path, kind: str) -> None:
    """With a burn-in; without memory, the best mean return is 0, and SAC has about 0."""
    memory = {"type": kind, "memory_size": 32, "sequence_length": 8, "burn_in": 4}
    reached_on_every_seed(
        lambda seed: mean_return("Cue-v0", seed, memory, tmp_path, 0.95, SAC), 0.9, near=0.05, seeds=SEEDS
    )
    assert mean_return("Cue-v0", 4, None, tmp_path, training=SAC) < 0.5
