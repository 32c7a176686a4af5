"""The tasks of a page, in JavaScript, do what the environments of Gymnasium do."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore_onnx.web.page_file import part
from rlcore_onnx.web.task import TASKS

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs node, which executes JavaScript")
STEPS = 2000
TOLERANCE = 1e-6

PROGRAM = """
const { name, steps } = JSON.parse(require("node:fs").readFileSync(0, "utf-8"));
const task = TASKS[name];
const found = steps.map(({ state, action }) => {
  const next = task.step(state, action);
  return { seen: task.observe(state), next: next.state, reward: next.reward, terminated: next.terminated };
});
const first = Array.from({ length: 500 }, () => task.reset());
console.log(JSON.stringify({ found, first, limit: task.limit, fps: task.fps, pushed: task.push(steps[0].state, 1) }));
"""


def numbers(values: Any) -> list[float]:
    return [float(value) for value in values]


def steps_of(environment: gymnasium.Env[Any, Any]) -> list[dict[str, Any]]:
    """Steps with random actions, each kept for some steps so that a car or a pendulum moves far."""
    environment.action_space.seed(1)
    observation, _ = environment.reset(seed=1)
    generator = np.random.default_rng(1)
    action = environment.action_space.sample()
    steps = []
    while len(steps) < STEPS:
        if generator.random() < 0.2:
            action = environment.action_space.sample()
        state = numbers(environment.unwrapped.state)  # type: ignore[attr-defined]
        after, reward, terminated, truncated, _ = environment.step(action)
        steps.append(
            {
                "state": state,
                "seen": numbers(observation),
                "action": int(action) if np.ndim(action) == 0 else numbers(action),
                "next": numbers(environment.unwrapped.state),  # type: ignore[attr-defined]
                "reward": float(reward),
                "terminated": bool(terminated),
            }
        )
        observation = after
        if terminated or truncated:
            observation, _ = environment.reset()
    return steps


def in_node(name: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
    assert NODE is not None
    request = json.dumps({"name": name, "steps": steps})
    command = [NODE, "-e", part("tasks.js") + PROGRAM]
    done = subprocess.run(command, input=request, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("name", TASKS)
def test_a_task_equals_gymnasium_step_for_step(name: str) -> None:
    environment = gymnasium.make(name)
    steps = steps_of(environment)
    answer = in_node(name, steps)
    for expected, found in zip(steps, answer["found"], strict=True):
        np.testing.assert_allclose(found["seen"], expected["seen"], atol=TOLERANCE, rtol=TOLERANCE)
        np.testing.assert_allclose(found["next"], expected["next"], atol=TOLERANCE, rtol=0)
        assert found["reward"] == pytest.approx(expected["reward"], abs=TOLERANCE)
        assert found["terminated"] == expected["terminated"]
    spec = environment.spec
    assert spec is not None
    assert answer["limit"] == spec.max_episode_steps
    assert answer["fps"] == environment.metadata["render_fps"]
    assert answer["pushed"] != steps[0]["state"]


@pytest.mark.parametrize("name", TASKS)
def test_episodes_begin_where_those_of_gymnasium_begin(name: str) -> None:
    environment = gymnasium.make(name)
    states = []
    for seed in range(500):
        environment.reset(seed=seed)
        states.append(numbers(environment.unwrapped.state))  # type: ignore[attr-defined]
    first = np.array(in_node(name, steps_of(environment)[:1])["first"])
    expected = np.array(states)
    size = np.ptp(expected, axis=0)
    np.testing.assert_array_less(np.abs(first.min(axis=0) - expected.min(axis=0)), 0.05 * size + 1e-9)
    np.testing.assert_array_less(np.abs(first.max(axis=0) - expected.max(axis=0)), 0.05 * size + 1e-9)
