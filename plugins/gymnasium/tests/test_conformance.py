"""The adapters pass the conformance tests of environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from rlcore import Environment
from rlcore_devkit import EnvironmentConformance, PluginConformance
from rlcore_gymnasium.cartpole import CartPoleEnvironment
from rlcore_gymnasium.in_process import InProcessEnvironment
from rlcore_gymnasium.native import NextStepEnvironment
from rlcore_gymnasium.saved_state import SavingEnvironment

pytestmark = pytest.mark.smoke


class TestPlugin(PluginConformance):
    plugin = "rlcore-gymnasium/gymnasium"


class Made(EnvironmentConformance):
    @pytest.fixture(autouse=True)
    def _maker(self, make: Callable[..., Environment], dial: str) -> None:
        self.made = make


class TestNativeCartPole(Made):
    one_generator = True
    parameters: ClassVar = {
        "gravity": (9.8, 20.0), "masscart": (1.0, 2.0), "masspole": (0.1, 0.3), "length": (0.5, 1.5),
        "force_mag": (10.0, 5.0), "tau": (0.02, 0.03),
    }  # fmt: skip

    def make(self, num_envs: int) -> Environment:
        environment = self.made("CartPole-v1", num_envs)
        assert isinstance(environment, CartPoleEnvironment)
        return environment


class TestNextStepNative(EnvironmentConformance):
    one_generator = True

    def make(self, num_envs: int) -> Environment:
        return NextStepEnvironment("CartPole-v1", "Agent", CartPoleVectorEnv(num_envs, max_episode_steps=15))


class TestInProcessByEveryWay(Made):
    """An attribute, a reset option and a constructor argument of one environment."""

    parameters: ClassVar = {"pull": (0.5, 1.5), "push": (1.0, 2.0), "size": (4.0, 6.0)}

    def make(self, num_envs: int) -> Environment:
        routes = {"push": {"reset_option": "boost"}, "size": {"constructor": "size"}, "pull": {"whole": False}}
        return self.made("rlcore-tests/Dial-v0", num_envs, parameters=routes)


class TestInProcessTruncatedOnly(Made):
    parameters: ClassVar = {"power": (0.0015, 0.003), "max_speed": (0.07, 0.001)}

    def make(self, num_envs: int) -> Environment:
        environment = self.made("MountainCarContinuous-v0", num_envs, max_episode_steps=25)
        assert isinstance(environment, InProcessEnvironment)
        return environment


class TestInProcessWithMasks(Made):
    def make(self, num_envs: int) -> Environment:
        return self.made("Taxi-v4", num_envs, max_episode_steps=30)


class TestInWrappers(Made):
    """Wrappers of each kind around environments that a parameter also makes again."""

    parameters: ClassVar = {"power": (0.0015, 0.003), "limit": (25.0, 30.0)}

    def make(self, num_envs: int) -> Environment:
        wrappers = [
            {"name": "StickyAction", "repeat_action_probability": 0.3},
            {"name": "TimeAwareObservation", "flatten": False, "normalize_time": True},
            {"name": "FrameStackObservation", "stack_size": 2},
            {"name": "TimeLimit", "max_episode_steps": 28},
        ]
        parameters = {"power": None, "limit": {"constructor": "max_episode_steps"}}
        seen = {"time": "ignore"}
        environment = self.made(
            "MountainCarContinuous-v0", num_envs, wrappers=wrappers, parameters=parameters, observations=seen
        )
        assert isinstance(environment, SavingEnvironment)
        return environment
