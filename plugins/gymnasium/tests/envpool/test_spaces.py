"""Spaces as EnvPool describes them: bounds, nested observations, values without dimensions, choices."""

from __future__ import annotations

import numpy as np
import pytest
from one_behavior import act, begin

from rlcore import ConfigError, EpisodeSeeds
from rlcore_gymnasium.settings import ObservationSettings

envpool = pytest.importorskip("envpool", reason="EnvPool has no wheel for this platform")

SEEDS = EpisodeSeeds(3)


def test_numbers_without_bounds_have_none(make) -> None:
    """EnvPool says that LunarLander's observations and VizDoom's actions are positive, which they are not."""
    assert envpool.make_spec("LunarLander-v3").observation_space.low.min() > 0
    lander = make("LunarLander-v3", 4)
    (spec,) = lander.behaviors["Agent"].observations
    assert spec.low is None and spec.high is None
    assert (begin(lander, SEEDS).observations["observation"] < 0).any()
    assert envpool.make_spec("D1Basic-v1").action_space.low.min() > 0
    doom = make("D1Basic-v1").behaviors["Agent"]
    assert np.isneginf(doom.low).all() and np.isposinf(doom.high).all()


def test_bounds_that_a_task_has_stay(make) -> None:
    behavior = make("HalfCheetah-v5").behaviors["Agent"]
    assert behavior.low.tolist() == [-1.0] * 6 and behavior.high.tolist() == [1.0] * 6


def test_a_nested_observation_is_one_level_with_the_values_of_its_leaves(make) -> None:
    environment = make("MultiCVRP-v0", 2)
    batch = begin(environment, SEEDS)
    raw, _ = envpool.make_gymnasium("MultiCVRP-v0", num_envs=2, env_seed=[SEEDS(0, 0), SEEDS(1, 0)]).reset()
    assert {name for name in batch.observations if name.startswith("nodes.")} == {"nodes.coordinates", "nodes.demands"}
    for name, values in batch.observations.items():
        found = raw
        for key in name.split("."):
            found = found[key]
        np.testing.assert_array_equal(values, found.astype(np.float32))
    # Two vehicles choose among equally many places: the mask has their rows side by side.
    assert environment.behaviors["Agent"].discrete == (21, 21) and "action_mask" not in batch.observations
    np.testing.assert_array_equal(batch.action_mask, raw["action_mask"].reshape(2, 42))


def test_observations_are_left_out_and_flattened_as_the_configuration_says(make) -> None:
    seen = {"mission": "ignore", "image": ObservationSettings(flatten=True)}
    environment = make("MiniGrid-Empty-5x5-v0", 2, seen)
    specs = {each.name: (each.shape, each.kind) for each in environment.behaviors["Agent"].observations}
    assert specs == {"direction": ((4,), "one_hot"), "image": ((7 * 7 * 3,), "vector")}
    batch = begin(environment, SEEDS)
    raw, _ = envpool.make_gymnasium("MiniGrid-Empty-5x5-v0", num_envs=2, env_seed=[SEEDS(0, 0), SEEDS(1, 0)]).reset()
    np.testing.assert_array_equal(batch.observations["image"], raw["image"].reshape(2, -1))
    with pytest.raises(ConfigError, match=r"environment\.observations\.mision: .*has no such .* 'mission'\?"):
        make("MiniGrid-Empty-5x5-v0", 2, {"mision": "ignore"})


def test_a_value_without_dimensions_has_one(make) -> None:
    environment = make("FingerTurnEasy-v1", 3)
    (spec,) = (each for each in environment.behaviors["Agent"].observations if each.name == "dist_to_target")
    values = begin(environment, SEEDS).observations["dist_to_target"]
    assert spec.shape == (1,) and values.shape == (3, 1) and len(np.unique(values)) == 3


def test_a_mask_over_combinations_of_choices_stays_an_observation(make) -> None:
    tetris = make("Tetris-v0").behaviors["Agent"]
    assert tetris.discrete == (4, 10)
    assert "action_mask" in [each.name for each in tetris.observations]


def test_choices_reach_the_task_as_they_are(make) -> None:
    """Every agent of Cleaner walks: an action that is not its own would move it elsewhere, or end the episode."""
    environment = make("Cleaner-v0", 1)
    batch = begin(environment, SEEDS)
    moves = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])  # up, right, down, left
    rng = np.random.default_rng(0)
    for _ in range(60):
        places = batch.observations["agents_locations"][0].copy()
        chosen = np.array([rng.choice(np.flatnonzero(mask)) for mask in batch.action_mask[0].reshape(3, 4)])
        batch = act(environment, chosen[None])
        assert not batch.ended.size
        np.testing.assert_array_equal(batch.observations["agents_locations"][0], places + moves[chosen])
