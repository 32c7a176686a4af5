"""Presets learn in worlds that users try first, from files of a few lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]

TASKS = {
    # The module, keys of the file, the agent steps, the return to reach, and how far above it no other seed is needed.
    "MiniGrid-Empty-5x5-v0": (
        "minigrid", {"observations": {"mission": "ignore", "image": {"flatten": True}}}, 20_000, 0.9, 0.02,
    ),
    "LunarLander-v3": ("Box2D", {}, 400_000, 150.0, 50.0),
}  # fmt: skip


@pytest.mark.parametrize("env_id", TASKS)
def test_the_preset_learns_it(tmp_path: Path, env_id: str, reached_on_every_seed: Any) -> None:
    module, block, steps, reached, near = TASKS[env_id]
    pytest.importorskip(module)

    def measure(seed: int) -> float:
        config = {
            "preset": "ppo-discrete",
            "environment": {"id": env_id, **block},
            "default_settings": {"max_steps": steps},
            "env_settings": {"seed": seed},
            "checkpoint_settings": {"run_id": f"seed-{seed}", "results_dir": str(tmp_path)},
            "stats": {"console": False},
        }
        with Run(config) as run:
            (result,) = run.train().values()
            assert result.mean_reward is not None
            return result.mean_reward

    reached_on_every_seed(measure, reached, near=near, seeds=(1, 2, 3))
