"""With hindsight, SAC and DQN reach goals that uniform samples do not find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from late_scores import late_score, with_late_summaries

from rlcore import EvaluationResult, Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]


SAC: dict[str, Any] = {
    "trainer_type": "sac",
    "hyperparameters": {
        "batch_size": 128,
        "learning_rate": 2e-3,
        "tau": 0.02,
        "buffer_init_steps": 500,
        "steps_per_update": 4,
        "init_entcoef": 0.1,
    },
    "network_settings": {"hidden_units": 64, "num_layers": 2, "activation": "relu"},
    "max_steps": 6000,
}
DQN: dict[str, Any] = {
    "trainer_type": "dqn",
    "hyperparameters": {
        "batch_size": 128,
        "learning_rate": 1e-3,
        "buffer_init_steps": 500,
        "steps_per_update": 4,
        "epsilon_steps": 4000,
        "final_epsilon": 0.1,
        "target_update_interval": 100,
    },
    "network_settings": {"hidden_units": 128, "num_layers": 2, "activation": "relu"},
    "max_steps": 8000,
}


def share_of_goals_reached(
    directory: Path, env_id: str, behavior: dict[str, Any], sampler: Any, seed: int, length: int
) -> float:
    """Train, and return in which share of 100 episodes of at most ``length`` steps the goal is reached."""
    block = {
        **behavior,
        "hyperparameters": {**behavior["hyperparameters"], "replay_sampler": sampler},
        "reward_signals": {"extrinsic": {"gamma": 0.95}},
    }
    document = {
        "preset": "none",
        "environment": {"type": "gymnasium", "id": env_id, "num_envs": 8},
        "env_settings": {"seed": seed},
        "behaviors": {"Agent": block},
        "checkpoint_settings": {"run_id": "run", "results_dir": str(directory)},
        "stats": {"console": False},
    }

    def share(result: EvaluationResult) -> float:
        returns = result.behaviors["Agent"].returns
        return float(np.mean([each > -length for each in returns]))  # each step away from the goal costs 1

    with Run(with_late_summaries(document)) as training:
        return late_score(training, 100, share)


@pytest.mark.parametrize("seed", [11, 12, 13, 14], ids="seed{}".format)
def test_goals_are_reached_with_hindsight_and_not_with_uniform_samples(tmp_path: Path, seed: int) -> None:
    """No setting was chosen on these seeds."""
    env_id = "goal_worlds:Reach-v0"
    hindsight = share_of_goals_reached(tmp_path / "her", env_id, SAC, {"type": "her", "tolerance": 0.1}, seed, 20)
    uniform = share_of_goals_reached(tmp_path / "uniform", env_id, SAC, None, seed, 20)
    print(f"seed {seed}: {hindsight:.2f} with hindsight, {uniform:.2f} without")
    assert hindsight >= 0.9
    assert uniform <= 0.1


@pytest.mark.parametrize("seed", [11, 12, 13], ids="seed{}".format)
def test_ten_bits_are_flipped_with_hindsight_alone(tmp_path: Path, seed: int) -> None:
    """The paper's example (arXiv:1707.01495, section 3.1): DQN by itself learns no more than chance."""
    env_id = "goal_worlds:BitFlip-v0"
    hindsight = share_of_goals_reached(tmp_path / "her", env_id, DQN, {"type": "her"}, seed, 10)
    uniform = share_of_goals_reached(tmp_path / "uniform", env_id, DQN, None, seed, 10)
    print(f"seed {seed}: {hindsight:.2f} with hindsight, {uniform:.2f} without")
    assert hindsight >= 0.95
    assert uniform <= 0.1
