"""Spaces, compared with gymnasium's own flattening and membership tests."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    Sequence,
    Space,
    Text,
    Tuple,
    flatten,
)
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from rlcore import Actions, UnsupportedSpace
from rlcore_gymnasium.spaces import ActionCodec, MismatchedValue, ObservationCodec, ObservationSettings

ROWS = 5


def codec_actions(codec: ActionCodec, generator: np.random.Generator) -> Actions:
    low, high = codec.bounds()
    low = np.maximum(low, -3.0)
    high = np.minimum(high, 3.0)
    continuous = generator.uniform(low, high, (ROWS, len(low))).astype(np.float32)
    discrete = generator.integers(codec.discrete, size=(ROWS, len(codec.discrete)))
    return Actions(continuous if len(low) else None, discrete if codec.discrete else None)


ACTIONS = {
    "discrete": (Discrete(4), 0, (4,)),
    "discrete_start": (Discrete(3, start=-1), 0, (3,)),
    "discrete_int32": (Discrete(3, start=7, dtype=np.int32), 0, (3,)),
    "multi_discrete": (MultiDiscrete([3, 2, 4]), 0, (3, 2, 4)),
    "multi_discrete_start": (MultiDiscrete([3, 2], start=[10, -1]), 0, (3, 2)),
    "multi_discrete_2d": (MultiDiscrete([[3, 2], [4, 5]]), 0, (3, 2, 4, 5)),
    "multi_binary": (MultiBinary(3), 0, (2, 2, 2)),
    "multi_binary_2d": (MultiBinary((2, 2)), 0, (2, 2, 2, 2)),
    "box": (Box(-2.0, 2.0, (2,)), 2, ()),
    "box_bounds": (Box(np.float32([-1.0, 0.5]), np.float32([0.25, 3.0])), 2, ()),
    "box_float64": (Box(-0.1, 0.1, (3,), np.float64), 3, ()),
    "box_unbounded": (Box(-np.inf, np.inf, (2,)), 2, ()),
    "box_2d": (Box(-1.0, 1.0, (2, 3)), 6, ()),
    "box_scalar": (Box(-1.0, 1.0, ()), 1, ()),
    "tuple": (Tuple((Discrete(3), Box(-1.0, 1.0, (2,)))), 2, (3,)),
    "dict": (
        Dict(
            aim=Box(-1.0, 1.0, (2,)), fire=MultiBinary(2), go=Discrete(3, start=1),
            turn=Box(0.0, 5.0, (1,)),
        ),
        3,
        (2, 2, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_become_members_of_the_space(name: str) -> None:
    space, continuous, discrete = ACTIONS[name]
    codec = ActionCodec.of(space, "Env-v0")
    low, high = codec.bounds()
    assert codec.discrete == discrete and len(low) == len(high) == continuous and low.dtype == high.dtype == np.float32
    if isinstance(space, Box):
        assert low.tolist() == space.low.ravel().astype(np.float32).tolist()
        assert high.tolist() == space.high.ravel().astype(np.float32).tolist()
    generator = np.random.default_rng(0)
    for _ in range(10):
        actions = codec_actions(codec, generator)
        rows = list(codec.rows(actions))
        assert len(rows) == ROWS
        assert all(space.contains(row) for row in rows)
        assert batch_space(space, ROWS).contains(codec.batch(actions))
        back = codec.empty(ROWS + 2)
        codec.read(codec.batch(actions), back, slice(1, ROWS + 1))
        for written, given in ((back.continuous, actions.continuous), (back.discrete, actions.discrete)):
            assert (written is None) == (given is None)
            if written is not None:
                assert written.dtype == given.dtype
                np.testing.assert_array_equal(written[1:-1], given)


def test_a_bound_that_float32_rounds_outwards_stays_inside_a_float64_space() -> None:
    space = Box(-0.1, 0.1, (3,), np.float64)
    codec = ActionCodec.of(space, "Env-v0")
    low, high = codec.bounds()
    assert float(high[0]) > 0.1  # or the test would prove nothing
    for extreme in (low, high):
        assert space.contains(next(iter(codec.rows(Actions(continuous=extreme[None].copy())))))


def test_choices_and_numbers_land_in_the_part_they_belong_to() -> None:
    reals = np.array([[0.1, 0.2, 4.0]], np.float32)
    (row,) = ActionCodec.of(ACTIONS["dict"][0], "Env-v0").rows(Actions(reals, np.array([[1, 0, 2]])))
    assert row["aim"].tolist() == pytest.approx([0.1, 0.2]) and row["turn"].tolist() == [4.0]
    assert row["fire"].tolist() == [1, 0] and row["go"] == 3
    multi = ActionCodec.of(MultiDiscrete([[3, 2], [4, 5]]), "Env-v0")
    assert [row.tolist() for row in multi.rows(Actions(discrete=np.array([[2, 1, 3, 4]])))] == [[[2, 1], [3, 4]]]


OBSERVATIONS = {
    "vector": (Box(-1.0, 1.0, (3,)), "vector", (3,)),
    "float64": (Box(-np.inf, np.inf, (3,), np.float64), "vector", (3,)),
    "matrix": (Box(-1.0, 1.0, (3, 2)), "vector", (3, 2)),
    "scalar": (Box(-1.0, 1.0, ()), "vector", ()),
    "integers": (Box(0, 9, (3,), np.int64), "vector", (3,)),
    "pixels": (Box(0, 255, (8, 6, 3), np.uint8), "image", (8, 6, 3)),
    "gray_float": (Box(0.0, 1.0, (8, 6, 1)), "image", (8, 6, 1)),
    "stack": (Box(0, 255, (4, 8, 6), np.uint8), "image", (8, 6, 4)),
    "volume": (Box(0.0, 1.0, (4, 8, 6)), "vector", (4, 8, 6)),
    "discrete": (Discrete(4), "one_hot", (4,)),
    "discrete_start": (Discrete(4, start=-2), "one_hot", (4,)),
    "multi_discrete": (MultiDiscrete([3, 2, 4]), "one_hot", (9,)),
    "multi_discrete_2d": (MultiDiscrete([[3, 2], [4, 5]], dtype=np.uint8), "one_hot", (14,)),
    "multi_binary": (MultiBinary(3), "one_hot", (3,)),
    "multi_binary_2d": (MultiBinary((2, 2)), "one_hot", (4,)),
}


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations_hold_what_gymnasium_flattens(name: str) -> None:
    space, kind, shape = OBSERVATIONS[name]
    dtype = np.uint8 if kind == "image" and space.dtype == np.uint8 else np.float32
    space.seed(0)
    codec = ObservationCodec.of(space, "Env-v0")
    (spec,) = codec.specs
    assert (spec.name, spec.kind, spec.shape, spec.dtype) == ("observation", kind, shape, dtype)
    samples = [space.sample() for _ in range(ROWS)]
    rows = codec.stack(samples)["observation"]
    batch = concatenate(space, samples, create_empty_array(space, ROWS))
    assert rows.shape == (ROWS, *shape) and rows.dtype == dtype
    np.testing.assert_array_equal(codec.convert(batch)["observation"], rows)
    np.testing.assert_array_equal(codec.parts[0].values(rows), np.asarray(batch).astype(dtype))
    for row, sample in zip(rows, samples, strict=True):
        seen = np.moveaxis(row, -1, 0) if name == "stack" else row
        np.testing.assert_array_equal(seen.reshape(-1), flatten(space, sample).astype(dtype))


def test_dict_observations_are_named_by_their_keys() -> None:
    space = Dict({"eyes": OBSERVATIONS["pixels"][0], "place": Discrete(4), "speed": Box(-1, 1)})
    space.seed(0)
    codec = ObservationCodec.of(space, "Env-v0")
    kinds = {"eyes": "image", "place": "one_hot", "speed": "vector"}
    assert {spec.name: spec.kind for spec in codec.specs} == kinds
    samples = [space.sample() for _ in range(ROWS)]
    rows = codec.stack(samples)
    for key, part in space.spaces.items():
        alone = ObservationCodec.of(part, "Env-v0").stack([sample[key] for sample in samples])
        np.testing.assert_array_equal(rows[key], alone["observation"])


def test_tuple_observations_are_named_by_their_places() -> None:
    space = Tuple((MultiDiscrete([2, 3], start=[5, -1]), Box(-1, 1)))
    codec = ObservationCodec.of(space, "Env-v0")
    assert [spec.name for spec in codec.specs] == ["0", "1"]
    rows = codec.convert((np.array([[5, -1], [6, 1]]), np.array([[0.5], [1.0]])))
    assert rows["0"].tolist() == [[1, 0, 1, 0, 0], [0, 1, 0, 0, 1]] and rows["1"].tolist() == [[0.5], [1.0]]
    stacked = codec.stack([(np.array([5, -1]), [0.5]), (np.array([6, 1]), [1.0])])
    assert all(np.array_equal(stacked[name], rows[name]) for name in rows)


NESTED = [Tuple((Discrete(2), Tuple((Discrete(2),)))), Dict(a=Dict())]
REFUSED = [
    *((ActionCodec, space) for space in (Box(0, 3, (2,), np.int32), Sequence(Discrete(2)))),
    *((ActionCodec, space) for space in NESTED),
    *((ObservationCodec, space) for space in (Graph(Box(-1, 1), None), Dict(a=Graph(Box(-1, 1), None)))),
    *((codec, Text(4)) for codec in (ActionCodec, ObservationCodec)),
]


@pytest.mark.parametrize(("codec", "space"), REFUSED, ids=repr)
def test_other_spaces_are_refused_by_name(codec: type[ActionCodec | ObservationCodec], space: Space) -> None:
    with pytest.raises(UnsupportedSpace) as caught:
        codec.of(space, "Env-v0")
    message = str(caught.value)
    assert message.startswith("Env-v0: ") and repr(space) in message and "supported are Box" in message
    assert "\n" not in message


def test_spaces_within_spaces_are_named_by_all_keys_on_the_way() -> None:
    space = Dict(goal=Dict(place=Box(-1, 1, (2,)), kinds=Tuple((Discrete(2), Discrete(3)))), speed=Box(-1, 1))
    space.seed(0)
    codec = ObservationCodec.of(space, "Env-v0")
    shapes = {"goal.place": (2,), "goal.kinds.0": (2,), "goal.kinds.1": (3,), "speed": (1,)}
    assert [(spec.name, spec.shape) for spec in codec.specs] == [*shapes.items()]
    samples = [space.sample() for _ in range(ROWS)]
    rows = codec.stack(samples)
    batch = codec.convert(concatenate(space, samples, create_empty_array(space, ROWS)), ROWS)
    for row, sample in enumerate(samples):  # which Gymnasium flattens in this order
        np.testing.assert_array_equal(np.concatenate([rows[name][row] for name in shapes]), flatten(space, sample))
        np.testing.assert_array_equal(np.concatenate([batch[name][row] for name in shapes]), flatten(space, sample))
    with pytest.raises(MismatchedValue, match=r"'goal.kinds.1' as \(1,\) \(tuple\); expected one with 1 in it"):
        codec.stack([samples[0] | {"goal": samples[0]["goal"] | {"kinds": (1,)}}])


def test_two_observations_with_one_name_are_refused() -> None:
    with pytest.raises(UnsupportedSpace, match=r"two observations are called 'a\.b'"):
        ObservationCodec.of(Dict({"a.b": Discrete(2), "a": Dict(b=Discrete(2))}), "Env-v0")


def test_a_space_without_entries_and_a_sequence_alone_are_told_apart() -> None:
    for space in (Dict({}), Dict(a=Dict())):
        with pytest.raises(UnsupportedSpace, match=r"Env-v0: .*nothing to observe: the observation space has no entr"):
            ObservationCodec.of(space, "Env-v0", {})
    advice = r"set environment\.observations: \{observation: \{max_entities: 16\}\}$"
    with pytest.raises(UnsupportedSpace, match=advice):
        ObservationCodec.of(Sequence(Box(-1, 1)), "Env-v0", {})


def test_an_observation_without_numbers_and_a_long_space_are_told_in_short() -> None:
    with pytest.raises(UnsupportedSpace, match="Env-v0: observation 'observation' has no numbers"):
        ObservationCodec.of(Box(-1, 1, (0,)), "Env-v0")
    long = Dict({f"number {index}": Box(-np.inf, np.inf, (2,)) for index in range(99)} | {"t": Text(4)})
    with pytest.raises(UnsupportedSpace) as caught:
        ObservationCodec.of(long, "Env-v0", {"t": ObservationSettings(goal=True)})
    assert len(str(caught.value)) < 700 and "observation 't'" in str(caught.value)
