"""Environment parameters from a configuration to Gymnasium environments: played, evaluated, resumed, refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlcore import Run, load_checkpoint
from rlcore_devkit.fixtures import RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

UNIFORM = {"sampler_type": "uniform", "sampler_parameters": {"min_value": 0.25, "max_value": 1.0}}
CONFIG: dict[str, Any] = {
    "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 4},
    "environment_parameters": {"length": UNIFORM, "gravity": 12.5},
    "env_settings": {"seed": 3},
    "behaviors": {"Agent": {"trainer_type": "ppo", "max_steps": 1200, "summary_freq": 400, "checkpoint_interval": 400,
                            "hyperparameters": {"buffer_size": 128, "batch_size": 64},
                            "network_settings": {"hidden_units": 8, "num_layers": 1}}},
    "checkpoint_settings": {"run_id": "run"},
    "stats": {"console": False, "tensorboard": False},
}  # fmt: skip


def changed(run_id: str = "run", **blocks: Any) -> dict[str, Any]:
    config = copy.deepcopy(CONFIG) | blocks
    config["checkpoint_settings"]["run_id"] = run_id
    return config


def arrays(tree: Any, path: str = "") -> dict[str, Any]:
    """The contents of a checkpoint by path, without times."""
    if isinstance(tree, dict):
        return {key: value for name, part in tree.items() for key, value in arrays(part, f"{path}/{name}").items()}
    if isinstance(tree, list):
        return arrays(dict(enumerate(tree)), path)
    return {} if "wall" in path else {path: np.asarray(tree).tolist()}


def test_every_episode_of_training_begins_with_its_parameters(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run(changed())
    lengths = set()
    with run:
        for _ in run:
            vector = run.environment.vector  # type: ignore[union-attr]
            assert vector.gravity.tolist() == [12.5] * 4
            np.testing.assert_allclose(vector.polemass_length, 0.1 * vector.length)
            lengths |= set(vector.length.tolist())
    assert len(lengths) >= 8 and 0.25 <= min(lengths) < 0.5 and 0.8 < max(lengths) <= 1.0


@pytest.mark.parametrize(
    "blocks",
    [
        {},  # natively, saved with its episodes
        {"environment": {**CONFIG["environment"], "parameters": {"length": {"whole": False}}}},  # in this process
        {
            "environment": {"type": "gymnasium", "id": "MountainCar-v0", "num_envs": 3,
                            "parameters": {"limit": {"constructor": "max_episode_steps"}}},
            "environment_parameters": {"force": UNIFORM, "limit": 20},
        },
    ],
    ids=["native", "attribute", "constructor"],
)  # fmt: skip
def test_a_resumed_run_is_the_one_that_never_stopped(tmp_path: Path, monkeypatch: Any, blocks: dict[str, Any]) -> None:
    monkeypatch.chdir(tmp_path)
    Run(changed("whole", **blocks)).train()
    stopped = Run(changed("stopped", **blocks))
    with stopped:
        next(stopped)
    resumed = changed("stopped", **blocks)
    resumed["checkpoint_settings"]["resume"] = True
    Run(resumed).train()
    ends = [sorted(Path("results", name, "checkpoints").glob("[0-9]*"), key=lambda path: int(path.name))[-1]
            for name in ("whole", "stopped")]  # fmt: skip
    ours, theirs = (arrays(load_checkpoint(end)) for end in ends)
    assert ends[0].name == ends[1].name and ours == theirs and len(ours) > 30


def test_evaluations_play_what_the_evaluation_block_says(tmp_path: Path, monkeypatch: Any) -> None:
    """Where no time passes nothing falls, and an episode lasts as long as it may."""
    monkeypatch.chdir(tmp_path)
    timeless = {"interval": 400, "episodes": 2, "environment_parameters": {"tau": 0.0}}
    run = Run(changed(evaluation=timeless))
    run.train()
    assert run.evaluate(episodes=2).behaviors["Agent"].returns == (500.0, 500.0)
    run = Run(changed("timely"))
    run.train()
    assert max(run.evaluate(episodes=2).behaviors["Agent"].returns) < 500.0


def test_a_parameter_the_environment_does_not_have_is_one_line_before_anything_is_written(
    run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    working = tmp_path / "working"
    working.mkdir(exist_ok=True)
    (working / "config.yaml").write_text(yaml.safe_dump(changed(environment_parameters={"lenght": 1.0})))
    result = run_rlcore("run", "config.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    start = "error: config.yaml:22: environment_parameters.lenght: CartPole-v1 has no such parameter; it has "
    assert result.stderr.startswith(start)
    assert result.stderr.endswith("; did you mean 'length'?\n") and result.stderr.count("\n") == 1
    assert not (working / "results" / "run").exists()


def test_a_route_for_a_parameter_that_is_none_is_told_with_its_line(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    working = tmp_path / "working"
    working.mkdir(exist_ok=True)
    text = yaml.safe_dump(changed(environment_parameters={"length": 1.0}), sort_keys=False)
    route = "environment:\n  parameters: {lengt: {attribute: unwrapped.length}}\n"
    (working / "config.yaml").write_text(text.replace("environment:\n", route, 1))
    result = run_rlcore("validate", "config.yaml")
    assert result.exit_code == 2
    assert result.stdout == (
        "config.yaml:2: environment.parameters.lengt: environment_parameters has no 'lengt'; did you mean 'length'?\n"
    )
