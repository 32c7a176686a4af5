"""Policies that PPO, SAC, bc and iql trained, as ONNX files: the same actions, the same memory, the same episodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from worlds import SPECS, World

from rlcore import Run, export_policies, load_policies
from rlcore.recordings import RecordingAbout
from rlcore.testing.conformance.recordings import record
from rlcore.testing.playing import random_observations
from rlcore_offline.minari_format import MinariFormat

HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "ppo": {"buffer_size": 40, "batch_size": 20},
    "sac": {"buffer_size": 100, "batch_size": 8, "buffer_init_steps": 8, "steps_per_update": 8},
}
MEMORY = {"memory_size": 8, "sequence_length": 5}
POLICIES = [
    ("ppo", "uneven bounds", {}),
    ("ppo", "uneven bounds", {"action_distribution": "state_dependent_gaussian"}),
    ("ppo", "uneven bounds", {"memory": MEMORY}),
    ("ppo", "branches", {}),
    ("ppo", "branches", {"memory": MEMORY}),
    ("ppo", "image", {}),
    ("ppo", "image", {"memory": MEMORY}),
    ("ppo", "image of floats and vector", {"vis_encode_type": "resnet"}),
    ("ppo", "hybrid", {"hidden_layers": [24, 16], "activation": "tanh"}),
    ("ppo", "hybrid", {"memory": MEMORY}),
    ("ppo", "several vectors", {}),
    ("ppo", "integers", {}),
    ("sac", "uneven bounds", {}),
    ("sac", "branches", {}),
    ("sac", "image", {}),
    ("sac", "image of floats and vector", {"vis_encode_type": "match3"}),
    ("sac", "hybrid", {}),
    ("sac", "one-hot", {}),
]
DEEP = {"ppo": ("several vectors", "integers"), "sac": ("image of floats and vector", "one-hot")}
ROWS = 500


@pytest.mark.parametrize(
    ("trainer", "kind", "network"),
    [pytest.param(*each, marks=[pytest.mark.deep] if each[1] in DEEP[each[0]] else []) for each in POLICIES],
    ids=str,
)
def test_a_trained_policy_acts_in_onnxruntime_as_before(
    tmp_path: Path, trainer: str, kind: str, network: dict[str, Any]
) -> None:
    run = Run(
        {
            "plugins": {"local": ["worlds"]},
            "environment": {"type": "world", "id": kind, "num_envs": 4},
            "behaviors": {
                "Agent": {
                    "trainer_type": trainer,
                    "max_steps": 80,
                    "hyperparameters": HYPERPARAMETERS[trainer],
                    "network_settings": {"hidden_units": 16, "num_layers": 1, "normalize": True, **network},
                }
            },
            "checkpoint_settings": {"run_id": "run", "results_dir": str(tmp_path)},
            "stats": {"console": False},
            "export": {"onnx": {"tolerance": 1e-6}},
        }
    )
    with run:
        run.train()
    assert [each.problem for each in run.exports] == [None]
    policy, session = (
        load_policies(tmp_path / "run")["Agent"],
        onnxruntime.InferenceSession(tmp_path / "run/Agent.onnx"),
    )
    generator, behavior = np.random.default_rng(0), SPECS[kind]
    inputs = {each.name: each for each in session.get_inputs()}
    outputs = [each.name for each in session.get_outputs()]
    memory = np.zeros((ROWS, MEMORY["memory_size"]), np.float32) if "memory" in inputs else None
    remembered = None if memory is None else memory.copy()
    for _ in range(3):
        seen: dict[str, NDArray[Any]] = random_observations(behavior, ROWS, generator)
        mask = None
        feed = {**seen, "epsilon": generator.standard_normal((ROWS, inputs["epsilon"].shape[1]), np.float32)}
        if behavior.discrete:
            mask = feed["action_mask"] = np.ones((ROWS, behavior.mask_size), np.bool_)
            mask[:, 0] = generator.random(ROWS) < 0.5
        if memory is not None:
            feed["memory"] = memory
        found = dict(zip(outputs, session.run(outputs, feed), strict=True))
        expected = policy.act(seen, mask, True, *(() if remembered is None else (remembered,)))
        if expected.continuous is not None:
            np.testing.assert_allclose(found["deterministic_continuous"], expected.continuous, rtol=0, atol=1e-5)
        if expected.discrete is not None:
            np.testing.assert_array_equal(found["deterministic_discrete"], expected.discrete)
            assert mask is not None and (mask[:, 0] | (found["discrete"][:, 0] != 0)).all()
        if remembered is not None:
            memory = found["memory_out"]
            np.testing.assert_allclose(memory, remembered, rtol=0, atol=1e-5)


def episodes(environment: Any, act: Callable[[NDArray[np.float32]], Any], count: int) -> list[float]:
    """The return of each of ``count`` episodes."""
    returns = []
    for seed in range(count):
        seen, _ = environment.reset(seed=seed)
        returns.append(0.0)
        over = False
        while not over:
            seen, reward, terminated, truncated, _ = environment.step(act(np.asarray(seen, np.float32)[None]))
            returns[-1] += float(reward)
            over = terminated or truncated
    return returns


@pytest.mark.parametrize(("task", "trainer"), [("CartPole-v1", "ppo"), ("Pendulum-v1", "sac")])
def test_20_episodes_with_onnxruntime_have_the_returns_of_the_policy(tmp_path: Path, task: str, trainer: str) -> None:
    settings = {"ppo": {"batch_size": 64, "buffer_size": 512}, "sac": {"batch_size": 64, "buffer_init_steps": 100}}
    run = Run(
        {
            "environment": {"type": "gymnasium", "id": task, "num_envs": 4},
            "env_settings": {"seed": 1},
            "behaviors": {
                "Agent": {
                    "trainer_type": trainer,
                    "max_steps": 2048 if trainer == "ppo" else 512,
                    "hyperparameters": settings[trainer],
                    "network_settings": {"hidden_units": 32, "normalize": True},
                }
            },
            "checkpoint_settings": {"run_id": "run", "results_dir": str(tmp_path)},
            "stats": {"console": False},
        }
    )
    with run:
        run.train()
    policy = load_policies(tmp_path / "run")["Agent"]
    session = onnxruntime.InferenceSession(export_policies(tmp_path / "run", "onnx", tmp_path)["Agent"])
    (observation,) = policy.behavior.observations
    inputs = {each.name: each.shape for each in session.get_inputs()}
    rest: dict[str, NDArray[Any]] = {"epsilon": np.zeros((1, inputs["epsilon"][1]), np.float32)}
    if "action_mask" in inputs:
        rest["action_mask"] = np.ones((1, inputs["action_mask"][1]), np.bool_)
    discrete = task == "CartPole-v1"
    name = "deterministic_discrete" if discrete else "deterministic_continuous"

    def with_policy(seen: NDArray[np.float32]) -> Any:
        actions = policy.act({observation.name: seen})
        return int(actions.discrete[0, 0]) if discrete else actions.continuous[0]

    def with_onnxruntime(seen: NDArray[np.float32]) -> Any:
        (found,) = session.run([name], {observation.name: seen, **rest})
        return int(found[0, 0]) if discrete else found[0]

    with gymnasium.make(task) as environment:
        expected, found = (episodes(environment, act, 20) for act in (with_policy, with_onnxruntime))
    if discrete:
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert len(set(expected)) > 5


@pytest.mark.parametrize(("trainer", "kind"), [("bc", "hybrid"), ("iql", "uneven bounds")])
def test_a_policy_of_recorded_episodes(tmp_path: Path, trainer: str, kind: str) -> None:
    """The exporter compares the file with the policy, and raises if they differ."""
    recording = record(World(kind, 2), 40)
    writer = MinariFormat().writer(tmp_path / "recordings/Agent", recording.behavior, RecordingAbout())
    writer.write(recording)
    writer.close()
    run = Run(
        {
            "behaviors": {
                "Agent": {
                    "trainer_type": trainer,
                    "max_steps": 20,
                    "hyperparameters": {"demo_path": str(tmp_path / "recordings"), "batch_size": 32},
                    "network_settings": {"hidden_units": 16, "normalize": True},
                }
            },
            "checkpoint_settings": {"run_id": "run", "results_dir": str(tmp_path)},
            "stats": {"console": False},
            "export": {"onnx": {"profile": "unity", "tolerance": 1e-6}},
        }
    )
    with run:
        run.train()
    assert [(each.file, each.problem) for each in run.exports] == [("Agent.onnx", None)]
    session = onnxruntime.InferenceSession(tmp_path / "run/Agent.onnx")
    assert "deterministic_continuous_actions" in {each.name for each in session.get_outputs()}
