"""The adapter passes the conformance tests of environments, and the plugin those of plugins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from rlcore import Environment
from rlcore_devkit import EnvironmentConformance, PluginConformance
from rlcore_pettingzoo.parallel import ParallelEnvironment
from rlcore_pettingzoo.turns import TurnEnvironment

pytestmark = pytest.mark.smoke


class TestPlugin(PluginConformance):
    plugin = "rlcore-pettingzoo/pettingzoo"


class OfGame(EnvironmentConformance):
    case: ClassVar[dict[str, Any]]

    @pytest.fixture(autouse=True)
    def _maker(self, make: Callable[..., Environment]) -> None:
        pytest.importorskip(self.case.get("needs", "pettingzoo"))
        self._make = make

    def make(self, num_envs: int) -> Environment:
        environment = self._make(self.case["game"], num_envs, **self.case.get("options", {}))
        assert isinstance(environment, ParallelEnvironment if self.case.get("at_once") else TurnEnvironment)
        return environment


for name, case in yaml.safe_load((Path(__file__).parent / "data/conformance.yaml").read_text("utf-8")).items():
    globals()[f"Test{name}"] = type(f"Test{name}", (OfGame,), {"case": case})
