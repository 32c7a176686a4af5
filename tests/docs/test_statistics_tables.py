"""The READMEs of PPO, POCA, PQN, SAC, TD3, TD7, CrossQ, XQC and DQN list all statistics, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from workspace import ROOT

from rlcore import Run

pytestmark = pytest.mark.documentation

HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "ppo": {"batch_size": 32, "buffer_size": 128},
    "poca": {"batch_size": 32, "buffer_size": 128},
    "pqn": {"batch_size": 32, "buffer_size": 128},
    "sac": {"batch_size": 16, "buffer_size": 1000, "buffer_init_steps": 50},
    "td3": {"batch_size": 16, "buffer_size": 1000, "buffer_init_steps": 50},
    "crossq": {"batch_size": 16, "buffer_size": 1000, "buffer_init_steps": 50},
    "xqc": {"batch_size": 16, "buffer_size": 1000, "buffer_init_steps": 50, "steps_per_update": 1},
    "td7": {"batch_size": 16, "buffer_size": 1000, "buffer_init_steps": 50},
    "dqn": {"batch_size": 16, "buffer_size": 1000, "buffer_init_steps": 50},
}
# With several rewards, there are tags that one reward does not have.
REWARDS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"extrinsic": {}},
    "Pendulum-v1": {"extrinsic": {}, "rnd": {"network_settings": {"hidden_units": 8}}},
}


def reported(trainer: str, environment: str, results: Path) -> set[str]:
    """Tags under ``Losses`` and ``Policy`` in the summaries of a short training, but for those of the second reward."""
    behavior = {
        "trainer_type": trainer,
        "hyperparameters": HYPERPARAMETERS[trainer],
        "network_settings": {"hidden_units": 8},
        "reward_signals": REWARDS[environment],
        "max_steps": 400,
        "summary_freq": 200,
        "checkpoint_interval": 400,
    }
    run = Run({
        "preset": "none",
        "environment": {"type": "gymnasium", "id": environment, "num_envs": 4 if "CartPole" in environment else 1},
        "behaviors": {"Agent": behavior},
        "checkpoint_settings": {"run_id": environment, "results_dir": str(results)},
    })  # fmt: skip
    run.train()
    lines = (run.directory.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    tags = {tag for line in lines for tag in json.loads(line)["stats"]}
    return {tag for tag in tags if tag.startswith(("Losses/", "Policy/")) and "rnd" not in tag.lower()}


@pytest.mark.parametrize("trainer", ["ppo", "poca", "pqn", "sac", "td3", "td7", "crossq", "xqc", "dqn"])
def test_the_table_of_statistics_is_complete(trainer: str, tmp_path: Path) -> None:
    package = {"xqc": "crossq"}.get(trainer, trainer)
    readme = (ROOT / "builtin_trainers" / package / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`((?:Losses|Policy)/[^`]+)`", readme))
    # By the kind of their actions.
    only = {
        "td3": ["Pendulum-v1"],
        "td7": ["Pendulum-v1"],
        "crossq": ["Pendulum-v1"],
        "xqc": ["Pendulum-v1"],
        "dqn": ["CartPole-v1"],
        "pqn": ["CartPole-v1"],
    }
    environments = only.get(trainer, [*REWARDS])
    assert listed == set[str]().union(*(reported(trainer, environment, tmp_path) for environment in environments))
