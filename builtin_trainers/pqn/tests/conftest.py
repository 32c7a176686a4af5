"""PQN trainers on the small environments of rlcore_devkit, and random batches with their model in Python floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rlcore import Trainer
from rlcore_devkit.trainings import SmallTrainings

SMALL = {"batch_size": 64, "buffer_size": 256, "learning_rate": 3e-3}
NETWORK = {"hidden_units": 32, "num_layers": 1, "activation": "relu"}


@pytest.fixture(scope="module")
def make_trainer(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trainer]:
    """See :meth:`rlcore_devkit.trainings.SmallTrainings.trainer`."""
    return SmallTrainings("pqn", tmp_path_factory.mktemp("run"), SMALL, NETWORK).trainer


@pytest.fixture
def make_run(tmp_path: Any) -> Callable[..., Any]:
    """See :meth:`rlcore_devkit.trainings.SmallTrainings.run`."""
    return SmallTrainings("pqn", tmp_path, SMALL, NETWORK).run
