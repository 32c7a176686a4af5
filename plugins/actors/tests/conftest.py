"""Small runs in actors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlcore import Run

SMALL = {
    "buffer_size": 64,
    "batch_size": 32,
    "num_epoch": 2,
    "learning_rate": 3e-3,
    "learning_rate_schedule": "constant",
}
NETWORK = {"hidden_units": 16, "num_layers": 1}


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """``make_run("corridor", {"count": 2}, max_steps=640)``: a run in actors; other keywords are of the behavior."""

    def make(
        environment: str,
        workers: Mapping[str, Any],
        *,
        num_envs: int = 4,
        run_id: str = "run",
        hyperparameters: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        blocks: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        start: Mapping[str, Any] | None = None,
        **behavior: Any,
    ) -> Run:
        return Run(
            {
                "plugins": {"local": ["rlcore_devkit.hooks"]},
                "preset": "none",
                "environment": {
                    "type": "testing",
                    "id": environment,
                    "num_envs": num_envs,
                    "workers": {"executor": "actors", **workers},
                    "options": dict(options or {}),
                },
                # Machines that run tests are busy.
                "env_settings": {
                    "seed": 1,
                    "timeout_wait": 600,
                    "max_lifetime_restarts": -1,
                    "restarts_rate_limit_n": -1,
                },
                "behaviors": {
                    "Agent": {
                        "trainer_type": "appo",
                        "hyperparameters": {**SMALL, **(hyperparameters or {})},
                        "network_settings": {**NETWORK, **(network or {})},
                        "max_steps": 640,
                        "summary_freq": 128,
                        **behavior,
                    }
                },
                "checkpoint_settings": {
                    "run_id": run_id,
                    "results_dir": str(tmp_path / "results"),
                    **(start or {}),
                },
                "stats": {"console": False},
                **(blocks or {}),
            }
        )

    return make
