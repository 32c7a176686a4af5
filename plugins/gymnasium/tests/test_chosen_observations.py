"""``environment.observations``, and wrappers that are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from gym_play import Scripted, register
from gymnasium.spaces import Box, Dict, Discrete, Graph, Sequence, Space, Text, Tuple
from one_behavior import act, begin

from rlcore import ConfigError, UnsupportedSpace
from rlcore_devkit.fixtures import RunRlcore, run_rlcore
from rlcore_gymnasium.settings import ObservationSettings
from rlcore_gymnasium.spaces import ObservationCodec

__all__ = ["run_rlcore"]

FLAT = ObservationSettings(flatten=True)
LEFT_OUT = ObservationSettings(ignore=True)
SPACE = Dict(
    mission=Text(9),
    rgb=Box(0, 255, (4, 5, 3), np.uint8),
    stack=Box(0, 255, (3, 6, 5), np.uint8),
    grid=Box(np.arange(6.0).reshape(2, 3) - 9, np.float32(9.0), dtype=np.float32),
    place=Discrete(3),
)


def test_observations_are_left_out_and_flattened_by_key_and_the_others_stay_as_they_are() -> None:
    SPACE.seed(0)
    samples = [SPACE.sample() for _ in range(3)]
    unflattened = ObservationCodec.of(SPACE, "Env-v0", {"mission": "ignore"})
    flat = ObservationCodec.of(SPACE, "Env-v0", {"mission": LEFT_OUT, "rgb": FLAT, "stack": FLAT, "grid": FLAT})
    shapes = {"rgb": (60,), "stack": (90,), "grid": (6,), "place": (3,)}
    assert {spec.name: spec.shape for spec in flat.specs} == shapes
    assert {spec.dtype for spec in flat.specs} == {np.dtype(np.float32)}
    assert [spec.kind for spec in flat.specs] == ["vector"] * 3 + ["one_hot"]
    assert [spec.kind for spec in unflattened.specs] == ["image", "image", "vector", "one_hot"]
    stacked = {key: np.stack([sample[key] for sample in samples]) for key in SPACE if key != "mission"}
    for rows in (flat.stack(samples), flat.convert(stacked), flat.convert(stacked, 3)):
        for key in ("rgb", "stack", "grid"):  # in the order of the space: channels of a stack come first
            np.testing.assert_array_equal(rows[key], stacked[key].reshape(3, -1).astype(np.float32))
        np.testing.assert_array_equal(rows["place"], unflattened.stack(samples)["place"])
    low = flat.specs[2].low
    high = flat.specs[2].high
    np.testing.assert_array_equal(low, np.arange(6.0) - 9)
    assert high == 9.0 and flat.specs[0].low == 0.0 and flat.specs[0].high == 255.0


def test_the_only_observation_of_a_space_without_keys_is_called_observation() -> None:
    (spec,) = ObservationCodec.of(SPACE["rgb"], "Env-v0", {"observation": FLAT}).specs
    assert (spec.name, spec.shape) == ("observation", (60,))
    both = Tuple((SPACE["rgb"], Text(3)))
    (spec,) = ObservationCodec.of(both, "Env-v0", {"1": "ignore"}).specs
    assert (spec.name, spec.kind) == ("0", "image")


def test_what_is_said_of_a_space_of_spaces_is_said_of_all_its_observations() -> None:
    space = Dict(inner=Dict(a=Discrete(2), b=Tuple((Discrete(2),))), outer=Discrete(2))
    assert [spec.name for spec in ObservationCodec.of(space, "Env-v0", {"inner": "ignore"}).specs] == ["outer"]
    goals = ObservationCodec.of(space, "Env-v0", {"inner": ObservationSettings(goal=True), "inner.b.0": LEFT_OUT})
    assert [(spec.name, spec.goal) for spec in goals.specs] == [("inner.a", True), ("outer", False)]


UNREADABLE = {
    "a text": (Text(9), "a Text; environment.observations: {words: ignore} says the same"),
    "a graph": (Graph(Box(-1, 1), None), "a Graph; environment.observations: {words: ignore} says the same"),
    "no number": (Box(-1, 1, (0,)), "a Box; environment.observations: {words: ignore} says the same"),
    "a sequence": (Sequence(Box(-1, 1)), "a Sequence; environment.observations: {words: {max_entities: 16}} has it "),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_networks_cannot_read_is_left_out_with_a_line_where_something_else_is_observed(name: str) -> None:
    space, told = UNREADABLE[name]
    codec = ObservationCodec.of(Dict(words=space, place=Discrete(3)), "Env-v0", {})
    assert [spec.name for spec in codec.specs] == ["place"]
    (said,) = codec.left_out
    assert said.startswith("Env-v0: the observation 'words' is left out") and told in said
    assert ObservationCodec.of(Dict(words=space, place=Discrete(3)), "Env-v0", {"words": "ignore"}).left_out == ()
    with pytest.raises(UnsupportedSpace, match="'words' has"):  # nothing else is observed
        ObservationCodec.of(Dict(words=space), "Env-v0", {})
    with pytest.raises(UnsupportedSpace, match="'words' has"):  # what a file says is not passed over
        ObservationCodec.of(Dict(words=space, place=Discrete(3)), "Env-v0", {"words": ObservationSettings(goal=True)})


@pytest.mark.parametrize(
    ("space", "said", "says"),
    [
        (SPACE, {"mission": FLAT}, "supported are .*; leave it out with environment.observations: {mission: ignore}"),
        (SPACE, {"mision": "ignore"}, r"environment\.observations\.mision: Env-v0 .*; did you mean 'mission'"),
        (SPACE, dict.fromkeys(SPACE, "ignore"), "environment.observations: nothing is left to observe of mission, "),
        (SPACE["place"], {"place": FLAT}, "Env-v0 has no such observation; it has observation"),
        (SPACE["place"], {"observation": "ignore"}, "nothing is left to observe of observation"),
    ],
)
def test_what_is_said_of_observations_that_do_not_fit(space: Space, said: Any, says: str) -> None:
    with pytest.raises((ConfigError, UnsupportedSpace), match=says):
        ObservationCodec.of(space, "Env-v0", said)


class Talking(Scripted):
    """Observes a text, an image and a number; ends after three steps."""

    observation_space = SPACE
    _length = 3

    def observe(self) -> Any:
        numbers = {key: np.full_like(SPACE[key].low, self._steps) for key in ("rgb", "stack", "grid")}
        return {"mission": "go", "place": self._steps % 3, **numbers}


def test_an_environment_with_a_text_is_played_without_it(make: Any) -> None:
    env_id = register("rlcore-tests/Talking-v0", Talking)
    environment = make(env_id, 2, observations={"stack": "ignore", "rgb": FLAT})
    batch = begin(environment)
    shapes = {"grid": (2, 2, 3), "place": (2, 3), "rgb": (2, 60)}
    assert {name: array.shape for name, array in batch.observations.items()} == shapes
    batch = act(environment, steps=3)
    assert not batch.observations["rgb"].any() and batch.final_observations is not None
    assert (batch.final_observations["rgb"] == 3.0).all() and batch.final_observations.keys() == shapes.keys()


def test_natively_vectorized_environments_know_the_key(make: Any) -> None:
    environment = make("CartPole-v1", 2, observations={"observation": FLAT})
    assert environment.behaviors["Agent"].observations == make("CartPole-v1", 2).behaviors["Agent"].observations
    with pytest.raises(ConfigError, match=r"environment\.observations\.position: CartPole-v1 has no such observation"):
        make("CartPole-v1", 2, observations={"position": "ignore"})


# ---------------------------------------------------------------- wrappers that are refused

WRONG = yaml.safe_load((Path(__file__).parent / "data/wrong_wrappers.yaml").read_text("utf-8"))
CONFIG = """
environment: {type: gymnasium, id: CartPole-v1}
evaluation: {interval: 9}
behaviors: {A: {}}
preset: none
"""


@pytest.mark.parametrize("case", [*WRONG["validate"], *WRONG["make"]], ids=lambda case: str(case["entry"]))
def test_a_wrapper_that_cannot_be_one_is_refused(make: Any, case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=re.escape(case["says"])):
        make("CartPole-v1", 1, wrappers=[case["entry"]])


@pytest.mark.parametrize("block", ["environment", "evaluation.environment"])
@pytest.mark.parametrize("case", WRONG["validate"], ids=lambda case: str(case["entry"]))
def test_a_wrong_entry_is_found_before_a_run(
    run_rlcore: RunRlcore, tmp_path: Path, case: dict[str, Any], block: str
) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    refused = run_rlcore("validate", tmp_path / "config.yaml", "--set", f"{block}.wrappers={[case['entry']]}")
    assert refused.exit_code == 2 and f"--set {block}.wrappers: {block}" in refused.stdout
    assert case["says"].removeprefix("environment.") in refused.stdout


def test_wrappers_among_the_options_are_sent_to_their_own_key(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    refused = run_rlcore("run", tmp_path / "config.yaml", "--set", "environment.options={wrappers: [TimeLimit]}")
    assert refused.exit_code == 2 and "environment.options.wrappers: belongs beside options" in refused.stderr
