"""Environment parameters from a configuration to Gymnasium environments: played, evaluated, resumed, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from small_runs import small_run

from rlcore import Run
from rlcore_devkit.fixtures import run_rlcore

__all__ = ["run_rlcore"]

UNIFORM = {"sampler_type": "uniform", "sampler_parameters": {"min_value": 0.25, "max_value": 1.0}}
PARAMETERS = {"length": UNIFORM, "gravity": 12.5}


def test_every_episode_of_training_begins_with_its_parameters(tmp_path: Path) -> None:
    run = Run(small_run(tmp_path, {"environment_parameters": PARAMETERS, "behaviors.Agent.summary_freq": 200}))
    lengths = set()
    with run:
        for _ in run:
            vector = run.environment.vector  # type: ignore[union-attr]
            assert vector.gravity.tolist() == [12.5] * 4
            np.testing.assert_allclose(vector.polemass_length, 0.1 * vector.length)
            lengths |= set(vector.length.tolist())
    assert len(lengths) >= 8 and 0.25 <= min(lengths) < 0.5 and 0.8 < max(lengths) <= 1.0


def test_evaluations_play_what_the_evaluation_block_says(tmp_path: Path) -> None:
    """Where no time passes nothing falls, and an episode lasts as long as it may."""
    timeless = {"interval": 400, "episodes": 2, "environment_parameters": {"tau": 0.0}}
    run = Run(small_run(tmp_path, {"environment_parameters": PARAMETERS, "evaluation": timeless}))
    run.train()
    assert run.evaluate(episodes=2).behaviors["Agent"].returns == (500.0, 500.0)
    run = Run(small_run(tmp_path, {"environment_parameters": PARAMETERS}, run_id="timely"))
    run.train()
    assert max(run.evaluate(episodes=2).behaviors["Agent"].returns) < 500.0
