"""PPO trainers and whole runs on the small environments of rlcore.testing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlcore import Run
from rlcore.testing.trainings import SmallTrainings
from rlcore.trainer import Trainer

SMALL = {"buffer_size": 256, "batch_size": 64, "learning_rate_schedule": "constant"}
NETWORK = {"hidden_units": 32, "num_layers": 1, "activation": "tanh", "init": "orthogonal"}


@pytest.fixture
def make_trainer(tmp_path: Path) -> Callable[..., Trainer]:
    """See :meth:`rlcore.testing.trainings.SmallTrainings.trainer`."""
    return SmallTrainings("ppo", tmp_path, SMALL, NETWORK).trainer


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """See :meth:`rlcore.testing.trainings.SmallTrainings.run`."""
    return SmallTrainings("ppo", tmp_path, SMALL, NETWORK).run
