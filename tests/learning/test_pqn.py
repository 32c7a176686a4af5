"""PQN's preset learns what CleanRL's implementation reports, as a user runs it: without a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from late_scores import late_score, with_late_summaries

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(("env_id", "wanted", "near"), [("CartPole-v1", 485.0, 10.0), ("Acrobot-v1", -100.0, 5.0)])
def test_the_preset_learns_in_half_a_million_steps(
    tmp_path: Path, reached_on_every_seed: Any, env_id: str, wanted: float, near: float
) -> None:
    """CleanRL reports 495.1 and -95.6 after 500,000 steps, as means of three seeds."""

    def measure(seed: int) -> float:
        config = {
            "preset": "pqn",
            "environment": {"id": env_id},
            "env_settings": {"seed": seed},
            "checkpoint_settings": {"run_id": f"seed{seed}", "results_dir": str(tmp_path)},
        }
        with Run(with_late_summaries(config)) as run:
            score = late_score(run, 100)
            assert run.steps == 500_000
            return score

    reached_on_every_seed(measure, wanted, near=near, seeds=(1, 2, 3))
