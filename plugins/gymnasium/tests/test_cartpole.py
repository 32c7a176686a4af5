"""CartPole in arrays: Gymnasium's own without its extra steps for resets, with parameters for each environment."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import yaml
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from one_behavior import act, begin

from rlcore import EpisodeSeeds, SavesState
from rlcore_gymnasium.cartpole import CartPoleEnvironment, native_parameters
from rlcore_gymnasium.cartpole_physics import PARAMETERS
from rlcore_gymnasium.in_process import InProcessEnvironment
from rlcore_gymnasium.parameter_settings import ParameterRoute

NATIVE = yaml.safe_load((Path(__file__).parent / "data/native_parameters.yaml").read_text("utf-8"))
NUM_ENVS = 5
SEEDS = EpisodeSeeds(8)
ALL = dict.fromkeys(PARAMETERS)
NUMBERS = {"gravity": 9.8, "masscart": 1.0, "masspole": 0.1, "length": 0.5, "force_mag": 10.0, "tau": 0.02}


def drawn(generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw each number between half and twice CartPole's own, for each environment."""
    return {name: number * 2.0 ** generator.uniform(-1.0, 1.0, NUM_ENVS) for name, number in NUMBERS.items()}


def single(values: dict[str, np.ndarray], index: int, state: np.ndarray) -> CartPoleEnv:
    """Create a single CartPole with these numbers and everything computed from them."""
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset()
    for name, array in values.items():
        setattr(env, name, float(array[index]))
    env.total_mass = env.masspole + env.masscart
    env.polemass_length = env.masspole * env.length
    env.state = np.array(state)
    return env


@pytest.mark.parametrize("limit", [10, 500])
def test_it_equals_the_upstream_environment_bit_for_bit_without_its_reset_steps(make, limit) -> None:
    ours = make("CartPole-v1", 1, max_episode_steps=limit)
    upstream = gymnasium.make_vec("CartPole-v1", 1, vectorization_mode="vector_entry_point", max_episode_steps=limit)
    batch = begin(ours, SEEDS, [2])
    expected, _ = upstream.reset(seed=SEEDS(0, 2))
    np.testing.assert_array_equal(batch.observations["observation"], expected)
    ends = 0
    for choice in np.random.default_rng(0).integers(0, 2, 400):
        batch = act(ours, [choice])
        expected, reward, terminated, truncated, _ = upstream.step(np.array([choice]))
        assert batch.reward[0] == reward[0] and batch.terminated[0] == terminated[0]
        assert batch.truncated[0] == (truncated[0] and not terminated[0])
        if terminated[0] or truncated[0]:
            np.testing.assert_array_equal(batch.final_observations["observation"], expected)
            expected, *_ = upstream.step(np.array([choice]))  # the extra step for the reset
            ends += 1
        np.testing.assert_array_equal(batch.observations["observation"], expected)
    assert ends >= 5 and ours.episodes.tolist() == [2 + ends]


def states(environment) -> np.ndarray:
    """The state of each environment, [NUM_ENVS, 4]."""
    if isinstance(environment, CartPoleEnvironment):
        return environment.vector.state.T
    return np.array([env.unwrapped.state for env in environment.vector.envs])


APART = {name: {"attribute": f"unwrapped.{name}", "whole": False} for name in PARAMETERS}


@pytest.mark.parametrize(("parameters", "kind"), [(ALL, CartPoleEnvironment), (APART, InProcessEnvironment)])
def test_every_environment_moves_like_a_single_one_with_its_numbers(make, parameters, kind) -> None:
    """Includes numbers that are computed from a parameter: Gymnasium's own environments keep the old value."""
    environment = make("CartPole-v1", NUM_ENVS, parameters=parameters)
    assert isinstance(environment, kind)
    generator = np.random.default_rng(0)
    playing = drawn(generator)
    following = drawn(generator)
    environment.set_parameters(playing)
    begin(environment, SEEDS)
    environment.set_parameters(following)
    values = {name: array.copy() for name, array in playing.items()}
    singles = [single(values, index, states(environment)[index]) for index in range(NUM_ENVS)]
    episodes = 0
    for _ in range(300):
        choices = generator.integers(0, 2, NUM_ENVS)
        batch = act(environment, choices)
        for index, env in enumerate(singles):
            seen, _, terminated, _, _ = env.step(int(choices[index]))
            assert batch.terminated[index] == terminated
            row = np.flatnonzero(batch.ended == index)
            shown = batch.final_observations if row.size else batch.observations
            ours = shown["observation"][row[0] if row.size else index]
            np.testing.assert_allclose(ours, seen, rtol=1e-6, atol=1e-7)
            if row.size:
                for name, array in following.items():
                    values[name][index] = array[index]
                singles[index] = single(values, index, states(environment)[index])
                episodes += 1
            else:
                np.testing.assert_allclose(states(environment)[index], env.state, rtol=1e-10, atol=1e-12)
        if batch.ended.size:
            following = drawn(generator)
            environment.set_parameters(following)
    assert episodes > 4 * NUM_ENVS


def test_a_restored_cartpole_has_the_numbers_of_open_and_of_next_episodes(make) -> None:
    ours, restored = (make("CartPole-v1", NUM_ENVS, parameters=ALL) for _ in range(2))
    assert isinstance(ours, SavesState)
    generator = np.random.default_rng(3)
    ours.set_parameters(drawn(generator))
    begin(ours, SEEDS)
    ours.set_parameters(drawn(generator))
    for _ in range(20):
        act(ours, generator.integers(0, 2, NUM_ENVS))
    ours.set_parameters(drawn(generator))
    state = ours.state_dict()
    act(ours, np.ones(NUM_ENVS))  # this step does not change the saved state
    restored.load_state_dict(state)
    act(restored, np.ones(NUM_ENVS))
    for _ in range(200):
        choices = generator.integers(0, 2, NUM_ENVS)
        first = act(ours, choices)
        second = act(restored, choices)
        np.testing.assert_array_equal(first.observations["observation"], second.observations["observation"])
        np.testing.assert_array_equal(ours.vector.state, restored.vector.state)
    for attribute in (*PARAMETERS, "total_mass", "polemass_length"):
        np.testing.assert_array_equal(getattr(ours.vector, attribute), getattr(restored.vector, attribute))
    assert ours.episodes.min() > 2


@pytest.mark.parametrize(("routes", "attributes"), NATIVE)
def test_the_native_form_is_used_if_it_supports_all_parameters(routes, attributes) -> None:
    names = list(routes)
    found = native_parameters(names, {name: ParameterRoute(**how) for name, how in routes.items() if how})
    assert (None if found is None else {name: found[name] for name in names}) == attributes
