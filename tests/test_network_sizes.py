"""The start of a run states the networks that PPO and SAC really have, and whether their runs resume exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import small_run

from rlcore import Run
from rlcore.run.description import BehaviorDescription, ResumePromise


def describe(path: Path, env_id: str, behavior: dict[str, Any]) -> tuple[BehaviorDescription, ResumePromise | None]:
    config = small_run(path, {"environment.id": env_id, "behaviors.Agent": behavior})
    with Run(config) as run:
        found = run.describe()
    return found.behaviors[0], found.resume


def layer(inputs: int, outputs: int) -> int:
    """Weights and biases of a linear layer."""
    return inputs * outputs + outputs


@pytest.mark.parametrize(
    ("network", "layers", "parameters"),
    [
        # CartPole has 4 observations and 2 actions; PPO has a policy and a critic.
        ({"hidden_units": 64, "activation": "tanh"}, "2 x 64 tanh", 2 * (layer(4, 64) + layer(64, 64)) + 65 * 3),
        ({"hidden_layers": [32, 16]}, "32, 16 swish", 2 * (layer(4, 32) + layer(32, 16)) + 17 * 3),
        ({"num_layers": 0}, "linear", layer(4, 2) + layer(4, 1)),
    ],
)
def test_the_size_of_ppos_networks(tmp_path: Path, network: dict[str, Any], layers: str, parameters: int) -> None:
    agent, resume = describe(tmp_path, "CartPole-v1", {"trainer_type": "ppo", "network_settings": network})
    assert agent.network is not None
    assert (agent.network.layers, agent.network.parameters) == (layers, parameters)
    assert (agent.observations, agent.discrete, str(resume)) == ({"observation": (4,)}, (2,), "exact")


@pytest.mark.parametrize("saved", [False, True])
def test_sac_counts_its_critics_and_not_their_targets_and_promises_what_it_saves(tmp_path: Path, saved: bool) -> None:
    settings = {
        "trainer_type": "sac",
        "network_settings": {"hidden_units": 32},
        "hyperparameters": {"batch_size": 32, "buffer_size": 1000, "save_replay_buffer": saved},
    }
    agent, resume = describe(tmp_path, "Pendulum-v1", settings)
    # Pendulum has 3 observations and 1 action; the policy has a mean and a deviation, and there is one temperature.
    policy = layer(3, 32) + layer(32, 32) + layer(32, 2)
    critics = 2 * (layer(4, 32) + layer(32, 32) + layer(32, 1))
    assert agent.network is not None and agent.network.parameters == policy + critics + 1
    assert resume is not None
    assert (resume.kind, resume.reasons) == (
        ("exact", ()) if saved else ("statistical", ("hyperparameters.save_replay_buffer of Agent is false",))
    )
