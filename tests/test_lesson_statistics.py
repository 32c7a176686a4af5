"""Lessons that go by statistics, in real runs."""

from __future__ import annotations

from pathlib import Path

from rlcore import Run


def test_summaries_of_a_run_before_its_first_update_prove_nothing(tmp_path: Path) -> None:
    """Everything rlcore adds by itself to a real run's summaries is among what counts as no update."""
    criterion = {"behavior": "Walker", "measure": "stat:Policy/Entropy", "threshold": 1e9}
    run = Run(
        {
            "environment": {"type": "testing", "id": "corridor", "num_envs": 4},
            "environment_parameters": {"length": {"curriculum": [
                {"name": "a", "value": 2, "completion_criteria": criterion}, {"name": "b", "value": 3},
            ]}},
            "behaviors": {"Walker": {
                "trainer_type": "ppo", "max_steps": 1200, "summary_freq": 200,
                "hyperparameters": {"batch_size": 64, "buffer_size": 1024},
            }},
            "plugins": {"local": ["rlcore_devkit.hooks"]},
            "checkpoint_settings": {"run_id": "late", "results_dir": str(tmp_path)},
        }
    )  # fmt: skip
    stats = [epoch.behaviors["Walker"].stats for epoch in run]
    assert ["Policy/Entropy" in each for each in stats] == [False] * 5 + [True]
