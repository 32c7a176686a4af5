"""TD7 trainers on the small environments of rlcore_devkit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlcore import Trainer
from rlcore_devkit.trainings import SmallTrainings

SMALL = {
    "batch_size": 16,
    "buffer_size": 4096,
    "buffer_init_steps": 0,
    "learning_rate": 3e-3,
    "embedding_units": 8,
}
NETWORK = {"hidden_layers": [12, 10], "activation": "relu", "critic": {"activation": "elu", "hidden_layers": [14, 9]}}


@pytest.fixture(scope="module")
def make_trainer(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trainer]:
    """``make_trainer(environment, actor_delay=3)``; see :meth:`rlcore_devkit.SmallTrainings.trainer`."""

    def make(*arguments: object, **settings: object) -> Trainer:
        trainings = SmallTrainings("td7", tmp_path_factory.mktemp("run"), SMALL, NETWORK)
        return trainings.trainer(*arguments, **settings)  # type: ignore[arg-type]

    return make
