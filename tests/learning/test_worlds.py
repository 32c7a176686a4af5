"""The values by default learn in worlds that users try first, from files of two lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]

TASKS = {
    # The module, the agent steps, the return to reach, and how far above it no other seed is needed.
    "MiniGrid-Empty-5x5-v0": ("minigrid", 40_000, 0.9, 0.02),
    "LunarLander-v3": ("Box2D", 400_000, 150.0, 50.0),
}


@pytest.mark.parametrize("env_id", TASKS)
def test_it_is_learned_from_its_id(tmp_path: Path, env_id: str, reached_on_every_seed: Any) -> None:
    module, steps, reached, near = TASKS[env_id]
    pytest.importorskip(module)

    def measure(seed: int) -> float:
        config = {
            "environment": {"id": env_id},
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
