"""SAC trainers and whole runs on the small environments of rlcore.testing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlcore import Run, RunContext
from rlcore.config import config_from_mapping
from rlcore.environment import Environment
from rlcore.plugins import Plugins, load_plugins
from rlcore_sac.trainer import SACTrainer

MakeTrainer = Callable[..., SACTrainer]
MakeRun = Callable[..., Run]

SMALL = {"batch_size": 32, "buffer_size": 4096, "learning_rate": 3e-3}
NETWORK = {"hidden_units": 32, "num_layers": 1}


@pytest.fixture(scope="module")
def make_trainer(tmp_path_factory: pytest.TempPathFactory) -> MakeTrainer:
    """``make_trainer(environment, tau=0.1)``: keywords are hyperparameters, ``block`` other settings."""
    directory = tmp_path_factory.mktemp("run")

    def make(
        environment: Environment,
        *,
        block: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        plugins: Plugins | None = None,
        seed: int = 1,
        **hyperparameters: Any,
    ) -> SACTrainer:
        [behavior] = environment.behaviors.values()
        settings = {
            "trainer_type": "sac",
            "hyperparameters": {**SMALL, **hyperparameters},
            "network_settings": {**NETWORK, **(network or {})},
            **(block or {}),
        }
        plugins = plugins or load_plugins()
        config = config_from_mapping({"behaviors": {behavior.name: settings}}, plugins)
        run = RunContext(config, plugins, directory, seed, environment.num_envs)
        trainer = plugins.create_trainer(plugins.trainer("sac"), config.behaviors[behavior.name], behavior, run)
        assert isinstance(trainer, SACTrainer)
        return trainer

    return make


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """``make_run("identity_hybrid", max_steps=2000)``: keywords are settings of the only behavior."""

    def make(
        environment: str,
        *,
        run_id: str = "run",
        seed: int = 1,
        num_envs: int = 8,
        start: Mapping[str, Any] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        **block: Any,
    ) -> Run:
        settings = {
            "trainer_type": "sac",
            "hyperparameters": {**SMALL, **(hyperparameters or {})},
            "network_settings": {**NETWORK, **(network or {})},
            "summary_freq": 1_000_000,
            **block,
        }
        return Run(
            {
                "plugins": {"local": ["rlcore.testing.hooks"]},
                "environment": {"type": "testing", "id": environment, "num_envs": num_envs},
                "env_settings": {"seed": seed},
                "behaviors": {"Agent": settings},
                "checkpoint_settings": {"run_id": run_id, "results_dir": str(tmp_path / "results"), **(start or {})},
                "stats": {"console": False},
            }
        )

    return make
