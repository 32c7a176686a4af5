"""CartPole with same-step reset equals Gymnasium's own, without Gymnasium's extra steps for resets."""

from __future__ import annotations

import time

import gymnasium
import numpy as np
import pytest

from rlcore import Actions, EpisodeSeeds, SavesState
from rlcore_gymnasium.cartpole import CartPoleEnvironment

SEEDS = EpisodeSeeds(3)


def act(choices: np.ndarray) -> dict[str, Actions]:
    return {"Agent": Actions(discrete=np.asarray(choices, np.int64).reshape(-1, 1))}


@pytest.mark.parametrize("limit", [10, 500])
def test_it_equals_the_upstream_environment_bit_for_bit_without_its_reset_steps(make, limit) -> None:
    ours = make("CartPole-v1", 1, max_episode_steps=limit)
    upstream = gymnasium.make_vec("CartPole-v1", 1, vectorization_mode="vector_entry_point", max_episode_steps=limit)
    batch = ours.reset(SEEDS, np.array([2]))["Agent"]
    expected, _ = upstream.reset(seed=SEEDS(0, 2))
    np.testing.assert_array_equal(batch.observations["observation"], expected)
    ends = 0
    for choice in np.random.default_rng(0).integers(0, 2, 400):
        batch = ours.step(act([choice]))["Agent"]
        expected, reward, terminated, truncated, _ = upstream.step(np.array([choice]))
        assert batch.reward[0] == reward[0] and batch.terminated[0] == terminated[0]
        assert batch.truncated[0] == (truncated[0] and not terminated[0])
        if terminated[0] or truncated[0]:
            np.testing.assert_array_equal(batch.final_observations["observation"], expected)
            expected, *_ = upstream.step(np.array([choice]))  # the extra step for the reset
            ends += 1
        np.testing.assert_array_equal(batch.observations["observation"], expected)
    assert ends >= 5 and ours.episodes.tolist() == [2 + ends]


def test_every_environment_follows_the_dynamics_of_a_single_one(make) -> None:
    num_envs = 4
    ours = make("CartPole-v1", num_envs, max_episode_steps=20)
    assert isinstance(ours, CartPoleEnvironment)
    plain = [gymnasium.make("CartPole-v1", max_episode_steps=20) for _ in range(num_envs)]
    ours.reset(SEEDS, np.zeros(num_envs, np.int64))

    def start(index: int) -> None:
        plain[index].reset()
        plain[index].unwrapped.state = ours.vector.state[:, index].copy()

    for index in range(num_envs):
        start(index)
    generator, ends = np.random.default_rng(1), 0
    for _ in range(200):
        choices = generator.integers(0, 2, num_envs)
        batch = ours.step(act(choices))["Agent"]
        for index, env in enumerate(plain):
            expected, reward, terminated, truncated, _ = env.step(int(choices[index]))
            assert (batch.terminated[index], batch.truncated[index]) == (terminated, truncated and not terminated)
            assert batch.reward[index] == reward
            if terminated or truncated:
                row = batch.ended.tolist().index(index)
                np.testing.assert_allclose(batch.final_observations["observation"][row], expected, atol=1e-6)
                assert (np.abs(batch.observations["observation"][index]) <= 0.05).all()
                start(index)
                ends += 1
            else:
                np.testing.assert_allclose(batch.observations["observation"][index], expected, atol=1e-6)
    assert ends > num_envs


def test_falling_at_the_time_limit_is_termination(make) -> None:
    free = make("CartPole-v1", 1)
    free.reset(SEEDS, np.zeros(1, np.int64))
    fall = next(step for step in range(1, 100) if free.step(act([1]))["Agent"].terminated[0])
    limited = make("CartPole-v1", 1, max_episode_steps=fall)
    limited.reset(SEEDS, np.zeros(1, np.int64))
    batches = [limited.step(act([1]))["Agent"] for _ in range(fall)]
    assert batches[-1].terminated[0] and not batches[-1].truncated[0]


def test_a_restored_cartpole_draws_the_same_next_episodes(make) -> None:
    ours, restored = make("CartPole-v1", 3), make("CartPole-v1", 3)
    assert isinstance(ours, SavesState)
    ours.reset(SEEDS, np.zeros(3, np.int64))
    choices = np.random.default_rng(0).integers(0, 2, (300, 3))
    for row in choices[:150]:
        ours.step(act(row))
    restored.load_state_dict(ours.state_dict())
    for row in choices[150:]:
        first, second = ours.step(act(row))["Agent"], restored.step(act(row))["Agent"]
        np.testing.assert_array_equal(first.observations["observation"], second.observations["observation"])
        np.testing.assert_array_equal(first.terminated, second.terminated)
    assert ours.episodes.tolist() == restored.episodes.tolist() and ours.episodes.min() > 5


def test_the_saved_state_is_not_changed_by_further_steps(make) -> None:
    environment = make("CartPole-v1", 2)
    environment.reset(SEEDS, np.zeros(2, np.int64))
    saved = environment.state_dict()
    before = {key: np.array(saved[key]) for key in ("episodes", "state", "steps")}
    for _ in range(30):
        environment.step(act([1, 1]))
    for key, array in before.items():
        np.testing.assert_array_equal(saved[key], array)


def test_same_step_reset_costs_little_beside_the_environment(make) -> None:
    environment = make("CartPole-v1", 8)
    environment.reset(SEEDS, np.zeros(8, np.int64))
    choices = np.random.default_rng(0).integers(0, 2, (50, 8))
    actions = [act(row) for row in choices]
    ours = raw = float("inf")
    for _ in range(100):  # the fastest of many short measurements: other processes share the machine
        started = time.perf_counter()
        for action in actions:
            environment.step(action)
        ours = min(ours, time.perf_counter() - started)
        started = time.perf_counter()
        for row in choices:
            environment.vector.step(row)
        raw = min(raw, time.perf_counter() - started)
        environment.reset(SEEDS, np.zeros(8, np.int64))
    assert (ours - raw) / len(choices) < 10e-6
