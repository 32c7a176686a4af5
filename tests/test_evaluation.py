"""Evaluating learns nothing: real trainers end with the same weights, bit for bit, with and without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import small_run

from rlcore import Run


def trained(directory: Path, environment: str, evaluation: dict[str, Any] | None) -> Any:
    """The files of the last checkpoint, without what only evaluation writes, and the scores."""
    name = "without" if evaluation is None else "with"
    changes = {"environment.id": environment, "behaviors.Agent.checkpoint_interval": 300, "evaluation": evaluation}
    run = Run(small_run(directory, {**changes, "behaviors.Agent.network_settings.normalize": True}, run_id=name))
    scores = [epoch.evaluation.score for epoch in run if epoch.evaluation is not None]
    path = directory / name / "checkpoints" / "1000"
    state = json.loads((path / "state.json").read_text())
    del state["run"]["wall_seconds"], state["run"]["evaluation"]
    for tag in ("Evaluation/Cumulative Reward", "Evaluation/Episode Length"):
        state["run"]["behaviors"]["Agent"]["window"].pop(tag, None)
    return {file.name: file.read_bytes() for file in path.glob("*.safetensors")}, state, scores


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("environment", ["CartPole-v1", "Pendulum-v1"])
def test_ppo_ends_with_the_same_checkpoint_with_and_without_evaluation(
    tmp_path: Path, environment: str, deterministic: bool
) -> None:
    block = {"interval": 130, "episodes": 3, "deterministic": deterministic}
    arrays, state, _ = trained(tmp_path, environment, None)
    evaluated_arrays, evaluated_state, scores = trained(tmp_path, environment, block)
    assert scores
    assert evaluated_arrays == arrays
    assert evaluated_state == state
