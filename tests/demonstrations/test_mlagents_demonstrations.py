"""Demonstrations of ML-Agents: hand-made files, as each generation of Unity's recorder left them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from unity_demos import (
    brain,
    file_of,
    metadata,
    old_brain,
    picture,
    step,
    varint,
    vector,
    walked,
    write,
)

from rlcore import ConfigError, Recording
from rlcore_offline import recording_problem
from rlcore_offline.mlagents_format import MLAgentsFormat


def read(path: Path) -> Recording:
    made = MLAgentsFormat()
    assert made.reads(path)
    recording = made.read(path, "Walker")
    assert recording_problem(recording) is None and recording.behavior.name == "Walker"
    described = made.behavior(path, "Walker")
    assert described.observations == recording.behavior.observations
    assert (described.continuous, described.discrete) == (recording.behavior.continuous, recording.behavior.discrete)
    return recording


# ------------------------------------------------------------ which action, reward and observation belong together


@pytest.mark.parametrize("agent", [None, 0, 7], ids=["a number for each episode", "always 0", "always 7"])
def test_the_action_of_an_observation_is_in_the_next_step(tmp_path: Path, agent: int | None) -> None:
    """Unity records before it decides. The loader of ML-Agents takes the action beside the observation."""
    recording = read(write(tmp_path / "Expert.demo", brain(branches=[5]), walked([3, 1, 2], agent=agent)))
    assert recording.lengths.tolist() == [3, 1, 2]
    assert recording.observations["observation"].tolist() == [
        *([0, 0], [0, 1], [0, 2], [0, 3]),
        *([1, 0], [1, 1]),
        *([2, 0], [2, 1], [2, 2]),
    ]
    assert recording.actions.discrete is not None
    assert recording.actions.discrete[:, 0].tolist() == [1, 2, 3, 1, 1, 2]
    assert recording.reward.tolist() == [1, 2, 3, 1, 1, 2]
    assert recording.terminated.tolist() == [False, False, True, True, False, True]
    assert not recording.truncated.any() and recording.action_mask is None


def test_the_limit_of_steps_and_the_end_of_the_recording_cut_episodes_off(tmp_path: Path) -> None:
    steps = [
        step(vector([0.0, 0.0]), discrete=[0]),
        step(vector([0.0, 1.0]), discrete=[1], done=True, max_step=True),
        step(vector([1.0, 0.0]), agent=1, discrete=[0]),
        step(vector([1.0, 1.0]), agent=1, discrete=[2]),  # the agent vanished
        step(vector([2.0, 0.0]), agent=2, discrete=[0], done=True),  # it ended before it acted
        step(vector([3.0, 0.0]), agent=3, discrete=[0]),
        step(vector([3.0, 1.0]), agent=3, discrete=[3], max_step=True),  # not done
    ]
    recording = read(write(tmp_path / "Expert.demo", brain(branches=[5]), steps))
    assert recording.lengths.tolist() == [1, 1, 1]
    assert recording.truncated.all() and not recording.terminated.any()
    assert recording.observations["observation"][:, 0].tolist() == [0, 0, 1, 1, 3, 3]


def test_a_last_step_without_an_action_means_that_each_step_has_its_own(tmp_path: Path) -> None:
    steps = [step(vector([float(k)]), reward=float(k), continuous=[k / 4, -k / 4]) for k in range(3)]
    recording = read(write(tmp_path / "Expert.demo", brain(2), [*steps, step(vector([3.0]), reward=3.0, done=True)]))
    assert recording.actions.continuous is not None
    assert recording.actions.continuous.tolist() == [[0, 0], [0.25, -0.25], [0.5, -0.5]]
    assert recording.reward.tolist() == [1, 2, 3] and recording.terminated.tolist() == [False, False, True]
    np.testing.assert_array_equal(recording.behavior.low, [-1, -1])
    np.testing.assert_array_equal(recording.behavior.high, [1, 1])


def test_before_version_0_14_the_end_of_an_episode_shows_the_begin_of_the_next(tmp_path: Path) -> None:
    steps = [
        step(vector([float(k)]), reward=float(k), done=k in (2, 4), max_step=k == 4, agent=-718982, old_actions=[k % 3])
        for k in range(6)
    ]
    recording = read(write(tmp_path / "Expert.demo", old_brain([3], False), steps))
    assert recording.lengths.tolist() == [2, 2, 1]
    assert recording.actions.discrete is not None
    assert recording.actions.discrete[:, 0].tolist() == [1, 2, 0, 1, 2]
    assert recording.reward.tolist() == [1, 2, 3, 4, 5]
    assert recording.terminated.tolist() == [False, True, False, False, False]
    assert recording.truncated.tolist() == [False, False, False, True, True]
    # It is unknown where the first two ended: their last known observation stands for it.
    assert recording.observations["observation"][:, 0].tolist() == [0, 1, 1, 2, 3, 3, 4, 5]


@pytest.mark.parametrize(("sizes", "continuous"), [([2], True), ([3, 2], False)])
def test_old_descriptions_of_actions(tmp_path: Path, sizes: list[int], continuous: bool) -> None:
    steps = [step(vector([0.0]), old_actions=[1.0, 1.0], agent=k // 2) for k in range(4)]
    recording = read(write(tmp_path / "Expert.demo", old_brain(sizes, continuous), steps, meta=metadata(4, version=0)))
    found = recording.behavior
    assert (found.continuous, found.discrete) == ((2, ()) if continuous else (0, (3, 2)))
    actions = recording.actions.continuous if continuous else recording.actions.discrete
    assert actions is not None and (actions == 1).all() and recording.lengths.tolist() == [1, 1]


def test_hybrid_actions_and_masks(tmp_path: Path) -> None:
    forbidden = [True, False, False, False, True]  # ML-Agents lists what may not be chosen
    steps = [
        step(vector([0.0]), continuous=[0.0], discrete=[0, 0], mask=forbidden),
        step(vector([1.0]), continuous=[0.5], discrete=[2, 0], mask=[False] * 5),
        step(vector([2.0]), continuous=[0.25], discrete=[0, 1], mask=forbidden),
        step(vector([3.0]), continuous=[0.75], discrete=[0, 1], done=True),
    ]
    recording = read(write(tmp_path / "Expert.demo", brain(1, [3, 2]), steps))
    assert recording.actions.continuous is not None and recording.actions.discrete is not None
    assert recording.actions.continuous[:, 0].tolist() == [0.5, 0.25, 0.75]
    assert recording.actions.discrete.tolist() == [[2, 0], [0, 1], [0, 1]]
    assert recording.action_mask is not None
    assert recording.action_mask.tolist() == [
        [False, True, True, True, False],
        [True] * 5,
        [True, True, True, True, True],  # a player chose 0 and 1 although they were forbidden
        [True] * 5,
    ]


# ------------------------------------------------------------ files


def test_a_directory_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    write(tmp_path / "demos" / "b.demo", brain(branches=[5]), walked([2]))
    write(tmp_path / "demos" / "a.demo", brain(branches=[5]), walked([1, 4]), meta=metadata(7))
    (tmp_path / "demos" / "a.demo.meta").write_text("of Unity's editor")
    recording = read(tmp_path / "demos")
    assert recording.lengths.tolist() == [1, 4, 2]
    assert not MLAgentsFormat().reads(tmp_path) and not MLAgentsFormat().reads(tmp_path / "demos" / "a.demo.meta")
    assert not MLAgentsFormat().reads(tmp_path / "absent.demo") and MLAgentsFormat().stored() == {}


def test_masks_of_one_file_leave_the_other_free(tmp_path: Path) -> None:
    write(tmp_path / "a.demo", brain(branches=[5]), walked([1]))
    steps = [step(vector([0.0, 0.0]), discrete=[1], mask=[True, False, False, False, False]) for _ in range(2)]
    write(tmp_path / "b.demo", brain(branches=[5]), steps)
    mask = read(tmp_path).action_mask
    assert mask is not None and mask[:2].all() and not mask[2:, 0].any() and mask[2:, 1:].all()


def test_behaviors_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path / "a.demo", brain(branches=[5]), walked([1]))
    write(tmp_path / "b.demo", brain(branches=[4]), walked([1]))
    with pytest.raises(ConfigError, match=r"b\.demo: its agents see or do something else than those of .*a\.demo"):
        MLAgentsFormat().read(tmp_path, "Walker")


def test_a_recorder_that_was_not_closed_left_no_count(tmp_path: Path) -> None:
    path = write(tmp_path / "Expert.demo", brain(branches=[5]), walked([3]), meta=metadata(0), tail=False)
    assert read(path).lengths.tolist() == [3]


def test_a_file_cut_anywhere_is_refused_in_one_line(tmp_path: Path) -> None:
    content = file_of(brain(branches=[5]), walked([2]), tail=False)
    path = tmp_path / "Expert.demo"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ConfigError, match=r"Expert\.demo: ") as caught:
            MLAgentsFormat().read(path, "Walker")
        assert "\n" not in str(caught.value)


REFUSED = {
    "empty": (b"", "is empty"),
    "another file": (b"\x89PNG" + bytes(100), "not a demonstration of ML-Agents: the metadata has 10249 bytes"),
    "a later version": (file_of(brain(2), [], meta=metadata(1, version=7)), "has version 7 of the format"),
    "a vast step": (
        file_of(brain(branches=[5]), [], meta=metadata(1), tail=False) + varint(1 << 31),
        "step 0 has 2147483648 bytes",
    ),
    "steps that are missing": (
        file_of(brain(branches=[5]), walked([1]), meta=metadata(9), tail=False),
        "has 2 of the 9 steps",
    ),
    "no message": (file_of(brain(2), [b"\xff\xff"]), "step 0 cannot be read"),
    "vast branches": (file_of(brain(branches=[1 << 30]), walked([1])), "options of actions, more than"),
    "nothing seen": (file_of(brain(2), [step(continuous=[0, 0])] * 2), "its agents see nothing"),
    "a vast shape": (file_of(brain(2), [step(vector([1.0], shape=[1 << 20] * 2))] * 2), "step 0 has the shape"),
    "too few numbers": (file_of(brain(2), [step(vector([1.0], shape=[2]))] * 2), "has 1 numbers"),
    "another shape later": (
        file_of(brain(branches=[5]), [*walked([1]), step(vector([1.0]), discrete=[0])]),
        r"observation 0 of step 2 has shape \[1\] instead of \[2\]",
    ),
    "another action": (
        file_of(brain(branches=[5]), [step(vector([1.0]), discrete=[0, 1])] * 2),
        "step 0 has 0 continuous and 2 discrete actions instead of 0 and 1",
    ),
    "an option too many": (file_of(brain(branches=[2]), walked([3])), r"discrete actions \[2\], outside \[2\]"),
    "a missing action": (
        file_of(brain(branches=[5]), [step(vector([0.0]), discrete=[k] * (k != 1)) for k in range(3)]),
        "step 1 has no action",
    ),
    "another mask": (
        file_of(brain(branches=[5]), [step(vector([0.0]), discrete=[0], mask=[True])] * 2),
        "an action mask of 1 options instead of 5",
    ),
    "one step": (file_of(brain(branches=[5]), walked([0])), "no action in it has an outcome"),
    "an unknown compression": (
        file_of(brain(2), [step(picture(b"x", [2]), continuous=[0, 0])] * 2),
        "is compressed in an unknown way",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_a_demonstration_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    content, said = REFUSED[name]
    path = tmp_path / "Expert.demo"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"demonstration .*Expert\.demo: .*{said}") as caught:
        MLAgentsFormat().read(path, "Walker")
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------ observations


def test_names_of_observations(tmp_path: Path) -> None:
    def names(*given: str) -> list[str]:
        seen = [vector([1.0, 2.0], name) for name in given]
        path = write(tmp_path / "Expert.demo", brain(1), [step(*seen, continuous=[0.0])] * 2)
        return [each.name for each in read(path).behavior.observations]

    assert names("VectorSensor_size2") == ["observation"]
    assert names("Rays", "Speed") == ["Rays", "Speed"]
    for given in (("", ""), ("Rays", "Rays"), ("Rays", "\x1b[2J"), ("Rays", "x" * 1000)):
        assert names(*given) == ["observation_0", "observation_1"]


HEIGHT = 4
WIDTH = 6


def pixels(channels: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, channels), np.uint8)


def png(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(array if array.shape[2] > 1 else array[:, :, 0]).save(stream, "PNG")
    return stream.getvalue()


# the sizes, and how Unity marks channels that come first
LAST = [HEIGHT, WIDTH]
FIRST = [1, 2, 2]

PICTURES = {
    "color": (picture(png(pixels(3)), [*LAST, 3]), pixels(3) / 255),
    "color, channels first": (picture(png(pixels(3)), [3, *LAST], properties=FIRST), pixels(3) / 255),
    "five channels": (
        picture(png(pixels(3)) + png(pixels(3, 1)), [*LAST, 5]),
        np.concatenate([pixels(3), pixels(3, 1)[:, :, :2]], 2) / 255,
    ),
    "mapped": (
        picture(png(pixels(3)) + png(pixels(3, 1)), [*LAST, 2], mapping=[0, 0, 0, 1, -1, -1]),
        np.concatenate([pixels(3).mean(2, keepdims=True), pixels(3, 1)[:, :, :1]], 2) / 255,
    ),
    "not compressed": (vector((pixels(3) / 255).ravel(), shape=[*LAST, 3]), pixels(3) / 255),
}


@pytest.mark.parametrize("name", PICTURES)
def test_images(tmp_path: Path, name: str) -> None:
    seen, wanted = PICTURES[name]
    recording = read(write(tmp_path / "Expert.demo", brain(1), [step(seen, continuous=[0.0])] * 2))
    [spec] = recording.behavior.observations
    assert (spec.shape, spec.kind, spec.dtype) == (wanted.shape, "image", np.float32)
    np.testing.assert_allclose(recording.observations["observation"], [wanted, wanted], atol=1e-6)


BAD_PICTURES = {
    "of another size": (png(pixels(3)), [HEIGHT, WIDTH + 1, 3], [], "4 by 6 pixels instead of 4 by 7"),
    "cut off": (png(pixels(3))[:-40], [*LAST, 3], [], "cannot be read"),
    "no image": (b"", [*LAST, 3], [], "is not a PNG image"),
    "too few channels": (png(pixels(3)), [*LAST, 5], [], "has 3 channels in its images instead of 5"),
    "another mapping": (png(pixels(3)), [*LAST, 2], [0, 2, 1], "maps 3 channels of 3 to 2"),
}


@pytest.mark.parametrize("name", BAD_PICTURES)
def test_images_that_cannot_be_read_are_refused(tmp_path: Path, name: str) -> None:
    data, shape, mapping, said = BAD_PICTURES[name]
    path = write(tmp_path / "Expert.demo", brain(1), [step(picture(data, shape, mapping), continuous=[0.0])] * 2)
    with pytest.raises(ConfigError, match=rf"observation 0 of step 0 .*({said})"):
        MLAgentsFormat().read(path, "Walker")
