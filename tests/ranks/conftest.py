"""Trainings that several tests read."""

from __future__ import annotations

from pathlib import Path

import pytest
from rank_training import DQN, MEMORY, POLES, PPO, PQN, SAC, SCALED, TD3, train_both

CONFIGS = {"ppo": PPO, "sac": SAC}
NIGHTLY = {"scaled": SCALED, "pqn": PQN, "td3": TD3, "dqn": DQN, "poles": POLES, "memory": MEMORY}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """Every configuration in one process (``one``) and in two ranks (``two``); PPO and SAC alone every day."""
    night = pytestconfig.getoption("--nightly") or pytestconfig.getoption("--deep")
    return train_both(tmp_path_factory.mktemp("ranks"), CONFIGS | (NIGHTLY if night else {}))
