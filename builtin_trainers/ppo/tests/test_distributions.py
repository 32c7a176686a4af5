# mypy: allow-untyped-calls
"""PPO with the distributions of rlcore: probabilities, resuming, bounds, learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import torch

from rlcore import EpisodeSeeds, Run, UnsupportedSpace
from rlcore_devkit.environments import identity_hybrid

NAMES = pytest.mark.parametrize("name", ["gaussian", "state_dependent_gaussian", "squashed_gaussian"])


@NAMES
@pytest.mark.parametrize("memory", [None, {"memory_size": 8, "sequence_length": 4}], ids=["plain", "memory"])
def test_before_the_first_gradient_step_old_and_new_probabilities_are_equal(
    make_trainer: Callable[..., Any], name: str, memory: Any
) -> None:
    environment = identity_hybrid(8)
    trainer = make_trainer(environment, network={"action_distribution": name, "memory": memory})
    [(behavior, batch)] = environment.reset(EpisodeSeeds(1), np.zeros(8, np.int64)).items()
    trainer.begin(batch)
    drawn = []
    while not trainer.ready():
        actions = trainer.act(batch)
        drawn.append(actions.continuous.copy())
        batch = environment.step({behavior: actions})[behavior]
        trainer.observe(actions, batch)
    rollout = trainer.rollout()
    np.testing.assert_allclose(np.clip(rollout.raw.numpy(), -1, 1), np.concatenate(drawn), rtol=1e-6)
    for minibatch in trainer.minibatches(rollout, *trainer.advantages(rollout)):
        log_ratio = trainer.loss(minibatch).log_ratio.detach()
        torch.testing.assert_close(log_ratio, torch.zeros(len(log_ratio)), rtol=0.0, atol=2e-4)
    stats = trainer.update()
    assert np.isfinite(stats["Policy/KL Divergence"]) and np.isfinite(stats["Policy/Entropy"])


@pytest.mark.parametrize("name", ["state_dependent_gaussian", "squashed_gaussian"])
def test_a_resumed_run_is_one_that_never_stopped(make_run: Callable[..., Run], name: str) -> None:
    def trained(run_id: str, until: int, **start: Any) -> dict[str, Any]:
        network, block = {"action_distribution": name}, {"max_steps": until, "checkpoint_interval": 256}
        with make_run("identity_hybrid", run_id=run_id, network=network, start=start, **block) as run:
            run.train()
            state: dict[str, Any] = run.behaviors["Agent"].trainer.state_dict()["model"]
            return state

    whole = trained("whole", 768)
    trained("cut", 512)
    resumed = trained("cut", 768, resume=True)
    assert all(np.array_equal(resumed[key], array) for key, array in whole.items())


def test_a_bounded_distribution_refuses_actions_without_bounds(make_trainer: Callable[..., Any]) -> None:
    environment = identity_hybrid(2)
    [(name, behavior)] = environment.behaviors.items()
    high = np.array([1.0, np.inf], np.float32)
    environment.behaviors = {name: attrs.evolve(behavior, high=high)}
    with pytest.raises(
        UnsupportedSpace,
        match=r"part 1 of the 2 .* the bounds -1 and inf, and action_distribution 'squashed_gaussian' acts within "
        r"bounds only; give .* finite bounds, or choose action_distribution gaussian",
    ):
        make_trainer(environment, network={"action_distribution": "squashed_gaussian"})
    make_trainer(environment, network={"action_distribution": "state_dependent_gaussian"})


def test_a_state_dependent_gaussian_learns(make_run: Callable[..., Run]) -> None:
    network = {"action_distribution": "state_dependent_gaussian"}
    hyperparameters = {"learning_rate": 3e-3, "beta": 0.0}
    with make_run("identity_continuous", network=network, hyperparameters=hyperparameters, max_steps=20_480) as run:
        run.train()
        assert run.evaluate(episodes=20).behaviors["Agent"].mean_reward > 7.0  # the best is 8; random draws earn 2.7
