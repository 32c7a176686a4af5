"""The environments of rlcore_devkit obey the contract and pay what they promise."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from rlcore.contracts.batches import Actions
from rlcore.contracts.environment import Environment
from rlcore.contracts.seeding import EpisodeSeeds
from rlcore_devkit import EnvironmentConformance, IdentityEnvironment, TinyCorridor, tiny_env
from rlcore_devkit.environments import (
    identity_continuous,
    identity_discrete,
    identity_hybrid,
    identity_multi_binary,
    identity_multi_branch,
)

IDENTITIES = [
    identity_discrete, identity_multi_branch, identity_multi_binary, identity_continuous, identity_hybrid,
]  # fmt: skip


class TestCorridor(EnvironmentConformance):
    parameters: ClassVar = {"length": (6.0, 4.0), "goal_reward": (1.0, 5.0)}

    def make(self, num_envs: int) -> Environment:
        return tiny_env(num_envs)


class TestMaskedCorridor(EnvironmentConformance):
    parameters: ClassVar = {"length": (3.0, 5.0)}

    def make(self, num_envs: int) -> Environment:
        return TinyCorridor(num_envs, masked=True)


class TestIdentityHybrid(EnvironmentConformance):
    def make(self, num_envs: int) -> Environment:
        return identity_hybrid(num_envs)


def matching(environment: IdentityEnvironment, seen: dict[str, np.ndarray]) -> Actions:
    """The actions that equal what is seen, read from the observations alone."""
    spec = environment.behaviors["Identity"]
    actions = Actions(continuous=seen.get("reals"))
    if spec.discrete:
        edges = np.cumsum(spec.discrete)[:-1]
        branches = np.split(seen["choices"], edges, axis=1)
        actions.discrete = np.stack([branch.argmax(axis=1) for branch in branches], axis=1)
    return actions


@pytest.mark.parametrize("make", IDENTITIES, ids=lambda make: make.__name__)
def test_identity_rewards_exactly_the_action_that_equals_the_observation(make) -> None:
    environment = make(3)
    batch = environment.reset(EpisodeSeeds(4), np.zeros(3, np.int64))["Identity"]
    for step in range(1, 17):
        right = matching(environment, batch.observations)
        batch = environment.step({"Identity": right})["Identity"]
        np.testing.assert_allclose(batch.reward, 1.0, rtol=1e-6)
        assert batch.terminated.all() == (step % 8 == 0) and not batch.truncated.any()
    wrong = matching(environment, batch.observations)
    if wrong.continuous is not None:
        wrong.continuous = -np.sign(wrong.continuous)
    if wrong.discrete is not None:
        wrong.discrete = (wrong.discrete + 1) % np.array(environment.behaviors["Identity"].discrete)
    assert (environment.step({"Identity": wrong})["Identity"].reward <= 0.0 + 1e-6).all()


RIGHT, LEFT = (Actions(discrete=np.full((3, 1), choice, np.int64)) for choice in (1, 0))


def test_corridor_pays_one_at_its_end_and_a_hundredth_for_each_step_before() -> None:
    environment = TinyCorridor(num_envs=1, length=6)
    batch = environment.reset(EpisodeSeeds(0), np.zeros(1, np.int64))["Corridor"]
    cells = 5 - int(batch.observations["position"][0].argmax())
    total = 0.0
    for _ in range(cells):
        batch = environment.step({"Corridor": RIGHT.take(np.array([0]))})["Corridor"]
        total += float(batch.reward[0])
    assert batch.terminated[0] and not batch.truncated[0]
    assert batch.final_observations["position"][0].argmax() == 5 != batch.observations["position"][0].argmax()
    assert total == pytest.approx(1.0 - 0.01 * (cells - 1))
