"""APPO balances CartPole with a policy that acts one update late, and with actors in processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from late_scores import late_score, with_late_summaries

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]


def score(directory: Path, seed: int, workers: dict[str, Any]) -> float:
    config = {
        "preset": "appo-discrete",
        "environment": {
            "type": "gymnasium",
            "id": "CartPole-v1",
            "num_envs": 8,
            "workers": {"executor": "actors", "count": 2, **workers},
        },
        "env_settings": {"seed": seed},
        "behaviors": {"CartPole": {"max_steps": 100_000}},
        "checkpoint_settings": {"run_id": f"{seed}", "results_dir": str(directory)},
        "stats": {"console": False},
    }
    with Run(with_late_summaries(config)) as run:
        return late_score(run, 20)


@pytest.mark.parametrize("workers", [{"in_process": True, "lag": 1}, {}], ids=["lag 1", "processes"])
def test_cartpole_is_balanced_after_a_hundred_thousand_steps(
    tmp_path: Path, workers: dict[str, Any], reached_on_every_seed: Any
) -> None:
    reached_on_every_seed(lambda seed: score(tmp_path, seed, workers), 475.0, near=20.0, seeds=(1, 2, 3))
