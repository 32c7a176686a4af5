"""DQN's example and preset learn what they promise. Returns of DQN swing: the best of several evaluations counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]

EXAMPLE = Path(__file__).parents[2] / "examples/cartpole_dqn.yaml"


def best_score(config: dict[str, Any], seed: int, directory: Path) -> float:
    """The best mean return of the evaluations within the run."""
    config["env_settings"] = {"seed": seed}
    config["checkpoint_settings"] = {"run_id": f"seed{seed}", "results_dir": str(directory)}
    with Run(config) as run:
        best = [epoch.best_score for epoch in run][-1]
    assert best is not None
    return best


def test_the_pole_is_balanced_in_the_best_of_ten_evaluations(tmp_path: Path, reached_on_every_seed: Any) -> None:
    """Stable-Baselines3 with RL Zoo's values reaches 500 too, and falls to 18 in between."""

    def measure(seed: int) -> float:
        config = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
        assert config["behaviors"]["CartPole"]["max_steps"] == 10 * config["evaluation"]["interval"]
        return best_score(config, seed, tmp_path)

    reached_on_every_seed(measure, 475.0, near=25.0, seeds=(1, 2, 3))


def test_the_preset_swings_the_acrobot_up(tmp_path: Path, reached_on_every_seed: Any) -> None:
    """RL Zoo reports -76.6 after 100,000 steps; an episode without success has -500."""

    def measure(seed: int) -> float:
        config = {
            "preset": "dqn",
            "environment": {"id": "Acrobot-v1"},
            "default_settings": {"max_steps": 40_000, "summary_freq": 8_000},
            "evaluation": {"interval": 8_000, "episodes": 20},
        }
        return best_score(config, seed, tmp_path)

    reached_on_every_seed(measure, -100.0, near=5.0, seeds=(1, 2, 3))
