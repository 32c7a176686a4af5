"""DQN trainers and whole runs on the small environments of rlcore_devkit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlcore import Run, Trainer
from rlcore_devkit.trainings import SmallTrainings

SMALL = {"batch_size": 32, "buffer_size": 4096, "learning_rate": 3e-3}
NETWORK = {"hidden_units": 32, "num_layers": 1}


@pytest.fixture(scope="module")
def make_trainer(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trainer]:
    """See :meth:`rlcore_devkit.trainings.SmallTrainings.trainer`."""
    return SmallTrainings("dqn", tmp_path_factory.mktemp("run"), SMALL, NETWORK).trainer


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """See :meth:`rlcore_devkit.trainings.SmallTrainings.run`."""
    return SmallTrainings("dqn", tmp_path, SMALL, NETWORK).run
