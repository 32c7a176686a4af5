"""TD7 learns to swing up a pendulum in few steps, with networks that are small enough for a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from late_scores import late_score, with_late_summaries

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]


def test_the_pendulum_stands_after_eight_thousand_steps(tmp_path: Path, reached_on_every_seed: Any) -> None:
    """Random actions have -1,230."""

    def measure(seed: int) -> float:
        behavior = {
            "trainer_type": "td7",
            "hyperparameters": {
                "batch_size": 128,
                "buffer_size": 20_000,
                "buffer_init_steps": 1000,
                "learning_rate": 1e-3,
                "embedding_units": 64,
            },
            "network_settings": {"hidden_units": 64, "activation": "relu", "critic": {"activation": "elu"}},
            "max_steps": 8000,
        }
        config = {
            "preset": "none",
            "environment": {"type": "gymnasium", "id": "Pendulum-v1", "num_envs": 1},
            "behaviors": {"Pendulum": behavior},
            "env_settings": {"seed": seed},
            "checkpoint_settings": {"run_id": f"{seed}", "results_dir": str(tmp_path)},
            "stats": {"console": False},
        }
        with Run(with_late_summaries(config)) as run:
            return late_score(run, 50, enough=-200.0)

    reached_on_every_seed(measure, -200.0, near=20.0, seeds=(1, 2, 3))
