"""PPO trainers and whole runs on the small environments of rlcore_devkit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlcore import Run, Trainer
from rlcore_devkit.trainings import SmallTrainings

SMALL = {"buffer_size": 256, "batch_size": 64, "learning_rate_schedule": "constant"}
NETWORK = {"hidden_units": 32, "num_layers": 1, "activation": "tanh", "init": "orthogonal"}


@pytest.fixture
def make_trainer(tmp_path: Path) -> Callable[..., Trainer]:
    """See :meth:`rlcore_devkit.trainings.SmallTrainings.trainer`."""
    return SmallTrainings("ppo", tmp_path, SMALL, NETWORK).trainer


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """See :meth:`rlcore_devkit.trainings.SmallTrainings.run`."""
    return SmallTrainings("ppo", tmp_path, SMALL, NETWORK).run
