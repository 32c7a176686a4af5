"""Games pass the conformance tests of environments, and the plugin those of plugins."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlcore import Environment
from rlcore_devkit import EnvironmentConformance, PluginConformance


class TestPlugin(PluginConformance):
    plugin = "rlcore-godot/godot"


class TestGame(EnvironmentConformance):
    one_generator = True  # an episode continues the random numbers of those before it
    steps = 30

    @pytest.fixture(autouse=True)
    def _maker(self, make: Callable[..., Environment]) -> None:
        self._make = make

    def make(self, num_envs: int) -> Environment:
        return self._make(num_envs=num_envs, repeatable=True)
