"""Runs with options of networks: what a run learns with each, and that it is resumed bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import recorded
from small_runs import small_run

from rlcore import Run, load_checkpoint, load_policies
from rlcore_devkit.environments import identity_continuous


def gsde(name: str, **settings: Any) -> dict[str, Any]:
    """Network settings with noise that is held for 5 steps, so that a checkpoint comes in between."""
    return {"action_distribution": name, "action_distribution_settings": {"resample_every": 5, **settings}}


VOTES = {
    "id": "equal_runs_worlds:Votes-v0",
    "num_envs": 4,
    "observations": {"votes": {"max_entities": 7}, "asked": {"goal": True}},
}
SWING = {"id": "Pendulum-v1", "num_envs": 4}
POLE = {"id": "CartPole-v1", "num_envs": 4}
SAC = {"batch_size": 16, "buffer_size": 500, "buffer_init_steps": 32, "steps_per_update": 8, "save_replay_buffer": True}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # The trainer, the environment block, hyperparameters, and network settings.
    "ppo, entities and a goal": ("ppo", VOTES, {}, {"num_layers": 2, "attention_units": 8}),
    "sac, entities and a goal": ("sac", VOTES, SAC, {"num_layers": 2, "attention_units": 8}),
    "ppo, dropout": ("ppo", POLE, {}, {"dropout": 0.1, "layer_norm": True}),
    "ppo, gsde": ("ppo", SWING, {}, gsde("gsde", initial_log_std=-2.0)),
    "sac, gsde": ("sac", SWING, SAC, gsde("squashed_gsde")),
    "sac, dropout": ("sac", POLE, SAC, {"dropout": 0.1, "critic": {"layer_norm": True}}),
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
    policy: Any = load_policies(place / "run")["Agent"]
    module = policy.module()
    return {name: value.tolist() for name, value in module.state_dict().items()}


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_resumed_bit_for_bit(tmp_path: Path, case: str) -> None:
    Run(config_of(tmp_path / "whole", case)).train()
    with Run(config_of(tmp_path / "parts", case)) as run:
        next(run)
    halfway = weights(tmp_path / "parts")
    Run(config_of(tmp_path / "parts", case, resume=True)).train()
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole") != halfway


def draws(place: Path) -> tuple[int, dict[str, int]]:
    """How many gradient steps a run took, and how many times each first hidden layer left features out."""
    *_, last = sorted((place / "run" / "checkpoints").iterdir(), key=lambda path: int(path.name))
    state = load_checkpoint(last)["Agent"]
    first = {name: int(value) for name, value in state["model"].items() if name.endswith("layers.0.1.draws")}
    return state.get("gradient_steps", 0), {name.partition(".layers")[0]: count for name, count in first.items()}


def test_only_losses_see_what_dropout_leaves_out(tmp_path: Path) -> None:
    Run(config_of(tmp_path / "ppo", "ppo, dropout")).train()
    minibatches = 2 * 2 * 3  # two rollouts of 64 steps, 32 at once, three times
    assert draws(tmp_path / "ppo")[1] == {"actor": minibatches, "critic": minibatches}
    Run(config_of(tmp_path / "sac", "sac, dropout")).train()
    steps, of_layers = draws(tmp_path / "sac")
    # The loss of the policy reads both critics, and so does theirs.
    critics = {f"critics.{number}.body": 2 * steps for number in (0, 1)}
    targets = {f"targets.{number}.body": 0 for number in (0, 1)}
    assert steps == 12 and of_layers == {"actor": steps, **critics, **targets}

    config = config_of(tmp_path / "iql", "ppo, dropout")
    demonstrations = recorded(tmp_path / "demo" / "Agent", identity_continuous(2), 40)
    block = {"trainer_type": "iql", "hyperparameters": {"demo_path": demonstrations, "batch_size": 8}, "max_steps": 5}
    config["behaviors"]["Agent"] |= block | {"checkpoint_interval": 5, "summary_freq": 5}
    del config["environment"]
    Run(config).train()
    each = dict.fromkeys(("actor", "value.body", "critics.0.body", "critics.1.body"), 5)
    assert draws(tmp_path / "iql") == (5, {**each, **targets})


@pytest.mark.learning
@pytest.mark.parametrize("conditioning", ["hyper", "none"])
def test_ppo_counts_entities_and_follows_a_goal(tmp_path: Path, conditioning: str) -> None:
    config = config_of(tmp_path, "ppo, entities and a goal")
    block = config["behaviors"]["Agent"]
    block["hyperparameters"] = {"batch_size": 128, "buffer_size": 1024, "num_epoch": 5}
    block["network_settings"] |= {"hidden_units": 32, "attention_units": 32, "goal_conditioning_type": conditioning}
    block["reward_signals"] = {"extrinsic": {"gamma": 0.0}}
    block |= {"max_steps": 12288, "checkpoint_interval": 12288, "summary_freq": 4096}
    reward = Run(config).train()["Agent"].mean_reward
    assert reward is not None and reward > 9.0  # 5 by chance, 10 at best
