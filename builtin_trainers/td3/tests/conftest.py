"""TD3 trainers on the small environments of rlcore_devkit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlcore import Trainer
from rlcore_devkit.trainings import SmallTrainings

SMALL = {"batch_size": 16, "buffer_size": 4096, "buffer_init_steps": 0, "learning_rate": 3e-3}
NETWORK = {"hidden_layers": [12, 8], "activation": "relu"}


@pytest.fixture(scope="module")
def make_trainer(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trainer]:
    """``make_trainer(environment, trainer="ddpg", tau=0.1)``; see :meth:`rlcore_devkit.SmallTrainings.trainer`."""

    def make(*arguments: object, trainer: str = "td3", **settings: object) -> Trainer:
        trainings = SmallTrainings(trainer, tmp_path_factory.mktemp("run"), SMALL, NETWORK)
        return trainings.trainer(*arguments, **settings)  # type: ignore[arg-type]

    return make
