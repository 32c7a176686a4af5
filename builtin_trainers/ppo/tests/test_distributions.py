# mypy: allow-untyped-calls
"""PPO with the distributions of rlcore: probabilities, resuming, bounds, learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rlcore import EpisodeSeeds
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
