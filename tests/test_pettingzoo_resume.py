"""A run in PettingZoo's environments that is resumed ends with the weights of one that was never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import small_run
from worker_runs import arrays, copy_of_run

import rlcore
from rlcore import SavedRun

STEPS = 1024  # between two checkpoints


def config(directory: Path, environment: dict[str, Any], **start: Any) -> dict[str, Any]:
    constant = {f"{name}_schedule": "constant" for name in ("learning_rate", "beta", "epsilon")}
    changes = {
        "environment": {"type": "pettingzoo", "num_envs": 4, **environment}, "behaviors.Agent": None,
        "behaviors.Player": {
            "trainer_type": "ppo",
            "hyperparameters": {"batch_size": 64, "buffer_size": 256, **constant},
            "network_settings": {"hidden_units": 8, "num_layers": 1},
            "max_steps": 2 * STEPS, "checkpoint_interval": STEPS,
        },
    }  # fmt: skip
    return small_run(directory, changes, **start)


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
    rlcore.Run(config(whole, GAMES[case])).train()
    first = copy_of_run(whole, parts)
    halfway = arrays(SavedRun.open(parts / "run", checkpoint=first).models)
    rlcore.Run(config(parts, GAMES[case], resume=True, checkpoint=first)).train()
    ours, theirs = weights(parts), weights(whole)
    assert len(ours) == len(theirs) > 0
    assert all(map(np.array_equal, ours, theirs))
    assert not all(map(np.array_equal, ours, halfway))
