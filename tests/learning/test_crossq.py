"""CrossQ's and XQC's presets swing a pendulum up within few steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from late_scores import late_score, with_late_summaries

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(3600)]


def pendulum(preset: str, steps: int, seed: int, place: Path, **rewards: Any) -> dict[str, Any]:
    """A training with a preset, but 1,000 random steps instead of 5,000."""
    behavior = {"hyperparameters": {"buffer_init_steps": 1000}, "max_steps": steps, **rewards}
    return {
        "preset": preset,
        "environment": {"id": "Pendulum-v1"},
        "default_settings": behavior,
        "env_settings": {"seed": seed},
        "checkpoint_settings": {"run_id": f"seed{seed}", "results_dir": str(place)},
    }


def test_the_pendulum_stands_after_five_thousand_steps_of_crossq(tmp_path: Path, reached_on_every_seed: Any) -> None:
    """Random actions have -1,230. The preset is at -156 with seed 1."""

    def measure(seed: int) -> float:
        with Run(with_late_summaries(pendulum("crossq", 5000, seed, tmp_path))) as run:
            return late_score(run, 20)

    reached_on_every_seed(measure, -200.0, near=60.0, seeds=(1,))


def test_the_pendulum_stands_after_six_thousand_steps_of_xqc(tmp_path: Path, reached_on_every_seed: Any) -> None:
    """The preset's discount is for episodes of 1,000 steps, and this one for 200. It is at -176 with seed 1."""
    rewards = {"reward_signals": {"extrinsic": {"gamma": 0.98}}}

    def measure(seed: int) -> float:
        with Run(with_late_summaries(pendulum("xqc", 6000, seed, tmp_path, **rewards))) as run:
            return late_score(run, 20)

    reached_on_every_seed(measure, -200.0, near=60.0, seeds=(1,))
