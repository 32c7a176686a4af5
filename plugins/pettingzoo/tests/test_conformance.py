"""The adapter passes the conformance tests of environments, and the plugin those of plugins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from rlcore import Environment
from rlcore_devkit import EnvironmentConformance, PluginConformance
from rlcore_pettingzoo.parallel import ParallelEnvironment
from rlcore_pettingzoo.turns import TurnEnvironment

pytestmark = pytest.mark.smoke


class TestPlugin(PluginConformance):
    plugin = "rlcore-pettingzoo/pettingzoo"


class OfGame(EnvironmentConformance):
    game = ""
    options: ClassVar[dict[str, Any]] = {}
    kind: type = TurnEnvironment
    needs = "pettingzoo"  # the module without which the game cannot be made

    @pytest.fixture(autouse=True)
    def _maker(self, make: Callable[..., Environment]) -> None:
        pytest.importorskip(self.needs)
        self._make = make

    def make(self, num_envs: int) -> Environment:
        environment = self._make(self.game, num_envs, **self.options)
        assert isinstance(environment, self.kind)
        return environment


class TestTurnsWithMasksInObservations(OfGame):
    game = "zoo_games:circle"


class TestTurnsWithMasksInInfos(OfGame):
    game = "zoo_games:circle"
    options: ClassVar = {"arguments": {"masks": "info", "players": 5}, "final_info": ["place", "missing"]}


class TestTurnsWithoutMasks(OfGame):
    game = "zoo_games:circle"
    options: ClassVar = {"arguments": {"masks": "", "players": 2}}


class TestEarlyDeathsOfTwoBehaviors(OfGame):
    game = "zoo_games:fading"
    kind = ParallelEnvironment
    options: ClassVar = {
        "arguments": {"agents": 4},
        "behaviors": {"Odd": {"agents": ["*_1", "*_3"], "team": "each"}, "Even": {"agents": ["*_0", "*_2"]}},
        "final_info": ["age"],
    }


class TestLateArrivals(OfGame):
    game = "zoo_games:fading"
    kind = ParallelEnvironment
    options: ClassVar = {"arguments": {"agents": 3, "late": 2}}


class TestParallelRockPaperScissors(OfGame):
    game = "rps_v2"
    needs = "pygame"
    kind = ParallelEnvironment


class TestTicTacToe(OfGame):
    game = "classic/tictactoe-v3"
    needs = "pygame"


class TestSpread(OfGame):
    """Real actions of several agents."""

    game = "mpe2.simple_spread_v3:parallel_env"
    kind = ParallelEnvironment
    needs = "mpe2"
    options: ClassVar = {"arguments": {"continuous_actions": True}}


class TestKuhnPoker(OfGame):
    game = "openspiel/kuhn_poker"
    needs = "pyspiel"


class TestSimultaneousGoofspiel(TestKuhnPoker):
    game = "openspiel/goofspiel"
    options: ClassVar = {"arguments": {"num_cards": 4, "players": 3}}
