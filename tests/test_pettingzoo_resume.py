"""A run in PettingZoo's environments that is resumed ends with the weights of one that was never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlcore
from rlcore.runs.saved_run import SavedRun

STEPS = 1024  # between two checkpoints


def config(directory: Path, environment: dict[str, Any], steps: int, resume: bool) -> dict[str, Any]:
    constant = {f"{name}_schedule": "constant" for name in ("learning_rate", "beta", "epsilon")}
    return {
        "environment": {"type": "pettingzoo", "num_envs": 4, **environment},
        "behaviors": {
            "Player": {
                "trainer_type": "ppo",
                "hyperparameters": {"batch_size": 64, "buffer_size": 256, **constant},
                "network_settings": {"hidden_units": 8, "num_layers": 1},
                "max_steps": steps,
                "checkpoint_interval": STEPS,
            }
        },
        "checkpoint_settings": {"run_id": "run", "results_dir": str(directory), "resume": resume},
        "env_settings": {"seed": 3},
    }


def arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        return [array for key in sorted(value) for array in arrays(value[key])]
    return [value] if isinstance(value, np.ndarray) else []


def weights(directory: Path) -> list[np.ndarray]:
    return arrays(SavedRun.open(directory / "run").models)


GAMES: dict[str, dict[str, Any]] = {
    "turns": {"id": "classic/tictactoe-v3"},
    "chance": {"id": "openspiel/leduc_poker"},
    "at once": {"id": "classic/rps-v2", "options": {"behaviors": {"Player": {"agents": ["*"], "team": "each"}}}},
}


@pytest.mark.parametrize("case", GAMES)
def test_a_resumed_run_ends_with_equal_weights(tmp_path: Path, case: str) -> None:
    if "openspiel" in GAMES[case]["id"]:
        pytest.importorskip("pyspiel")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    rlcore.Run(config(whole, GAMES[case], 2 * STEPS, resume=False)).train()
    rlcore.Run(config(parts, GAMES[case], STEPS, resume=False)).train()
    halfway = weights(parts)
    rlcore.Run(config(parts, GAMES[case], 2 * STEPS, resume=True)).train()
    ours, theirs = weights(parts), weights(whole)
    assert len(ours) == len(theirs) > 0
    assert all(map(np.array_equal, ours, theirs))
    assert not all(map(np.array_equal, ours, halfway))
