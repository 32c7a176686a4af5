"""The adapters obey rlcore's environment contract."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from rlcore.config import EnvironmentSettings
from rlcore.environment import Environment
from rlcore.testing import EnvironmentConformance
from rlcore_gymnasium.cartpole import CartPoleEnvironment
from rlcore_gymnasium.environment import make_environment
from rlcore_gymnasium.in_process import InProcessEnvironment
from rlcore_gymnasium.native import NextStepEnvironment


def made(env_id: str, num_envs: int, **options: Any) -> Environment:
    run = SimpleNamespace(behavior_names=("Agent",), num_envs=num_envs, video=None)
    return make_environment(EnvironmentSettings(id=env_id, options=options), run)


class TestNativeCartPole(EnvironmentConformance):
    one_generator = True

    def make(self, num_envs: int) -> Environment:
        environment = made("CartPole-v1", num_envs)
        assert isinstance(environment, CartPoleEnvironment)
        return environment


class TestCartPoleCutOffBeforeItFalls(EnvironmentConformance):
    one_generator = True

    def make(self, num_envs: int) -> Environment:
        return made("CartPole-v1", num_envs, max_episode_steps=12)


class TestNextStepNative(EnvironmentConformance):
    one_generator = True

    def make(self, num_envs: int) -> Environment:
        return NextStepEnvironment("CartPole-v1", "Agent", CartPoleVectorEnv(num_envs, max_episode_steps=15))


class TestInProcessTruncatedOnly(EnvironmentConformance):
    def make(self, num_envs: int) -> Environment:
        environment = made("MountainCarContinuous-v0", num_envs, max_episode_steps=25)
        assert isinstance(environment, InProcessEnvironment)
        return environment


class TestInProcessWithMasks(EnvironmentConformance):
    def make(self, num_envs: int) -> Environment:
        return made("Taxi-v4" if _registered("Taxi-v4") else "Taxi-v3", num_envs, max_episode_steps=30)


class TestInProcessOneHot(EnvironmentConformance):
    """FrozenLake: Discrete observations, episodes of a few steps."""

    steps = 60

    def make(self, num_envs: int) -> Environment:
        return made("FrozenLake-v1", num_envs)


def _registered(env_id: str) -> bool:
    import gymnasium

    return env_id in gymnasium.registry


def test_float64_observations_arrive_as_float32() -> None:
    environment = made("MountainCarContinuous-v0", 2)
    assert environment.behaviors["Agent"].observations[0].dtype == np.float32
