"""MiniGrid from its id alone: a text that networks cannot read, and an image too small for the encoder of ML-Agents.

Runs in environments of packages that users try first are in ``data/runs_that_end_equal.yaml``; their ids are in
``plugins/gymnasium/tests/test_worlds.py``, what is learned in them in ``tests/learning/test_worlds.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from small_runs import small_run

from rlcore import Run, UnsupportedSpace, load_policies
from rlcore_devkit import RunRlcore

pytest.importorskip("minigrid")

IMAGE = (7, 7, 3)


def config_of(place: Path, **changes: Any) -> dict[str, Any]:
    batches = {"batch_size": 24, "buffer_size": 24}
    agent = {"max_steps": 48, "hyperparameters": batches, "network_settings": {"hidden_units": 8}} | changes
    keys = {f"behaviors.Agent.{key}": value for key, value in agent.items()}
    return small_run(place, {"environment": {"id": "MiniGrid-Empty-5x5-v0", "num_envs": 2}, **keys}, run_id="grid")


def test_an_id_is_enough_to_train_resume_evaluate_and_export(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    evaluations = {"evaluation": {"interval": 24, "episodes": 1}}
    file.write_text(yaml.safe_dump(config_of(tmp_path) | evaluations))
    done = run_rlcore("run", file)
    assert done.exit_code == 0, done.stderr
    # Each is said once, although the environment of evaluations observes the same.
    assert done.stderr.count("the observation 'mission' is left out") == 1
    assert "environment.observations: {mission: ignore}" in done.stderr
    assert done.stderr.count("fully_connected encodes the image 'image', because 7 x 7 pixels are too few") == 1

    run = tmp_path / "grid"
    before = load_policies(run)["Agent"]
    assert {spec.name: spec.shape for spec in before.behavior.observations} == {"direction": (4,), "image": IMAGE}
    resumed = run_rlcore("run", file, "--resume", "--set", "behaviors.Agent.max_steps=96")
    assert resumed.exit_code == 0, resumed.stderr
    assert run_rlcore("evaluate", run, "--episodes", "1").exit_code == 0

    runtime = pytest.importorskip("rlcore_onnx.runtime")
    exported = run_rlcore("export", run, "-o", tmp_path / "grid.onnx")
    assert exported.exit_code == 0, exported.stderr
    seen = {
        "direction": np.eye(4, dtype=np.float32),
        "image": np.random.default_rng(0).integers(0, 11, (4, *IMAGE)).astype(np.uint8),
    }
    of_file = runtime.load(tmp_path / "grid.onnx").act(seen, None, True)
    of_run = load_policies(run)["Agent"].act(seen, None, True)
    np.testing.assert_array_equal(of_file.discrete, of_run.discrete)


def test_an_encoder_that_the_file_names_is_refused_where_it_does_not_fit(tmp_path: Path) -> None:
    config = config_of(tmp_path, network_settings={"vis_encode_type": "simple"})
    told = r"encoder 'simple' needs .*environment\.observations: \{image: \{flatten: true\}\}\)"
    with pytest.raises(UnsupportedSpace, match=told):
        Run(config).start()
