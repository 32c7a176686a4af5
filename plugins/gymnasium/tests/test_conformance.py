"""The adapters pass the conformance tests of environments."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from rlcore import Environment, EnvironmentSettings
from rlcore_devkit import EnvironmentConformance, PluginConformance
from rlcore_gymnasium.cartpole import CartPoleEnvironment
from rlcore_gymnasium.environment import make_environment
from rlcore_gymnasium.in_process import InProcessEnvironment
from rlcore_gymnasium.native import NextStepEnvironment
from rlcore_gymnasium.parameter_settings import ParameterRoute

pytestmark = pytest.mark.smoke


class TestPlugin(PluginConformance):
    plugin = "rlcore-gymnasium/gymnasium"


def made(env_id: str, num_envs: int, routes: Mapping[str, Any] | None = None, **options: Any) -> Environment:
    config = SimpleNamespace(environment_parameters=dict.fromkeys(routes or {}))
    run = SimpleNamespace(behavior_names=("Agent",), num_envs=num_envs, video=None, config=config)
    parameters = {name: ParameterRoute(**how) for name, how in (routes or {}).items()}
    return make_environment(EnvironmentSettings(id=env_id, options=options, parameters=parameters), run)


class TestNativeCartPole(EnvironmentConformance):
    one_generator = True
    parameters: ClassVar = {
        "gravity": (9.8, 20.0), "masscart": (1.0, 2.0), "masspole": (0.1, 0.3), "length": (0.5, 1.5),
        "force_mag": (10.0, 5.0), "tau": (0.02, 0.03),
    }  # fmt: skip

    def make(self, num_envs: int) -> Environment:
        environment = made("CartPole-v1", num_envs)
        assert isinstance(environment, CartPoleEnvironment)
        return environment


class TestNextStepNative(EnvironmentConformance):
    one_generator = True

    def make(self, num_envs: int) -> Environment:
        return NextStepEnvironment("CartPole-v1", "Agent", CartPoleVectorEnv(num_envs, max_episode_steps=15))


class TestInProcessByEveryWay(EnvironmentConformance):
    """An attribute, a reset option and a constructor argument of one environment."""

    parameters: ClassVar = {"pull": (0.5, 1.5), "push": (1.0, 2.0), "size": (4.0, 6.0)}

    @pytest.fixture(autouse=True)
    def _dial(self, dial: str) -> None:
        """Register the environment."""

    def make(self, num_envs: int) -> Environment:
        routes = {"push": {"reset_option": "boost"}, "size": {"constructor": "size"}, "pull": {"whole": False}}
        return made("rlcore-tests/Dial-v0", num_envs, routes)


class TestInProcessTruncatedOnly(EnvironmentConformance):
    parameters: ClassVar = {"power": (0.0015, 0.003), "max_speed": (0.07, 0.001)}

    def make(self, num_envs: int) -> Environment:
        environment = made("MountainCarContinuous-v0", num_envs, max_episode_steps=25)
        assert isinstance(environment, InProcessEnvironment)
        return environment


class TestInProcessWithMasks(EnvironmentConformance):
    def make(self, num_envs: int) -> Environment:
        return made("Taxi-v4" if _registered("Taxi-v4") else "Taxi-v3", num_envs, max_episode_steps=30)


def _registered(env_id: str) -> bool:
    import gymnasium

    return env_id in gymnasium.registry
