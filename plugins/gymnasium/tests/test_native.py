"""Natively vectorized environments: three ways to reset, one result.

Gymnasium's SyncVectorEnv implements all three autoreset modes and represents an unknown native environment. The
expected results are computed with single environments.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from one_behavior import act, begin

from rlcore import EnvironmentFailed, EpisodeSeeds
from rlcore_gymnasium.cartpole import CartPoleEnvironment
from rlcore_gymnasium.native import ADAPTERS, NativeEnvironment

NUM_ENVS = 3
SEEDS = EpisodeSeeds(11)
MODES = list(AutoresetMode)
RECORDER = "rlcore-tests/Recorder-v0"
DICT = spaces.Dict({"place": spaces.Discrete(5), "speed": spaces.Box(-1.0, 1.0, (2,), np.float64)})


def native(mode: AutoresetMode, env_id: str, **options: object) -> NativeEnvironment:
    makers = [lambda: gymnasium.make(env_id, **options)] * NUM_ENVS
    return ADAPTERS[mode](env_id, "Agent", SyncVectorEnv(makers, autoreset_mode=mode))


def expected(env: gymnasium.Env, seed: int, actions: list[int]) -> list[tuple]:
    """Compute (observation, reward, terminated, truncated, final observation) of one environment after each action."""
    env.reset(seed=seed)
    seen = []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        final = None
        if terminated or truncated:
            final = observation
            observation, _ = env.reset()
        seen.append((observation, np.float32(reward), terminated, truncated and not terminated, final))
    return seen


def played(environment: NativeEnvironment, scripts: np.ndarray) -> list[list[tuple]]:
    """Play every environment with its script [NUM_ENVS, T]; rows that need no action do not consume one."""
    batch = begin(environment, SEEDS)
    used = np.zeros(NUM_ENVS, np.int64)
    seen: list[list[tuple]] = [[] for _ in range(NUM_ENVS)]
    pending: list[float | None] = [0.0] * NUM_ENVS  # reward since the environment acted; None: it has not acted
    while used.min() < scripts.shape[1] - 1:
        needs = np.ones(NUM_ENVS, np.bool_) if batch.needs_action is None else batch.needs_action.copy()
        choice = scripts[np.arange(NUM_ENVS), np.minimum(used, scripts.shape[1] - 1)]
        # An action that the environment must ignore is invalid on purpose.
        actions = np.where(needs, choice, 1 - choice)
        used += needs
        for env in np.flatnonzero(needs):
            pending[env] = 0.0
        batch = act(environment, actions)
        waiting = np.zeros(NUM_ENVS, np.bool_) if batch.needs_action is None else ~batch.needs_action
        for env in range(NUM_ENVS):
            pending[env] += batch.reward[env]
            if waiting[env]:
                assert not batch.terminated[env] and not batch.truncated[env]
                continue
            observation = {name: array[env].copy() for name, array in batch.observations.items()}
            final = None
            if env in batch.ended:
                row = batch.ended.tolist().index(env)
                final = {name: array[row].copy() for name, array in batch.final_observations.items()}
            flags = bool(batch.terminated[env]), bool(batch.truncated[env])
            seen[env].append((observation, np.float32(pending[env]), *flags, final))
    return seen


def assert_same(ours: list[tuple], theirs: list[tuple], space: spaces.Space) -> int:
    def values(observation: object) -> np.ndarray:
        return spaces.flatten(space, observation).astype(np.float32)

    ends = 0
    for (seen, *rest, final), (plain, *plain_rest, plain_final) in zip(ours, theirs, strict=False):
        np.testing.assert_array_equal(np.concatenate(list(seen.values())), values(plain))
        assert rest == plain_rest
        assert (final is None) == (plain_final is None)
        if final is not None:
            np.testing.assert_array_equal(np.concatenate(list(final.values())), values(plain_final))
            ends += 1
    return ends


EPISODES = [
    ("CartPole-v1", {"max_episode_steps": 14}),
    ("FrozenLake-v1", {}),
    *(
        (RECORDER, {"observation_space": DICT, "ends": ends})
        for ends in (["", "both"], ["", "truncated"], ["terminated"])
    ),
]


@pytest.mark.usefixtures("recorder")
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize(("env_id", "options"), EPISODES)
def test_every_autoreset_mode_comes_to_the_same_episodes(mode, env_id, options) -> None:
    """The observations are plain and a Dict, and episodes end in every way."""
    scripts = np.random.default_rng(0).integers(0, 2, (NUM_ENVS, 80))
    ours = played(native(mode, env_id, **options), scripts)
    for env in range(NUM_ENVS):
        plain = gymnasium.make(env_id, **options)
        theirs = expected(plain, SEEDS(0, 0) + env, scripts[env].tolist())
        assert assert_same(ours[env], theirs, plain.observation_space) >= 3


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_one_generator_is_seeded_once_for_each_reset(mode, recorder) -> None:
    environment = native(mode, recorder, ends=["terminated"])
    begin(environment, SEEDS, [1, 2, 4])
    for _ in range(4):
        act(environment)
    for index, env in enumerate(environment.vector.envs):
        first, *later = env.unwrapped.seeds
        assert first == SEEDS(0, 7) + index  # SyncVectorEnv distributes one seed over its environments in this way
        assert set(later) == {None}


def test_an_error_while_stepping_names_environment_episodes_and_cause(recorder) -> None:
    environment = native(AutoresetMode.SAME_STEP, recorder, ends=["raise"])
    begin(environment, SEEDS, [1, 2, 4])
    with pytest.raises(EnvironmentFailed) as caught:
        act(environment)
    assert str(caught.value) == (
        f"{recorder}: all 3 environments, episodes 1 to 4: step failed: ZeroDivisionError: division by zero"
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_masks_are_those_of_the_states_that_act_next_and_of_the_final_ones(mode) -> None:
    environment = native(mode, "Taxi-v4", max_episode_steps=5)
    taxi = environment.vector.envs[0].unwrapped

    def allowed(batch_observations) -> list[list[bool]]:
        states = batch_observations["observation"].argmax(axis=1).tolist()
        return [taxi.action_mask(state).astype(np.bool_).tolist() for state in states]

    batch = begin(environment, SEEDS)
    masks = []
    for _ in range(20):
        if mode is not AutoresetMode.NEXT_STEP:
            assert batch.action_mask.tolist() == allowed(batch.observations)
        batch = act(environment, batch.action_mask.argmax(axis=1))
        if batch.ended.size:
            assert batch.final_action_mask.tolist() == allowed(batch.final_observations)
            masks += batch.final_action_mask.tolist()
        else:
            assert batch.final_action_mask is None
    assert len(masks) >= 3 * NUM_ENVS and not all(map(all, masks))


@pytest.mark.parametrize("bad", [-1, 2, 7])
def test_an_action_cartpole_does_not_have_is_refused(bad: int) -> None:
    vector = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    environment = CartPoleEnvironment("CartPole-v1", "Agent", vector)
    begin(environment, SEEDS)
    with pytest.raises(EnvironmentFailed, match="CartPole-v1"):
        act(environment, [0, bad])
