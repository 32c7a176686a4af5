# mypy: allow-untyped-calls
"""Continuous actions without bounds in the off-policy template: explored by a Gaussian, refused by a squashed one."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore import BehaviorSettings, Environment, ExtrinsicReward, OneRank, RunConfig, UnsupportedSpace
from rlcore_devkit.conformance.trainer import play
from rlcore_devkit.environments import identity_hybrid
from rlcore_torch import Actor, NetworkSettings, OffPolicySettings, OffPolicyTrainer, Optimizer, SquashedGaussian


class Explorer(OffPolicyTrainer):
    """Explores, and never learns."""

    squashed = False

    def build_model(self, value_heads: int) -> Actor:
        distribution = SquashedGaussian(self.behavior) if self.squashed else None
        return Actor(self.behavior, self.settings.network_settings, distribution)

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        return {"policy": self.make_optimizer(self.model.parameters())}


class SquashedExplorer(Explorer):
    squashed = True


def half_bounded(slots: int) -> Environment:
    """Hybrid actions; the second continuous part has no bounds."""
    environment = identity_hybrid(slots)
    [(name, behavior)] = environment.behaviors.items()
    low, high = np.array([-3.0, -np.inf], np.float32), np.array([5.0, np.inf], np.float32)
    environment.behaviors = {name: attrs.evolve(behavior, low=low, high=high)}
    return environment


def explorer(kind: type[Explorer], environment: Environment) -> Explorer:
    [behavior] = environment.behaviors.values()
    settings = BehaviorSettings(
        trainer_type="explorer",
        hyperparameters=OffPolicySettings(buffer_size=8 * behavior.slots, batch_size=1, buffer_init_steps=10**6),
        network_settings=NetworkSettings(hidden_units=2, num_layers=0),
        reward_signals={"extrinsic": None},
    )
    run: Any = SimpleNamespace(
        config=RunConfig(),
        seed=1,
        ranks=OneRank(),
        first_env=0,
        inference=False,
        create_reward_providers=lambda *_: [ExtrinsicReward()],
    )
    return kind(settings, behavior, run)


def test_the_beginning_is_standard_normal_in_parts_without_bounds() -> None:
    environment = half_bounded(50)
    taken = [actions.continuous for _, actions, _ in play(explorer(Explorer, environment), environment, 100)]
    bounded, unbounded = np.concatenate([part for part in taken if part is not None]).T  # 5000 draws
    assert -3.0 <= bounded.min() < -2.9 and 4.9 < bounded.max() <= 5.0
    assert bounded.std() == pytest.approx(8 / 12**0.5, rel=0.05)
    assert unbounded.mean() == pytest.approx(0.0, abs=0.06) and unbounded.std() == pytest.approx(1.0, rel=0.05)
    assert np.mean(np.abs(unbounded) > 1.96) == pytest.approx(0.05, abs=0.015)


def test_a_squashed_gaussian_is_refused_such_an_action() -> None:
    with pytest.raises(UnsupportedSpace, match=r"part 1 of the 2 .* and explorer acts within bounds only"):
        explorer(SquashedExplorer, half_bounded(2))
