"""Runs with options of networks: what dropout leaves out, what is learned from entities and a goal, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import recorded
from small_runs import small_run

from rlcore import ConfigErrors, Run, config_from_mapping, load_checkpoint, load_plugins
from rlcore_devkit.environments import identity_continuous

SAC = {"batch_size": 16, "buffer_size": 500, "buffer_init_steps": 32, "steps_per_update": 8, "save_replay_buffer": True}


def config_of(place: Path, environment: dict[str, Any], network: dict[str, Any], **block: Any) -> dict[str, Any]:
    agent = {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 32, "buffer_size": 64},
        "network_settings": {"hidden_units": 8, **network},
        "max_steps": 128,
        "checkpoint_interval": 64,
        "summary_freq": 64,
        **block,
    }
    return small_run(place, {"environment": {"num_envs": 4, **environment}, "behaviors.Agent": agent})


def draws(place: Path) -> tuple[int, dict[str, int]]:
    """How many gradient steps a run took, and how many times each first hidden layer left features out."""
    *_, last = sorted((place / "run" / "checkpoints").iterdir(), key=lambda path: int(path.name))
    state = load_checkpoint(last)["Agent"]
    first = {name: int(value) for name, value in state["model"].items() if name.endswith("layers.0.1.draws")}
    return state.get("gradient_steps", 0), {name.partition(".layers")[0]: count for name, count in first.items()}


def test_only_losses_see_what_dropout_leaves_out(tmp_path: Path) -> None:
    pole = {"id": "CartPole-v1"}
    dropout = {"dropout": 0.1, "layer_norm": True}
    Run(config_of(tmp_path / "ppo", pole, dropout)).train()
    minibatches = 2 * 2 * 3  # two rollouts of 64 steps, 32 at once, three times
    assert draws(tmp_path / "ppo")[1] == {"actor": minibatches, "critic": minibatches}
    of_critic = {"dropout": 0.1, "critic": {"layer_norm": True}}
    Run(config_of(tmp_path / "sac", pole, of_critic, trainer_type="sac", hyperparameters=SAC)).train()
    steps, of_layers = draws(tmp_path / "sac")
    # The loss of the policy reads both critics, and so does theirs.
    critics = {f"critics.{number}.body": 2 * steps for number in (0, 1)}
    targets = {f"targets.{number}.body": 0 for number in (0, 1)}
    assert steps == 12 and of_layers == {"actor": steps, **critics, **targets}

    config = config_of(tmp_path / "iql", pole, dropout)
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
    observations = {"votes": {"max_entities": 7}, "asked": {"goal": True}}
    network = {"num_layers": 2, "hidden_units": 32, "attention_units": 32, "goal_conditioning_type": conditioning}
    config = config_of(
        tmp_path,
        {"id": "equal_runs_worlds:Votes-v0", "observations": observations},
        network,
        hyperparameters={"batch_size": 128, "buffer_size": 1024, "num_epoch": 5},
        reward_signals={"extrinsic": {"gamma": 0.0}},
        max_steps=12288,
        checkpoint_interval=12288,
        summary_freq=4096,
    )
    reward = Run(config).train()["Agent"].mean_reward
    assert reward is not None and reward > 9.0  # 5 by chance, 10 at best


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        ({"batch_norm": "post"}, "batch_norm: trainer 'sac' computes no statistics of minibatches; leave it out, or"),
        ({"critic": {"batch_norm": "pre"}}, "critic.batch_norm: trainer 'sac' computes no statistics of minibatches"),
        ({"batch_norm": "pre", "dropout": 0.1}, "batch_norm: is not combined with layer_norm and dropout"),
        ({"batch_norm": "post", "memory": {}}, "batch_norm: normalizes rows, and networks with memory learn from"),
        ({"batch_norm": "after"}, "batch_norm: must be one of none, pre, post, not 'after'"),
    ],
)
def test_batch_normalization_that_nothing_would_learn_is_refused(network: dict[str, Any], problem: str) -> None:
    block = {"trainer_type": "sac", "network_settings": network}
    with pytest.raises(ConfigErrors) as refused:
        config_from_mapping({"behaviors": {"Agent": block}}, load_plugins())
    errors = [str(each) for each in refused.value.problems]
    assert any(error.startswith(f"behaviors.Agent.network_settings.{problem}") for error in errors), errors
