"""Environments in this process behave exactly as when Gymnasium steps them one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from one_behavior import act, begin

from rlcore import Actions, EnvironmentFailed, EpisodeSeeds
from rlcore_devkit.playing import random_actions

NUM_ENVS = 3
SEEDS = EpisodeSeeds(7)


def first_episodes() -> np.ndarray:
    return np.array([4, 0, 9])


@pytest.mark.parametrize(
    ("env_id", "options", "steps"),
    [
        ("MountainCarContinuous-v0", {"max_episode_steps": 17}, 60),  # truncated only
        ("FrozenLake-v1", {}, 80),  # terminated, Discrete observations
        ("InvertedPendulum-v5", {}, 60),  # terminated, float64 observations
        ("Acrobot-v1", {"max_episode_steps": 11}, 30),
        ("Taxi-v4", {"max_episode_steps": 9}, 30),  # masks in its infos
    ],
)
def test_every_value_equals_that_of_plain_environments_with_the_same_seeds(
    make, env_id, options, steps, tmp_path, monkeypatch
) -> None:
    if env_id.startswith("Inverted"):
        pytest.importorskip("mujoco")
        monkeypatch.chdir(tmp_path)  # MuJoCo writes its log file into the working directory
    ours = make(env_id, NUM_ENVS, purpose="train", **options)
    spec = ours.behaviors["Agent"]
    plain = [gymnasium.make(env_id, **options) for _ in range(NUM_ENVS)]
    episodes = first_episodes()
    batch = begin(ours, SEEDS, episodes)
    firsts, infos = zip(*(env.reset(seed=SEEDS(n, int(episodes[n]))) for n, env in enumerate(plain)), strict=True)

    def expected(value: object) -> np.ndarray:
        return spaces.flatten(plain[0].observation_space, value).astype(np.float32)

    def masks(given: Iterable[dict[str, Any]]) -> list[list[bool]] | None:
        return [info["action_mask"].astype(bool).tolist() for info in given] if env_id == "Taxi-v4" else None

    def listed(mask: np.ndarray | None) -> list[list[bool]] | None:
        return None if mask is None else mask.tolist()

    np.testing.assert_array_equal(batch.observations["observation"], [expected(value) for value in firsts])
    generator = np.random.default_rng(0)
    ends = 0
    for _ in range(steps):
        assert listed(batch.action_mask) == masks(infos)
        actions = random_actions(ours.behaviors, {"Agent": batch}, generator)
        batch = ours.step(actions)["Agent"]
        finals = []
        infos = list(infos)
        for index, env in enumerate(plain):
            action = actions["Agent"].continuous[index] if spec.continuous else int(actions["Agent"].discrete[index, 0])
            observation, reward, terminated, truncated, infos[index] = env.step(action)
            assert batch.reward[index] == np.float32(reward)
            assert batch.terminated[index] == terminated
            assert batch.truncated[index] == (truncated and not terminated)
            if terminated or truncated:
                finals.append((index, expected(observation), infos[index]))
                episodes[index] += 1
                observation, infos[index] = env.reset(seed=SEEDS(index, int(episodes[index])))
            np.testing.assert_array_equal(batch.observations["observation"][index], expected(observation))
        assert batch.ended.tolist() == [index for index, _, _ in finals]
        assert ours.episodes.tolist() == episodes.tolist()
        if finals:
            np.testing.assert_array_equal(batch.final_observations["observation"], [value for _, value, _ in finals])
            assert listed(batch.final_action_mask) == masks(info for _, _, info in finals)
        ends += len(finals)
    assert ends >= NUM_ENVS


def test_terminated_wins_if_an_environment_sets_both_flags(make, recorder) -> None:
    environment = make(recorder, 2, ends=["", "both"])
    begin(environment, SEEDS)
    act(environment)
    batch = act(environment)
    assert batch.terminated.all() and not batch.truncated.any() and batch.ended.tolist() == [0, 1]
    after = act(environment)
    assert not after.terminated.any() and not after.ended.size and after.final_observations is None


def test_an_environment_that_reuses_its_array_still_gives_the_final_observation(make, recorder) -> None:
    reusing, fresh = (make(recorder, 2, ends=["terminated"], reuse=reuse) for reuse in (True, False))
    for environment in (reusing, fresh):
        begin(environment, SEEDS)
    for _ in range(3):
        ours = act(reusing)
        theirs = act(fresh)
        for key in ("observations", "final_observations"):
            np.testing.assert_array_equal(getattr(ours, key)["observation"], getattr(theirs, key)["observation"])
        assert (ours.observations["observation"] != ours.final_observations["observation"]).all()


def test_an_action_an_environment_keeps_is_not_overwritten_by_the_next(make, recorder) -> None:
    environment = make(recorder, 1, ends=[""] * 9, action_space=spaces.Box(-1.0, 1.0, (2,), np.float32))
    begin(environment, SEEDS)
    buffer = np.zeros((1, 2), np.float32)  # a trainer may reuse one array for its actions
    for value in (0.25, 0.5):
        buffer[:] = value
        environment.step({"Agent": Actions(continuous=buffer)})
    kept = environment.vector.envs[0].unwrapped.actions
    assert [action.tolist() for action in kept] == [[0.25, 0.25], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("faults", "doing", "error"),
    [
        ({"ends": ["", "raise"]}, "episode 5: step", "ZeroDivisionError: division by zero"),
        ({"ends": ["", "terminated"], "fail_reset_at": 1}, "episode 6: reset", "OSError: the port is in use"),
    ],
)
def test_an_error_names_id_environment_episode_and_cause(make, recorder, faults, doing, error) -> None:
    environment = make(recorder, 2, **faults)
    begin(environment, SEEDS, [5, 6])
    act(environment)
    with pytest.raises(EnvironmentFailed, match=f"^{recorder}: environment 0, {doing} failed: {error}$") as caught:
        act(environment)
    assert type(caught.value.__cause__).__name__ == error.partition(":")[0]
