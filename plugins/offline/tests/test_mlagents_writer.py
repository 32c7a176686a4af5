"""Demonstrations for ML-Agents: what is written is what its loader pairs, and what rlcore reads back."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rlcore import BehaviorSpec, ConfigError, ObservationSpec, Recording, RecordingAbout, load_plugins
from rlcore_devkit.fixtures import RunRlcore
from rlcore_devkit.playing import random_recording
from rlcore_gymnasium.spaces import OBSERVATION
from rlcore_offline import read_recording, recording_problem
from rlcore_offline.mlagents_file import DemonstrationFile
from rlcore_offline.mlagents_format import MLAgentsFormat
from rlcore_unity.mlagents_messages import DemonstrationMeta

VECTOR = ObservationSpec(OBSERVATION, (3,), np.float32)
BOUNDS = np.array([-2.0, -np.inf], np.float32), np.array([6.0, np.inf], np.float32)
BEHAVIORS = {
    "continuous": BehaviorSpec("Walker", (VECTOR,), 2, (), *BOUNDS),
    "branches": BehaviorSpec("Walker", (VECTOR,), discrete=(4, 2)),
    "hybrid": BehaviorSpec("Walker", (VECTOR, ObservationSpec("rays", (2, 2), np.float64)), 2, (3,), *BOUNDS),
    "entities": BehaviorSpec(
        "Walker",
        (
            ObservationSpec("others", (4, 3), np.float32, "entities"),
            ObservationSpec("target", (2,), np.float32, goal=True),
        ),
        discrete=(2,),
    ),
    "image": BehaviorSpec("Walker", (ObservationSpec("eyes", (4, 5, 3), np.uint8, "image"), VECTOR), discrete=(2,)),
    "planes": BehaviorSpec("Walker", (ObservationSpec("eyes", (4, 5, 3), np.uint8, "image", high=1.0),), discrete=(2,)),
}


def write(path: Path, *parts: Recording) -> Recording:
    made = MLAgentsFormat()
    writer = made.writer(path, parts[0].behavior, RecordingAbout())
    for part in parts:
        writer.write(part)
    writer.close()
    return made.read(path, "Walker")


def test_without_rlcore_unity_one_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rlcore_unity", None)
    (tmp_path / "Walker.demo").write_bytes(b"")
    made = MLAgentsFormat()
    assert made.reads(tmp_path)
    for use in (made.behavior, made.read):
        with pytest.raises(ConfigError, match=r"^demonstrations of ML-Agents need rlcore-unity; run: pip install"):
            use(tmp_path, "Walker")


@pytest.mark.parametrize(
    ("name", "masked"), [*((name, False) for name in BEHAVIORS), ("branches", True), ("hybrid", True)]
)
def test_what_was_written_comes_back_in_units_of_ml_agents(tmp_path: Path, name: str, masked: bool) -> None:
    behavior = BEHAVIORS[name]
    parts = [random_recording(behavior, lengths, masked=masked) for lengths in ([3, 1, 5], [2])]
    for part in parts if masked else []:  # some of what was chosen is forbidden
        assert part.action_mask is not None
        part.action_mask[:, ::2] = False
    wanted = Recording.joined(parts)
    found = write(tmp_path / "Walker", *parts)
    assert recording_problem(found) is None and found.nameless
    for which in ("reward", "terminated", "truncated", "lengths"):
        np.testing.assert_array_equal(getattr(found, which), getattr(wanted, which))
    for one, other in zip(behavior.observations, found.behavior.observations, strict=True):
        values = wanted.observations[one.name].astype(np.float32)
        if one.kind == "image":
            values /= 255 if one.high is None else one.high
        np.testing.assert_array_equal(found.observations[other.name].reshape(values.shape), values)
        assert (other.kind, other.goal) == (one.kind, one.goal)
    assert (found.behavior.continuous, found.behavior.discrete) == (behavior.continuous, behavior.discrete)
    if behavior.continuous:
        given = wanted.actions.continuous
        assert given is not None and found.actions.continuous is not None
        scaled = np.stack([(given[:, 0] - 2) / 4, given[:, 1]], 1)  # [-2, 6] is [-1, 1]; the other has no bounds
        np.testing.assert_allclose(found.actions.continuous, scaled, rtol=1e-5, atol=1e-6)
    if behavior.discrete:
        np.testing.assert_array_equal(found.actions.discrete, wanted.actions.discrete)
    if masked:
        assert wanted.action_mask is not None and wanted.actions.discrete is not None
        mask = wanted.action_mask.copy()
        mask[wanted.rows[:, None], wanted.actions.discrete + np.cumsum((0, *behavior.discrete[:-1]))] = True
        np.testing.assert_array_equal(found.action_mask, mask)


def test_each_step_has_the_action_that_ml_agents_pairs_with_it(tmp_path: Path) -> None:
    """The loader of ML-Agents takes the action beside an observation, and reward and end of the next step."""
    recording = random_recording(BEHAVIORS["branches"], [3, 1, 5])
    name = "A walker with a long name"
    write(tmp_path / name, recording)
    file = DemonstrationFile(path := tmp_path / name / f"{name}.demo")
    content = path.read_bytes()
    meta = DemonstrationMeta.FromString(content[1 : 1 + content[0]])
    assert (meta.demonstration_name, meta.number_episodes) == ("A walker w", 3)
    assert meta.mean_reward == pytest.approx(recording.reward.sum() / 3)
    pairs = list(file.pairs())
    assert len(pairs) == 9 + 3
    paired = [(one, other.agent_info) for one, other in pairwise(pairs) if not one.agent_info.done]
    assert [list(one.action_info.discrete_actions) for one, _ in paired] == recording.actions.discrete.tolist()
    assert [info.reward for _, info in paired] == recording.reward.tolist()
    assert [info.done and not info.max_step_reached for _, info in paired] == recording.terminated.tolist()
    assert [len(pair.action_info.discrete_actions) for pair in pairs] == [2] * 11 + [0]  # ML-Agents drops the last


CARTPOLE = """\
preset: none
environment: {type: gymnasium, id: CartPole-v1, num_envs: 2}
behaviors:
  Pole: {trainer_type: ppo, max_steps: 256, hyperparameters: {batch_size: 64, buffer_size: 256}}
"""
CLONE = """\
behaviors: {{Pole: {{trainer_type: bc, max_steps: 20, hyperparameters: {{demo_path: {data}}}}}}}
checkpoint_settings: {{run_id: clone}}
"""


def test_evaluate_records_demonstrations_on_request_and_bc_learns_from_them(
    tmp_path: Path, run_rlcore: RunRlcore
) -> None:
    def run(*arguments: str) -> None:
        assert run_rlcore(*arguments).exit_code == 0

    (tmp_path / "pole.yaml").write_text(CARTPOLE)
    run("run", str(tmp_path / "pole.yaml"), "--run-id", "pole")
    record = ("evaluate", "pole", "--episodes", "3", "--record")
    run(*record, str(tmp_path / "minari"))  # without a wish: not for ML-Agents
    run(*record, str(tmp_path / "demos"), "--record-format", "mlagents")
    assert [path.name for path in (tmp_path / "demos/Pole").iterdir()] == ["Pole.demo"]
    plugins = load_plugins()
    one, other = (read_recording(plugins, tmp_path / data, "Pole") for data in ("minari", "demos"))
    assert other.nameless and not one.nameless
    np.testing.assert_array_equal(one.observations[OBSERVATION], other.observations[OBSERVATION])
    np.testing.assert_array_equal(one.actions.discrete, other.actions.discrete)
    (tmp_path / "clone.yaml").write_text(CLONE.format(data=tmp_path / "demos"))
    run("run", str(tmp_path / "clone.yaml"))
    run("evaluate", "clone", "--episodes", "1", "--set", "environment.type=gymnasium",
        "--set", "environment.id=CartPole-v1")  # fmt: skip
