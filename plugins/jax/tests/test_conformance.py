"""Simulators behind the contract pass the conformance tests of environments, and the plugin those of plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from rlcore_devkit import PluginConformance, TensorEnvironmentConformance
from rlcore_torch import TensorEnvironment

pytest.importorskip("pgx", reason="pgx is not installed: pip install './plugins/jax[pgx]'")


class TestPlugin(PluginConformance):
    plugin = "rlcore-jax/jax"


class OfProgram(TensorEnvironmentConformance):
    steps = 40
    game: ClassVar[str | None] = None  # of pgx; None: the walk
    options: ClassVar[Mapping[str, int]] = {}
    program: ClassVar[Any] = None  # compiled once for all tests of the class

    @pytest.fixture(autouse=True)
    def _compiled(self, walk: Any) -> None:
        from rlcore_jax.games import PgxGame
        from rlcore_jax.program import Program
        from rlcore_jax.settings import PgxSettings

        if type(self).program is None:
            simulator = walk if self.game is None else PgxGame(self.game, PgxSettings())
            type(self).program = Program(simulator, self.num_envs, **self.options)

    def make_tensors(self, num_envs: int) -> TensorEnvironment:
        from rlcore_jax.tensors import JaxTensors

        return JaxTensors(self.program, "Agent")


class TestContinuousTruncatedAndResetInChunks(OfProgram):
    options = {"max_episode_steps": 9, "reset_rows": 2}


class TestTurnsAndMasksTruncated(OfProgram):
    game = "tic_tac_toe"
    options = {"max_episode_steps": 6}


class TestOnePlayer(OfProgram):
    game = "minatar-breakout"
    options = {"max_episode_steps": 15}
