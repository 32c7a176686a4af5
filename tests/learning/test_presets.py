"""A preset and the id of an environment are enough to learn."""

from __future__ import annotations

from pathlib import Path

import pytest
from late_scores import late_score, with_late_summaries

from rlcore import Run

pytestmark = pytest.mark.learning


@pytest.mark.parametrize(
    ("preset", "env_id", "steps", "wanted"),
    [
        ("ppo-discrete", "CartPole-v1", 100_000, 475),
        ("ppo-continuous", "Pendulum-v1", 100_000, -300),
        ("sac", "Pendulum-v1", 10_000, -250),
        ("td3", "Pendulum-v1", 10_000, -250),
        ("dqn", "CartPole-v1", 50_000, 475),
    ],
)
def test_a_preset_learns_without_other_settings(
    tmp_path: Path, preset: str, env_id: str, steps: int, wanted: float
) -> None:
    config = {
        "preset": preset,
        "environment": {"id": env_id},
        "default_settings": {"max_steps": steps},
        "env_settings": {"seed": 3},
        "checkpoint_settings": {"run_id": "run", "results_dir": str(tmp_path)},
    }
    with Run(with_late_summaries(config)) as run:
        assert late_score(run, 20) >= wanted
