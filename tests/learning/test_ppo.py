"""PPO's examples learn what they promise, on every seed, as a user runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from late_scores import late_score, with_late_summaries

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]


def mean_return(trained: Any, example: str, seed: int, max_steps: int) -> float:
    """The median of means of 20 episodes, played deterministically at the end of the training."""
    run = trained(example, seed, episodes=20)
    assert run.steps == pytest.approx(max_steps, abs=1000)
    return run.score


@pytest.mark.daily
@pytest.mark.xdist_group("cartpole.yaml")
def test_cartpole_is_balanced_after_a_hundred_thousand_steps(trained: Any, reached_on_every_seed: Any) -> None:
    def measure(seed: int) -> float:
        return mean_return(trained, "cartpole.yaml", seed, 100_000)

    reached_on_every_seed(measure, 475.0, near=20.0, seeds=(1, 2, 3, 4, 5))


def test_cartpole_is_balanced_with_networks_in_bfloat16(
    example: Any, tmp_path: Path, reached_on_every_seed: Any
) -> None:
    def measure(seed: int) -> float:
        config = {**example("cartpole.yaml", tmp_path / f"{seed}", seed), "torch_settings": {"bf16": True}}
        with Run(with_late_summaries(config)) as run:
            return late_score(run, 20)

    reached_on_every_seed(measure, 475.0, near=20.0, seeds=(1, 2, 3, 4, 5))


def test_the_pendulum_stands_after_a_hundred_thousand_steps(trained: Any, reached_on_every_seed: Any) -> None:
    def measure(seed: int) -> float:
        return mean_return(trained, "pendulum.yaml", seed, 100_000)

    reached_on_every_seed(measure, -300.0, near=50.0, seeds=(1, 2, 3))
