"""With hindsight, SAC reaches goals that uniform samples do not find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]


def share_of_goals_reached(directory: Path, sampler: Any, seed: int) -> float:
    """Train for 6,000 steps, and return in which share of 100 episodes the goal is reached."""
    behavior = {
        "trainer_type": "sac",
        "hyperparameters": {
            "batch_size": 128,
            "learning_rate": 2e-3,
            "tau": 0.02,
            "buffer_init_steps": 500,
            "steps_per_update": 4,
            "init_entcoef": 0.1,
            "replay_sampler": sampler,
        },
        "network_settings": {"hidden_units": 64, "num_layers": 2, "activation": "relu"},
        "reward_signals": {"extrinsic": {"gamma": 0.95}},
        "max_steps": 6000,
        "summary_freq": 6000,
    }
    document = {
        "environment": {"type": "gymnasium", "id": "goal_worlds:Reach-v0", "num_envs": 8},
        "env_settings": {"seed": seed},
        "behaviors": {"Agent": behavior},
        "checkpoint_settings": {"run_id": "run", "results_dir": str(directory)},
        "stats": {"console": False},
    }
    with Run(document) as training:
        training.train()
        returns = training.evaluate(episodes=100).behaviors["Agent"].returns
    return float(np.mean([each > -20.0 for each in returns]))  # -20: never near the goal


@pytest.mark.parametrize("seed", [11, 12, 13, 14], ids="seed{}".format)
def test_goals_are_reached_with_hindsight_and_not_with_uniform_samples(tmp_path: Path, seed: int) -> None:
    """No setting was chosen on these seeds."""
    hindsight = share_of_goals_reached(tmp_path / "her", {"type": "her", "tolerance": 0.1}, seed)
    uniform = share_of_goals_reached(tmp_path / "uniform", None, seed)
    print(f"seed {seed}: {hindsight:.2f} with hindsight, {uniform:.2f} without")
    assert hindsight >= 0.9
    assert uniform <= 0.1
