"""Entities and goals in observation spaces: sequences, padded matrices, and ``environment.observations``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Sequence

from rlcore import ConfigError, SettingError, UnsupportedSpace
from rlcore_gymnasium.settings import ObservationSettings
from rlcore_gymnasium.spaces import MismatchedValue, ObservationCodec

BOX = Box(-1.0, 1.0, (2,))
SPACE = Dict(
    loot=Sequence(BOX),
    keys=Sequence(Discrete(3)),
    units=Box(-9.0, 9.0, (3, 2)),
    alive=MultiBinary(3),
    place=BOX,
)
SETTINGS = {
    "loot": ObservationSettings(max_entities=3),
    "keys": ObservationSettings(max_entities=2),
    "units": ObservationSettings(entities=True, present="alive"),
    "place": ObservationSettings(goal=True),
}
UNFIT = yaml.safe_load((Path(__file__).parent / "data/unfit_entities.yaml").read_text("utf-8"))
UNITS = np.array([[1, 2], [0, 0], [5, 6]], np.float32)


def value(loot: int, keys: tuple[int, ...], alive: Any) -> dict[str, Any]:
    made = tuple(np.array([k, -k], np.float32) / 8 for k in range(loot))
    return {"loot": made, "keys": keys, "units": UNITS, "alive": np.array(alive, np.int8), "place": np.ones(2, "f4")}


def test_sequences_and_masked_matrices_become_rows_that_say_whether_they_are_there() -> None:
    codec = ObservationCodec.of(SPACE, "Env-v0", SETTINGS)
    shapes = {"loot": (3, 3), "keys": (2, 4), "units": (3, 3), "place": (2,)}
    assert {spec.name: spec.shape for spec in codec.specs} == shapes
    assert [spec.kind for spec in codec.specs] == ["entities"] * 3 + ["vector"]
    assert [spec.goal for spec in codec.specs] == [False] * 3 + [True]
    rows = codec.stack([value(2, (2,), [0, 1, 1]), value(0, (), [0, 0, 0]), value(3, (0, 1), [1, 1, 1])])
    np.testing.assert_array_equal(rows["loot"][0], [[1, 0, 0], [1, 0.125, -0.125], [0, 0, 0]])
    np.testing.assert_array_equal(rows["keys"][0], [[1, 0, 0, 1], [0, 0, 0, 0]])
    # A unit whose numbers are 0 is there if the mask says so.
    np.testing.assert_array_equal(rows["units"][0], [[0, 0, 0], [1, 0, 0], [1, 5, 6]])
    assert not any(rows[name][1].any() for name in ("loot", "keys", "units"))
    np.testing.assert_array_equal(rows["keys"][2], [[1, 1, 0, 0], [1, 0, 1, 0]])


def test_vector_environments_give_the_same_rows() -> None:
    codec = ObservationCodec.of(SPACE, "Env-v0", SETTINGS)
    values = [value(2, (2,), [0, 1, 1]), value(0, (), [0, 0, 0])]
    batch: dict[str, Any] = {key: tuple(each[key] for each in values) for key in ("loot", "keys")}
    batch |= {key: np.stack([each[key] for each in values]) for key in ("units", "alive", "place")}
    for name, array in codec.convert(batch, 2).items():
        np.testing.assert_array_equal(array, codec.stack(values)[name])


@pytest.mark.parametrize(("count", "alive"), [(0, []), (1, [0]), (3, [0, 1, 2])])
@pytest.mark.parametrize("told", [np.int64, lambda n: np.array([n], np.float32)])
def test_a_count_says_how_many_first_rows_are_there(count: int, alive: list[int], told: Any) -> None:
    space = Dict(units=SPACE["units"], number=Discrete(4))
    codec = ObservationCodec.of(space, "Env-v0", {"units": ObservationSettings(entities=True, present="number")})
    rows = codec.stack([{"units": UNITS, "number": told(count)}])["units"][0]
    assert np.flatnonzero(rows[:, 0]).tolist() == alive
    np.testing.assert_array_equal(rows[alive, 1:], UNITS[alive])


def test_without_a_mask_rows_of_zeros_are_absent() -> None:
    codec = ObservationCodec.of(SPACE["units"], "Env-v0", {"observation": ObservationSettings(entities=True)})
    (spec,) = codec.specs
    assert (spec.kind, spec.shape, spec.low) == ("entities", (3, 2), -9.0)
    np.testing.assert_array_equal(codec.stack([UNITS])["observation"], UNITS[None])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"loot": (BOX.sample(),) * 4}, "'loot' as '4 entities'.*at most 3 fit.*observations.loot.max_entities"),
        ({"loot": 3}, "'loot' as 3 .*expected a sequence"),
        ({"loot": (np.zeros(3, np.float32),)}, r"'loot' .*expected shape \[1, 2\]"),
        ({"keys": (3,)}, "'keys' as 3 .*from 0 to 2"),
        ({"alive": np.array([0, 2, 1])}, "'alive' .*expected 3 zeros and ones"),
        ({"alive": np.array(4)}, "'alive' as 4 .*from 0 to 3"),
        ({"alive": np.array(0.5)}, "'alive' as 0.5 .*from 0 to 3"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(wrong: dict[str, Any], says: str) -> None:
    codec = ObservationCodec.of(SPACE, "Env-v0", SETTINGS)
    with pytest.raises(MismatchedValue, match=says):
        codec.stack([value(1, (1,), [1, 1, 1]) | wrong])


@pytest.mark.parametrize(("settings", "message"), UNFIT)
def test_settings_that_do_not_fit_the_space_are_refused(settings: dict[str, Any], message: str) -> None:
    chosen: Any = {"loot": "ignore", "keys": "ignore"}
    chosen |= {name: ObservationSettings(**how) for name, how in settings.items()}
    with pytest.raises((ConfigError, UnsupportedSpace), match=message):
        ObservationCodec.of(SPACE, "Env-v0", chosen)


@pytest.mark.parametrize("how", [{"present": "alive"}, {"flatten": True, "entities": True}])
def test_settings_that_exclude_each_other_are_refused(how: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=r"present|flatten"):
        ObservationSettings(**how)
