"""Datasets that Minari made are read as the environment would have shown them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import h5py
import minari
import numpy as np
import pytest
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

from rlcore import ConfigError, Recording, UnsupportedSpace
from rlcore_offline import containment, recording_problem
from rlcore_offline.minari_format import MinariFormat

pytestmark = pytest.mark.filterwarnings("ignore:.*(eval_env|env_spec) is:UserWarning")

Steps = list[tuple[Any, Any, float, bool, bool]]  # observation, action, reward, terminated, truncated
CreateDataset = Callable[..., Path]


def stack(space: spaces.Space[Any], values: Iterable[Any]) -> Any:
    """Convert a space's values for ``EpisodeBuffer``: mappings and tuples of arrays."""
    values = list(values)
    if isinstance(space, spaces.Dict):
        return {key: stack(part, [value[key] for value in values]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stack(part, [value[i] for value in values]) for i, part in enumerate(space.spaces))
    return np.array(values, space.dtype)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Minari's own place."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def create(root: Path) -> CreateDataset:
    """``create(id, observation_space, action_space, episodes)``, each its steps, final observation and infos."""

    def create(
        name: str, seen: Any, done: Any, episodes: list[tuple[Steps, Any]], infos: Any = None, **how: Any
    ) -> Path:
        buffers = [
            EpisodeBuffer(
                observations=stack(seen, [*(step[0] for step in steps), final]),
                actions=stack(done, [step[1] for step in steps]),
                rewards=[step[2] for step in steps],
                terminations=[step[3] for step in steps],
                truncations=[step[4] for step in steps],
                infos=infos,
            )
            for steps, final in episodes
        ]
        minari.create_dataset_from_buffers(
            name, buffers, observation_space=seen, action_space=done, author="a", author_email="a@b.c",
            code_permalink="c", algorithm_name="random", description="d",
        )  # fmt: skip
        return root / name

    return create


def sampled(seen: spaces.Space[Any], done: spaces.Space[Any], lengths: Iterable[int]) -> list[tuple[Steps, Any]]:
    seen.seed(0)
    done.seed(1)
    return [
        ([(seen.sample(), done.sample(), 0.5 * i, i == n - 1, False) for i in range(n)], seen.sample()) for n in lengths
    ]


def raw(recording: Recording) -> list[tuple[dict[str, np.ndarray], slice]]:
    """The observations of each episode and its transitions."""
    cut = np.cumsum(recording.lengths + 1)[:-1]
    parts = {name: np.split(array, cut) for name, array in recording.observations.items()}
    ends = np.cumsum(recording.lengths)
    return [
        ({name: parts[name][i] for name in parts}, slice(end - n, end))
        for i, (end, n) in enumerate(zip(ends, recording.lengths, strict=True))
    ]


SEEN = {
    "box": spaces.Box(-1.0, 1.0, (2, 3), np.float64),
    "discrete": spaces.Discrete(4, start=-2),
    "multi_discrete": spaces.MultiDiscrete([3, 2], start=[1, 5]),
    "multi_binary": spaces.MultiBinary(3),
    "dict": spaces.Dict(speed=spaces.Box(-1, 1, (2,)), place=spaces.Discrete(3), bits=spaces.MultiBinary(2)),
    "tuple": spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,)))),
}  # fmt: skip


DONE = {
    "box": (spaces.Box(-1.0, 1.0, (2, 2)), lambda a: (a.ravel(), [])),
    "discrete": (spaces.Discrete(3, start=5), lambda a: ([], [a - 5])),
    "multi_discrete": (spaces.MultiDiscrete([3, 2], start=[1, -1]), lambda a: ([], [a[0] - 1, a[1] + 1])),
    "multi_binary": (spaces.MultiBinary(2), lambda a: ([], a)),
    "dict": (  # in an order of its own
        spaces.Dict(turn=spaces.Box(0, 5, (1,)), fire=spaces.Discrete(2), aim=spaces.Box(-1, 1, (2,))),
        lambda a: ([*a["turn"], *a["aim"]], [a["fire"]]),
    ),
    "tuple": (spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,)))), lambda a: (a[1], [a[0]])),
}


@pytest.mark.parametrize("name", SEEN)
def test_values_are_the_parts_of_their_spaces(create: CreateDataset, name: str) -> None:
    """Observations are what Gymnasium flattens."""
    space, (done, parts) = SEEN[name], DONE[name]
    episodes = sampled(space, done, [3, 1])
    recording = MinariFormat().read(create("parts-v0", space, done, episodes), "A")
    assert recording_problem(recording) is None
    for (seen, _), (steps, final) in zip(raw(recording), episodes, strict=True):
        for row, value in enumerate([*(step[0] for step in steps), final]):
            ours = np.concatenate([array[row].ravel() for array in seen.values()])
            np.testing.assert_array_equal(ours, spaces.flatten(space, value).astype(np.float32))
    assert recording.reward.tolist() == [0.0, 0.5, 1.0, 0.0] and recording.returns.tolist() == [1.5, 0.0]
    assert recording.terminated.tolist() == [False, False, True, True] and not recording.truncated.any()
    for row, action in enumerate(step[1] for steps, _ in episodes for step in steps):
        for array, expected in zip(
            (recording.actions.continuous, recording.actions.discrete), parts(action), strict=True
        ):
            assert ([] if array is None else array[row].tolist()) == np.asarray(expected).tolist()


def test_frames_with_channels_first_are_turned_and_jpeg_is_read(create: CreateDataset) -> None:
    shades = np.arange(0, 250, 25, np.uint8)
    for name, shape in (("plain", (40, 48, 3)), ("stack", (4, 40, 48))):
        space = spaces.Box(0, 255, shape, np.uint8)
        frames = [np.full(shape, shade, np.uint8) for shade in shades]
        steps: Steps = [(frame, 0, 0.0, False, False) for frame in frames[:-1]]
        path = create(f"{name}-v0", space, spaces.Discrete(2), [(steps, frames[-1])])
        recording = MinariFormat().read(path, "A")
        (spec,) = recording.behavior.observations
        assert (spec.kind, spec.dtype) == ("image", np.uint8)
        assert spec.shape == ((40, 48, 3) if name == "plain" else (40, 48, 4))
        assert np.abs(recording.observations["observation"][:, 0, 0, 0].astype(int) - shades).max() <= 1


def test_the_mask_of_the_infos_is_the_action_mask(create: CreateDataset) -> None:
    seen = spaces.Discrete(5)
    done = spaces.Discrete(3)
    mask = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]], np.int8)
    path = create("masked-v0", seen, done, sampled(seen, done, [3]), infos={"action_mask": mask})
    recording = MinariFormat().read(path, "A")
    assert recording.action_mask is not None and recording.action_mask.dtype == np.bool_
    np.testing.assert_array_equal(recording.action_mask, mask.astype(bool))
    other = create("other-v0", seen, done, sampled(seen, done, [3]), infos={"action_mask": mask[:, :2]})
    assert MinariFormat().read(other, "A").action_mask is None


# ------------------------------------------------------------ where episodes end


def flagged(*flags: str) -> tuple[Steps, Any]:
    """Steps that see 0, 1, 2, ...; a flag is "t" where it terminated, "c" where it was cut, "" or both."""
    steps: Steps = [(np.float32([i]), 0, 1.0, "t" in flag, "c" in flag) for i, flag in enumerate(flags)]
    return steps, np.float32([len(flags)])


def test_an_end_in_the_midst_makes_two_episodes_that_share_what_was_seen_there(create: CreateDataset) -> None:
    path = create(
        "ends-v0", spaces.Box(0, 99, (1,)), spaces.Discrete(1),
        [flagged("", "t", "c", "", "t"), flagged("", ""), flagged("tc"), flagged("t", "", "t")],
    )  # fmt: skip
    recording = MinariFormat().read(path, "A")
    assert recording_problem(recording) is None
    assert recording.lengths.tolist() == [2, 1, 2, 2, 1, 1, 2]
    seen = [episode["observation"].ravel().tolist() for episode, _ in raw(recording)]
    assert seen == [[0, 1, 2], [2, 3], [3, 4, 5], [0, 1, 2], [0, 1], [0, 1], [1, 2, 3]]
    ends = np.cumsum(recording.lengths) - 1
    assert recording.terminated[ends].tolist() == [True, False, True, False, True, True, True]
    assert recording.truncated[ends].tolist() == [False, True, False, True, False, False, False]


# ------------------------------------------------------------ names, and what is refused


def test_datasets_in_minaris_place_are_known_by_their_ids(create: CreateDataset, root: Path) -> None:
    seen = spaces.Discrete(2)
    done = spaces.Discrete(2)
    for name in ("D4RL/door/human-v2", "top-v0"):
        create(name, seen, done, sampled(seen, done, [1]))
    assert MinariFormat().stored() == {"D4RL/door/human-v2": root / "D4RL/door/human-v2", "top-v0": root / "top-v0"}


@pytest.mark.parametrize("part", ["observation", "action"])
def test_a_space_no_behavior_has_is_named(create: CreateDataset, part: str) -> None:
    odd = spaces.Text(4)
    plain = spaces.Discrete(2)
    pair = (odd, plain) if part == "observation" else (plain, odd)
    path = create("odd-v0", plain, plain, sampled(plain, plain, [1]))
    change(path, **{f"{key}_space": minari.serialization.serialize_space(space)
                    for key, space in zip(("observation", "action"), pair, strict=True)})  # fmt: skip
    with pytest.raises(UnsupportedSpace, match=rf"Minari dataset .*odd-v0: .*{part}.*Text\(1, 4"):
        MinariFormat().behavior(path, "A")


def change(path: Path, **changes: Any) -> None:
    """Changes entries of the metadata; None removes one."""
    file = path / "data/metadata.json"
    metadata = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in metadata.items() if value is not None}))


def bomb(path: Path, **arrays: tuple[int, ...]) -> None:
    """Add zeros of these shapes to episode 0; a gigabyte of them takes a megabyte of the file."""
    with h5py.File(path / "data/main_data.hdf5", "a") as file:
        for name, shape in arrays.items():
            created = file["episode_0"].create_dataset(name, shape, "f4", chunks=(1, shape[1]), compression=9)
            created[:1] = 0.0


def grouped(path: Path, count: int) -> None:
    with h5py.File(path / "data/main_data.hdf5", "a") as file:
        for number in range(count):
            file.create_group(f"more_{number}")


DAMAGES = {
    "rows": (lambda path: bomb(path, more=(1000, 10)), r"more declares 40,000 bytes in 1,000 rows, more than 4 trans"),
    "groups": (lambda path: grouped(path, 2_000), r"holds 2,002 groups and 2 episodes"),
    "odd space": (lambda path: change(path, action_space='{"type": "Own"}'), r"Minari cannot read its action_space"),
    "metadata": (lambda path: (path / "data/metadata.json").write_text("{"), r"metadata.json: is not JSON"),
    "counts": (lambda path: change(path, total_steps=None), r"lacks total_steps"),
    "fewer": (lambda path: change(path, total_steps=99), r"4 transitions where its metadata promises 99"),
    "cut": (
        lambda path: (path / "data/main_data.hdf5").write_bytes((path / "data/main_data.hdf5").read_bytes()[:900]),
        r"cannot be read: .*truncated file",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_dataset_is_refused_with_its_path(
    create: CreateDataset, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containment, "MORE_BYTES", 10**6)  # a gigabyte
    seen = spaces.Box(-1, 1)
    done = spaces.Discrete(2)
    path = create("damaged-v0", seen, done, sampled(seen, done, [3, 1]))
    do, expected = DAMAGES[damage]
    do(path)
    with pytest.raises(ConfigError, match=rf"Minari dataset .*damaged-v0.*{expected}"):
        MinariFormat().read(path, "A")


def test_observations_that_are_not_of_their_space_are_refused_with_the_episode(create: CreateDataset) -> None:
    """A space in the metadata that the stored arrays do not have: numpy would broadcast them."""
    seen = spaces.Box(-1, 1)
    done = spaces.Discrete(2)
    path = create("other-v0", seen, done, sampled(seen, done, [3, 1]))
    change(path, observation_space=minari.serialization.serialize_space(spaces.Box(-1, 1, (4,))))
    with pytest.raises(ConfigError, match=r"Minari dataset .*other-v0: episode 0 has observation 'observation' as an "):
        MinariFormat().read(path, "A")
