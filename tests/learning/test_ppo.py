"""The examples learn what they promise, on every seed, as a user runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import Run

pytestmark = pytest.mark.learning

EXAMPLES = Path(__file__).parents[2] / "examples"


def mean_return(example: str, seed: int, directory: Path) -> float:
    """Trains the example from ``seed``; the mean of 20 episodes played deterministically afterwards."""
    config: dict[str, Any] = yaml.safe_load((EXAMPLES / example).read_text(encoding="utf-8"))
    config["env_settings"] = {"seed": seed}
    config["checkpoint_settings"]["results_dir"] = str(directory)
    config["stats"] = {"console": False}
    [behavior] = config["behaviors"]
    with Run(config) as run:
        run.train()
        evaluation = run.evaluate(episodes=20).behaviors[behavior]
    assert run.steps == pytest.approx(config["behaviors"][behavior]["max_steps"], abs=1000)
    assert len(evaluation.returns) == 20
    return evaluation.mean_reward


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_cartpole_is_balanced_after_a_hundred_thousand_steps(seed: int, tmp_path: Path) -> None:
    assert mean_return("cartpole.yaml", seed, tmp_path) >= 475.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_pendulum_stands_after_three_hundred_thousand_steps(seed: int, tmp_path: Path) -> None:
    assert mean_return("pendulum.yaml", seed, tmp_path) >= -250.0
