"""A written dataset is read back exactly, and Minari reads it too."""

from __future__ import annotations

import os
from pathlib import Path

import gymnasium
import minari
import numpy as np
import pytest
from minari.dataset.minari_storage import MinariStorage

from rlcore import BehaviorSpec, ConfigError, ObservationSpec, Recording, RecordingAbout
from rlcore_devkit.conformance.recording_formats import same_behavior
from rlcore_devkit.conformance.recordings import arrays
from rlcore_devkit.conformance.states import assert_equal
from rlcore_devkit.playing import random_recording
from rlcore_gymnasium.spaces import OBSERVATION
from rlcore_offline import recording_problem
from rlcore_offline.minari_format import MinariFormat
from rlcore_offline.minari_writer import dataset_id, env_spec_of

pytestmark = pytest.mark.smoke

VECTOR = ObservationSpec(OBSERVATION, (3,), np.float32)
ONE_SIDED = np.array([-1.0, 0.1], np.float32), np.array([np.inf, 0.3], np.float32)

BEHAVIORS = {
    "discrete": BehaviorSpec("A", (VECTOR,), discrete=(4,)),  # others, and masks, are in the conformance of formats
    "hybrid_branches": BehaviorSpec("A", (VECTOR,), 2, (4, 2), *ONE_SIDED),
    "several": BehaviorSpec(
        "A",
        (
            ObservationSpec("speed", (), np.float32),
            ObservationSpec("arm/joints", (2, 2), np.float64),
            ObservationSpec("where", (5,), np.float32, "one_hot"),
            ObservationSpec("eyes", (40, 40, 3), np.uint8, "image"),
            ObservationSpec("planes", (8, 8, 2), np.uint8, "image", high=np.array([1.0, 3.0])),
            ObservationSpec("stacked", (2, 64, 64), np.uint8),
            ObservationSpec("depth", (8, 8, 1), np.float32, "image"),
            ObservationSpec("count", (2,), np.int32),
            ObservationSpec("flags", (3,), np.bool_),
        ),
        discrete=(2,),
    ),
    "named": BehaviorSpec("A", (ObservationSpec("rays", (4,), np.float32),), discrete=(2,)),
}


def same(one: Recording, other: Recording) -> None:
    same_behavior(one.behavior, other.behavior)
    assert_equal(arrays(one), arrays(other))
    for name, observation in one.observations.items():
        assert observation.dtype == other.observations[name].dtype
    for ours, theirs in zip(one.behavior.observations, other.behavior.observations, strict=True):
        assert_equal(ours.full_scale, theirs.full_scale)


@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("name", BEHAVIORS)
def test_every_behavior_comes_back_exactly(write, name: str, masked: bool) -> None:
    recording = random_recording(BEHAVIORS[name], [3, 1, 5], masked=masked and bool(BEHAVIORS[name].discrete))
    path = write("A", recording)
    same(MinariFormat().read(path, "A"), recording)
    same_behavior(MinariFormat().behavior(path, "A"), BEHAVIORS[name])
    assert recording_problem(recording) is None


def test_minari_opens_it_with_the_environment_it_came_from(write) -> None:
    behavior = BehaviorSpec("Car", (ObservationSpec(OBSERVATION, (2,), np.float32),), discrete=(3,))
    recording = random_recording(behavior, [3, 1])
    about = RecordingAbout("gymnasium", "MountainCar-v0", {"goal_velocity": 0.05}, "ppo", "a drive")
    dataset = minari.MinariDataset(write("Car", recording, about=about) / "data")
    assert (dataset.total_episodes, dataset.total_steps, dataset.spec.dataset_id) == (2, 4, "Car-v0")
    metadata = dataset.storage.metadata
    assert (metadata["algorithm_name"], metadata["description"]) == ("ppo", "a drive")
    first, second = dataset.iterate_episodes()
    np.testing.assert_array_equal(first.observations, recording.observations[OBSERVATION][:4])
    np.testing.assert_array_equal(second.actions, recording.actions.discrete[3:, 0])
    assert dataset.action_space.contains(first.actions[0])
    environment = dataset.recover_environment()
    assert environment.unwrapped.goal_velocity == 0.05
    assert gymnasium.spec("MountainCar-v0").kwargs == {}  # the registry's own is left alone
    lake = env_spec_of(RecordingAbout("gymnasium", "FrozenLake-v1", {"is_slippery": False}))
    assert lake is not None and lake.kwargs == {"map_name": "4x4", "is_slippery": False}
    assert [dataset_id(name) for name in ("car-v3", "my car")] == ["car-v3", "my_car-v0"]
    environment.close()


# ------------------------------------------------------------ nothing half done


def test_what_exists_is_never_replaced(tmp_path: Path) -> None:
    recording = random_recording(BEHAVIORS["discrete"], [3])
    begun = MinariFormat().writer(tmp_path / "A", recording.behavior, RecordingAbout())
    (tmp_path / "A").mkdir()
    begun.write(recording)
    for refused in (begun.close, lambda: MinariFormat().writer(tmp_path / "A", recording.behavior, RecordingAbout())):
        with pytest.raises(ConfigError, match=r"A exists already; remove it, or record to another directory"):
            refused()
    begun.discard()
    assert os.listdir(tmp_path) == ["A"] and not os.listdir(tmp_path / "A")


def test_a_writer_that_cannot_begin_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(MinariStorage, "update_metadata", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        MinariFormat().writer(tmp_path / "A", BEHAVIORS["discrete"], RecordingAbout())
    assert not os.listdir(tmp_path)
