"""Tasks of several families pass the conformance tests of environments, and the plugin those of plugins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from rlcore import Environment
from rlcore_devkit import EnvironmentConformance, PluginConformance

pytest.importorskip("envpool", reason="EnvPool has no wheel for this platform")

pytestmark = pytest.mark.smoke


class TestPlugin(PluginConformance):
    plugin = "rlcore-gymnasium/envpool"


class OfTask(EnvironmentConformance):
    one_generator = True  # an episode continues the random numbers of those before it
    task: ClassVar[tuple[str, dict[str, Any]]]

    @pytest.fixture(autouse=True)
    def _maker(self, make: Callable[..., Environment]) -> None:
        self._make = make

    def make(self, num_envs: int) -> Environment:
        env_id, options = self.task
        return self._make(env_id, num_envs, **options)


class TestDiscrete(OfTask):
    task = ("CartPole-v1", {})


class TestContinuousAndTruncated(OfTask):
    task = ("Pendulum-v1", {"max_episode_steps": 20})


class TestNestedObservationsAndMaskedBranches(OfTask):
    task = ("MultiCVRP-v0", {})


class TestMaskInTheInfo(OfTask):
    steps = 400
    task = ("Play2048-v1", {})


class TestImageAndChoices(OfTask):
    task = ("MiniGrid-Empty-5x5-v0", {"max_episode_steps": 20})
