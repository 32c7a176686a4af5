"""POCA trainers of any behavior."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlcore import BehaviorSpec
from rlcore_devkit.trainings import SmallTrainings
from rlcore_poca.trainer import POCATrainer

SMALL = {"buffer_size": 256, "batch_size": 64, "learning_rate_schedule": "constant"}
NETWORK = {"hidden_units": 16, "num_layers": 1}


@pytest.fixture
def make_trainer(tmp_path: Path) -> Callable[..., POCATrainer]:
    """``make_trainer(behavior, network=..., block=..., **hyperparameters)``."""

    def make(behavior: BehaviorSpec, **options: Any) -> POCATrainer:
        environment: Any = SimpleNamespace(
            behaviors={behavior.name: behavior}, num_envs=int(behavior.env_index.max()) + 1
        )
        trainer = SmallTrainings("poca", tmp_path, SMALL, NETWORK).trainer(environment, **options)
        assert isinstance(trainer, POCATrainer)
        return trainer

    return make
