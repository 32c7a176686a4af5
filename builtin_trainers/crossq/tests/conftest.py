"""CrossQ trainers on the small environments of rlcore_devkit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlcore import Trainer
from rlcore_devkit.trainings import SmallTrainings

SMALL = {"batch_size": 16, "buffer_size": 4096, "buffer_init_steps": 0, "learning_rate": 3e-3}
NETWORK = {"hidden_units": 12, "critic": {"hidden_layers": [16, 8]}, "activation": "relu", "batch_norm_momentum": 0.1}


@pytest.fixture(scope="module")
def make_trainer(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trainer]:
    """See :meth:`rlcore_devkit.trainings.SmallTrainings.trainer`."""
    return SmallTrainings("crossq", tmp_path_factory.mktemp("run"), SMALL, NETWORK).trainer
