"""Expected returns of distributions and of dueling streams, on a task whose return is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.environments import ConstantReward
from rlcore_dqn.trainer import DQNTrainer


@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [
        ({"distributional": "quantile", "num_quantiles": 8}, 0.15),
        ({"distributional": "c51", "num_atoms": 21, "v_min": -1.0, "v_max": 3.0}, 0.15),
        ({"dueling": True}, 0.15),
    ],
    ids=["quantile", "c51", "dueling"],
)
def test_expected_returns_are_those_of_a_task_whose_return_is_known(
    make_trainer: Callable[..., DQNTrainer], settings: Any, tolerance: float
) -> None:
    """A reward of 1 in each step and time limits alone: the value is 1 / (1 - 0.5) everywhere."""
    environment = ConstantReward(4, max_steps=3)
    trainer = make_trainer(
        environment,
        block={"reward_signals": {"extrinsic": {"gamma": 0.5}}},
        target_update_interval=20,
        steps_per_update=2,
        **settings,
    )
    learn(trainer, environment, 120)
    batch = trainer.reader.read(np.flatnonzero(trainer.buffer.flags))
    with torch.no_grad():
        _, values = trainer.model.policy(batch.inputs)
    assert values is not None
    np.testing.assert_allclose(values.numpy(), 2.0, atol=tolerance)
