"""SAC's examples learn what they promise, on every seed, as a user runs them; and a hybrid action is learned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from landing import Landing, best_return
from late_scores import late_score, with_late_summaries
from small_runs import data

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]


def mean_return(trained: Any, example: str, seed: int, episodes: int, max_steps: int) -> float:
    """The median of means of episodes played deterministically at the end of the training."""
    run = trained(example, seed, episodes=episodes, max_steps=max_steps)
    assert run.steps == max_steps
    return run.score


@pytest.mark.xdist_group("pendulum_sac.yaml")
def test_the_pendulum_stands_after_fourteen_thousand_steps(trained: Any, reached_on_every_seed: Any) -> None:
    def measure(seed: int) -> float:
        return mean_return(trained, "pendulum_sac.yaml", seed, 100, 14_000)

    reached_on_every_seed(measure, -180.0, near=15.0, seeds=(1, 2, 3, 4, 5))


@pytest.mark.parametrize(
    ("steps", "goal"),
    [(5_000, 150.0), pytest.param(30_000, 400.0, marks=pytest.mark.deep)],
    ids=["begun", "finished"],
)
def test_cartpole_is_balanced_by_discrete_actions(
    trained: Any, reached_on_every_seed: Any, steps: int, goal: float
) -> None:
    """Random actions balance for some 22 steps. SAC's README promises 400 after 30,000 steps."""

    def measure(seed: int) -> float:
        return mean_return(trained, "zoo:sac/CartPole-v1", seed, 20, steps)

    reached_on_every_seed(measure, goal, near=40.0, seeds=(1, 2, 3))


@pytest.fixture
def landing() -> Iterator[None]:
    """Register ``Landing-v0``."""
    gymnasium.register("Landing-v0", Landing)
    yield
    del gymnasium.registry["Landing-v0"]


def test_an_action_with_a_continuous_part_and_a_choice_is_learned(
    landing: None, reached_on_every_seed: Any, tmp_path: Path
) -> None:
    starts = np.random.default_rng(0).uniform(-1.0, 1.0, (20_000, 2))
    best = float(np.mean([best_return(*start) for start in starts]))
    untrained = -0.65  # of uniformly random actions, which announce early and far from the mark

    def measure(seed: int) -> float:
        config = data("landing")
        config["env_settings"] = {"seed": seed}
        config["checkpoint_settings"] = {"run_id": f"{seed}", "results_dir": str(tmp_path)}
        with Run(with_late_summaries(config)) as run:
            score = late_score(run, 200)
            assert run.steps == 15_000
            return score

    reached_on_every_seed(measure, best - 0.1 * (best - untrained), near=0.02, seeds=(1, 2, 3))
