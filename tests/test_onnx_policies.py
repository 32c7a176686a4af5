"""Policies that PPO, SAC, bc and iql trained, as ONNX files: the same actions, the same memory, the same episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from unity_loader import UnityModel, in_scene, sensed
from worlds import SPECS, World

from rlcore import BehaviorSpec, RecordingAbout, Run, export_policies, load_policies
from rlcore_devkit.conformance.recordings import record
from rlcore_devkit.playing import random_mask, random_observations
from rlcore_offline.minari_format import MinariFormat

HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "ppo": {"buffer_size": 40, "batch_size": 20},
    "sac": {"buffer_size": 100, "batch_size": 8, "buffer_init_steps": 8, "steps_per_update": 8},
}
MEMORY = {"memory_size": 8, "sequence_length": 5}


def nightly(*policy: Any) -> Any:
    return pytest.param(*policy, marks=pytest.mark.learning)


def deep_only(*policy: Any) -> Any:
    return pytest.param(*policy, marks=pytest.mark.deep)


POLICIES = [
    nightly("ppo", "uneven bounds", {}),
    ("ppo", "uneven bounds", {"action_distribution": "state_dependent_gaussian"}),
    ("ppo", "uneven bounds", {"memory": MEMORY}),
    nightly("ppo", "branches", {}),
    ("ppo", "branches", {"memory": MEMORY}),
    nightly("ppo", "image", {}),
    ("ppo", "image", {"memory": MEMORY}),
    ("ppo", "image of floats and vector", {"vis_encode_type": "resnet"}),
    ("ppo", "hybrid", {"hidden_layers": [24, 16], "activation": "tanh"}),
    nightly("ppo", "hybrid", {"memory": MEMORY}),
    deep_only("ppo", "several vectors", {}),
    deep_only("ppo", "integers", {}),
    nightly("sac", "uneven bounds", {}),
    nightly("sac", "branches", {}),
    ("sac", "image", {}),
    deep_only("sac", "image of floats and vector", {"vis_encode_type": "match3"}),
    ("sac", "hybrid", {}),
    deep_only("sac", "one-hot", {}),
]
RANDOM, EXTREME = 500, 50
BATCHES = (1, 2, 7, 64)
STEPS = 3


def observations(behavior: BehaviorSpec, generator: np.random.Generator) -> dict[str, NDArray[Any]]:
    """500 random rows, and 50 of zeros, of the ends of the range of images, and of huge numbers."""
    made = random_observations(behavior, RANDOM + EXTREME, generator)
    for o in behavior.observations:
        extreme = made[o.name][RANDOM:]
        extreme[:] = 0
        if o.kind != "one_hot":
            huge = 1e6 if o.kind == "vector" else 255 if o.dtype == np.uint8 else 1
            extreme[10:30] = huge
            extreme[30:] = -huge if o.kind == "vector" else huge * generator.integers(0, 2, extreme[30:].shape)
    return made


def masks(behavior: BehaviorSpec, generator: np.random.Generator) -> NDArray[np.bool_] | None:
    """Random masks; those of the extreme rows allow a single option of each branch."""
    mask = random_mask(behavior, RANDOM + EXTREME, generator)
    if mask is not None:
        mask[RANDOM:] = False
        for first, options in zip(np.cumsum((0, *behavior.discrete)), behavior.discrete, strict=False):
            mask[np.arange(RANDOM, len(mask)), first + generator.integers(options, size=EXTREME)] = True
    return mask


class GenericFile:
    """A file of the profile ``generic``: the names, types and units of the behavior."""

    def __init__(self, path: Path, behavior: BehaviorSpec) -> None:
        self.behavior = behavior
        self.session = onnxruntime.InferenceSession(path)
        self.inputs = {each.name: each.shape for each in self.session.get_inputs()}
        self.outputs = [each.name for each in self.session.get_outputs()]
        self.generator = np.random.default_rng(0)

    def act(self, seen: dict[str, NDArray[Any]], mask: Any, memory: Any) -> tuple[Any, Any, Any]:
        rows = len(next(iter(seen.values())))
        feed = {**seen, "epsilon": self.generator.standard_normal((rows, self.inputs["epsilon"][1]), np.float32)}
        feed |= {} if mask is None else {"action_mask": mask}
        feed |= {} if memory is None else {"memory": memory}
        found = dict(zip(self.outputs, self.session.run(self.outputs, feed), strict=True))
        if mask is not None:
            require_allowed(found["discrete"], mask, self.behavior.discrete)
        names = ("deterministic_continuous", "deterministic_discrete", "memory_out")
        return tuple(found.get(name) for name in names)


class UnityFile:
    """A file of the profile ``unity`` in the imitation of its loader."""

    def __init__(self, path: Path, behavior: BehaviorSpec) -> None:
        self.behavior = behavior
        self.model = UnityModel(path, in_scene(behavior), deterministic=True)

    def act(self, seen: dict[str, NDArray[Any]], mask: Any, memory: Any) -> tuple[Any, Any, Any]:
        behavior, rows = self.behavior, len(next(iter(seen.values())))
        self.model.memory = None if memory is None else memory[:, None].copy()
        masks = None if mask is None else mask.astype(np.float32)
        continuous, discrete = self.model.step(sensed(behavior, seen), masks, np.zeros(rows, np.bool_))
        if continuous is not None:
            continuous = behavior.low + (continuous + 1) / 2 * (behavior.high - behavior.low)
        return continuous, discrete, None if memory is None else self.model.memory[:, 0]


def require_allowed(discrete: NDArray[np.int64], mask: NDArray[np.bool_], sizes: Sequence[int]) -> None:
    offsets = np.cumsum((0, *sizes))[:-1]
    assert np.take_along_axis(mask, discrete + offsets, axis=1).all(), "an option that is not allowed was chosen"


@pytest.mark.parametrize(("trainer", "kind", "network"), POLICIES, ids=str)
def test_a_trained_policy_acts_in_onnxruntime_as_before(
    tmp_path: Path, deep: bool, trainer: str, kind: str, network: dict[str, Any]
) -> None:
    """550 observations, three steps. In a deep run, all policies in the profile ``unity`` too, and several batches."""
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
    behavior, policy = SPECS[kind], load_policies(tmp_path / "run")["Agent"]
    files: dict[str, GenericFile | UnityFile] = {"generic": GenericFile(tmp_path / "run/Agent.onnx", behavior)}
    if deep or kind == "hybrid":
        settings, file = {"profile": "unity", "tolerance": 1e-6}, tmp_path / "unity.onnx"
        files["unity"] = UnityFile(
            export_policies(tmp_path / "run", "onnx", file, settings=settings)["Agent"], behavior
        )
    generator, rows = np.random.default_rng(0), RANDOM + EXTREME
    memory = np.zeros((rows, policy.memory_size), np.float32) if policy.memory_size else None
    remembered = dict.fromkeys(files, memory)
    largest = dict.fromkeys(files, 0.0)
    for _ in range(STEPS):
        seen, mask = observations(behavior, generator), masks(behavior, generator)
        memory = None if memory is None else memory.copy()
        expected = policy.act(seen, mask, True, *(() if memory is None else (memory,)))
        for profile, file in files.items():
            for batch in BATCHES if deep else BATCHES[-1:]:
                parts = []
                for first in range(0, rows, batch):
                    part = slice(first, first + batch)
                    some = {name: array[part] for name, array in seen.items()}
                    parts.append(
                        file.act(some, *(None if each is None else each[part] for each in (mask, remembered[profile])))
                    )
                continuous, discrete, after = (
                    None if each[0] is None else np.concatenate(each) for each in zip(*parts, strict=True)
                )
                for found, wanted in ((continuous, expected.continuous), (after, memory)):
                    if wanted is not None:
                        largest[profile] = max(largest[profile], float(np.abs(found - wanted).max()))
                if mask is not None:
                    np.testing.assert_array_equal(discrete, expected.discrete)
                    require_allowed(discrete, mask, behavior.discrete)
            remembered[profile] = after
    print(", ".join(f"{profile}: differs by {value:.1e}" for profile, value in largest.items()))
    assert max(largest.values()) <= 1e-5


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
