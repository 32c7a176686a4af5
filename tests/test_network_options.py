"""Runs with options of networks: what a run learns with each, and that it is resumed bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import small_run

from rlcore import Run, load_policies

VOTES = {
    "id": "equal_runs_worlds:Votes-v0",
    "num_envs": 4,
    "observations": {"votes": {"max_entities": 7}, "asked": {"goal": True}},
}
SAC = {"batch_size": 16, "buffer_size": 500, "buffer_init_steps": 32, "steps_per_update": 8, "save_replay_buffer": True}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # The trainer, the environment block, hyperparameters, and network settings.
    "ppo, entities and a goal": ("ppo", VOTES, {}, {"num_layers": 2, "attention_units": 8}),
    "sac, entities and a goal": ("sac", VOTES, SAC, {"num_layers": 2, "attention_units": 8}),
}


def config_of(place: Path, case: str, **start: Any) -> dict[str, Any]:
    trainer, environment, hyperparameters, network = CASES[case]
    block = {
        "trainer_type": trainer,
        "hyperparameters": hyperparameters or {"batch_size": 32, "buffer_size": 64},
        "network_settings": {"hidden_units": 8, **network},
        "max_steps": 128,
        "checkpoint_interval": 64,
        "summary_freq": 64,
    }
    return small_run(place, {"environment": environment, "behaviors.Agent": block}, **start)


def weights(place: Path) -> dict[str, Any]:
    module = load_policies(place / "run")["Agent"].module()
    return {name: value.tolist() for name, value in module.state_dict().items()}


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_resumed_bit_for_bit(tmp_path: Path, case: str) -> None:
    Run(config_of(tmp_path / "whole", case)).train()
    with Run(config_of(tmp_path / "parts", case)) as run:
        next(run)
    halfway = weights(tmp_path / "parts")
    Run(config_of(tmp_path / "parts", case, resume=True)).train()
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole") != halfway


@pytest.mark.learning
@pytest.mark.parametrize("conditioning", ["hyper", "none"])
def test_ppo_counts_entities_and_follows_a_goal(tmp_path: Path, conditioning: str) -> None:
    config = config_of(tmp_path, "ppo, entities and a goal")
    block = config["behaviors"]["Agent"]
    block["hyperparameters"] = {"batch_size": 128, "buffer_size": 1024, "num_epoch": 5}
    block["network_settings"] |= {"hidden_units": 32, "attention_units": 32, "goal_conditioning_type": conditioning}
    block["reward_signals"] = {"extrinsic": {"gamma": 0.0}}
    block |= {"max_steps": 12288, "checkpoint_interval": 12288, "summary_freq": 4096}
    assert Run(config).train()["Agent"].reward > 9.0  # 5 by chance, 10 at best
