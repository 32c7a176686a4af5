"""Trainings that several tests read."""

from __future__ import annotations

from pathlib import Path

import pytest
from rank_training import DQN, MEMORY, POLES, PPO, SAC, SCALED, TD3, train_both


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every configuration in one process (``one``) and in two ranks (``two``)."""
    configs = {"ppo": PPO, "scaled": SCALED, "sac": SAC, "td3": TD3, "dqn": DQN, "poles": POLES, "memory": MEMORY}
    return train_both(tmp_path_factory.mktemp("ranks"), configs)
