# mypy: allow-untyped-calls
"""The values and returns that SAC learns, on environments whose values and best returns are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore import Actions, BehaviorSpec, ObservationSpec
from rlcore_devkit.conformance.trainer import learn
from rlcore_devkit.environments import (
    ArrayEnvironment,
)
from rlcore_sac.trainer import SACTrainer

MakeTrainer = Callable[..., SACTrainer]

# A temperature so small that the soft value is the value.
VALUES = {"init_entcoef": 1e-6, "learn_entcoef": False, "tau": 0.1, "learning_rate": 5e-3, "adam_epsilon": 1e-5}


def discounted(gamma: float) -> Mapping[str, Any]:
    return {"reward_signals": {"extrinsic": {"gamma": gamma}}}


class Roundabout(ArrayEnvironment):
    """Two places in turn, each with two options of its own: the first pays, and a time limit comes after two steps."""

    PAY = np.array([[1.0, 0.2, -5.0, -5.0], [-5.0, -5.0, 0.5, 0.0]])  # -5: forbidden

    def __init__(self, num_envs: int) -> None:
        self.place = np.zeros(num_envs, np.int64)
        seen = ObservationSpec("place", (2,), np.float32, "one_hot")
        super().__init__(BehaviorSpec("Agent", (seen,), discrete=(4,), env_index=np.arange(num_envs)), max_steps=2)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self.place[env] = generator.integers(2)

    def advance(self, actions: Actions) -> tuple[NDArray[Any], NDArray[Any]]:
        assert actions.discrete is not None
        reward = self.PAY[self.place, actions.discrete[:, 0]]
        self.place = 1 - self.place
        return reward, np.zeros(self.num_envs, np.bool_)

    def observe(self) -> dict[str, NDArray[Any]]:
        return {"place": np.eye(2, dtype=np.float32)[self.place]}

    def action_mask(self) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self.PAY[self.place] > -5.0
        return mask


def test_what_a_time_limit_cuts_off_is_valued_by_what_is_allowed_there(make_trainer: MakeTrainer) -> None:
    """Half of the steps lead to a time limit, whose state has an action mask of its own."""
    environment = Roundabout(4)
    trainer = make_trainer(environment, block=discounted(0.9), **VALUES)
    learn(trainer, environment, 200)
    best = np.array([(1 + 0.9 * 0.5) / 0.19, (0.5 + 0.9) / 0.19])  # v0 = 1 + 0.9 v1 and v1 = 0.5 + 0.9 v0
    expected = Roundabout.PAY + 0.9 * best[::-1, None]
    allowed = Roundabout.PAY > -5.0
    with torch.no_grad():
        for found in trainer.model.q_values(trainer.model.critics, (torch.eye(2),), None):
            np.testing.assert_allclose(found[:, 0].numpy()[allowed], expected[allowed], rtol=0.05)
