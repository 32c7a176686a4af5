"""The rules of :class:`rlcore.RewardProvider` as tests for authors of reward providers to inherit.

::

    class TestMyReward(RewardProviderConformance):
        reward = "acme-rewards/novelty"
        settings = {"strength": 0.5}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    BehaviorSettings,
    BehaviorSpec,
    RewardProvider,
    RewardProviderSpec,
    RunConfig,
    RunContext,
    Transitions,
    recording_gradients,
)
from rlcore_devkit.conformance.rules import RecordRules
from rlcore_devkit.conformance.states import assert_equal, assert_resumes, check_statistics
from rlcore_devkit.environments import identity_hybrid
from rlcore_devkit.playing import random_observations

Array = NDArray[Any]


class RewardProviderConformance(RecordRules):
    """Tests of reward providers: set ``reward``.

    Attributes:
        reward: The reward, NAME or DIST/NAME, as installed.
        settings: The block of the reward under ``reward_signals``.
        slots: S, the number of slots of the behavior.
        rows: T, the steps of a rollout.
        skip: Names of tests that cannot hold, with the reason.
    """

    record_class = RewardProviderSpec
    named = "reward"
    reward: ClassVar[str] = ""
    slots: ClassVar[int] = 3
    rows: ClassVar[int] = 5

    def behavior(self) -> BehaviorSpec:
        """The behavior of the transitions: vector and one-hot observations, real and discrete actions."""
        [behavior] = identity_hybrid(self.slots).behaviors.values()
        return behavior

    def make(self, **settings: Any) -> RewardProvider:
        """Create the provider; ``settings`` override those of the class."""
        behavior = self.behavior()
        block = self.block(**settings)
        behavior_settings = BehaviorSettings(reward_signals={self.reward: block})
        config = RunConfig(behaviors={behavior.name: behavior_settings})
        run = RunContext(config, self.plugins(), self.directory, 1, self.slots)
        [provider] = run.create_reward_providers(behavior, behavior_settings)
        return provider

    def transitions(self, seed: int = 0) -> Transitions:
        """Return a random rollout, [rows, slots]."""
        return random_transitions(self.behavior(), (self.rows, self.slots), seed)

    def test_has_the_discount_and_strength_it_was_given(self) -> None:
        provider = self.make(gamma=0.5, strength=0.25)
        _, _, name = self.reward.rpartition("/")
        assert provider.name == name
        assert provider.gamma == 0.5
        assert provider.strength == 0.25
        assert isinstance(provider.ignore_done, bool)

    def test_rewards_are_finite_and_one_for_each_transition(self) -> None:
        reward = evaluate(self.make(), self.transitions())
        assert reward.shape == (self.rows, self.slots)
        assert reward.dtype == np.float32
        assert np.isfinite(reward).all()

    def test_a_minibatch_is_rewarded_like_the_rollout_it_is_of(self) -> None:
        rollout = self.transitions()
        minibatch = flattened(rollout)
        expected = evaluate(self.make(), rollout).reshape(-1)
        reward = evaluate(self.make(), minibatch)
        np.testing.assert_allclose(reward, expected, rtol=1e-5, atol=1e-6)

    def test_an_update_does_not_depend_on_the_shape_that_transitions_in_order_have(self) -> None:
        """A rollout is [N] with slots instead of [T, S] where agents do not act together."""
        provider = self.make()
        other = self.make()
        rollout = self.transitions()
        update(provider, rollout)
        update(other, in_one_row(rollout))
        expected = evaluate(provider, rollout)
        reward = evaluate(other, rollout)
        np.testing.assert_allclose(reward, expected, rtol=1e-5, atol=1e-6)

    def test_an_update_takes_a_minibatch_beside_what_was_collected_or_beside_nothing_new(self) -> None:
        provider = self.make()
        for collected in (self.transitions(1), None):
            minibatch = flattened(self.transitions(2))
            minibatch.collecting = lambda collected=collected: collected
            stats = update(provider, minibatch)
            values = list(stats.values())
            assert np.isfinite(values).all()
        reward = evaluate(provider, self.transitions(3))
        assert np.isfinite(reward).all()

    def test_what_it_is_shown_stays_as_it_is(self) -> None:
        provider = self.make()
        rollout = self.transitions()
        evaluate(provider, rollout)
        update(provider, rollout)
        equal_rollout = self.transitions()
        assert_equal(arrays_of(rollout), arrays_of(equal_rollout), "the provider changed its argument")

    def test_an_update_returns_finite_scalars_by_tag(self) -> None:
        check_statistics(update(self.make(), self.transitions()))

    def test_goes_on_from_its_state_as_if_never_stopped(self) -> None:
        provider = self.make()
        self._learn(provider, range(3))

        def continue_from(provider: RewardProvider) -> list[Any]:
            return self._learn(provider, range(3, 6))

        assert_resumes(provider, self.make(), self.directory, continue_from)

    def _learn(self, provider: RewardProvider, seeds: Iterable[int]) -> list[Any]:
        """Evaluate and update with a rollout of each seed; return the results."""
        results: list[Any] = []
        for seed in seeds:
            rollout = self.transitions(seed)
            reward = evaluate(provider, rollout)
            stats = update(provider, rollout)
            results += [reward, stats]
        return results


def random_transitions(behavior: BehaviorSpec, lead: tuple[int, ...], seed: int = 0) -> Transitions:
    """Return transitions with random values and the leading shape ``lead``."""
    generator = np.random.default_rng(seed)
    rows = prod(lead)

    def draw() -> dict[str, Array]:
        observations = random_observations(behavior, rows, generator)
        for name, array in observations.items():
            observations[name] = array.reshape(*lead, *array.shape[1:])
        return observations

    observations = draw()
    next_observations = draw()
    actions = Actions()
    if behavior.continuous:
        reals = generator.uniform(-1.0, 1.0, (*lead, behavior.continuous))
        actions.continuous = reals.astype(np.float32)
    if behavior.discrete:
        branches = len(behavior.discrete)
        actions.discrete = generator.integers(behavior.discrete, size=(*lead, branches))
    terminated, truncated = generator.random((2, *lead)) < 0.2
    reward = generator.standard_normal(lead)
    return Transitions(
        observations=observations,
        actions=actions,
        reward=reward.astype(np.float32),
        terminated=terminated,
        truncated=truncated & ~terminated,
        following=lambda: next_observations,
    )


def evaluate(provider: RewardProvider, transitions: Transitions) -> NDArray[np.float32]:
    """Call ``evaluate`` as a trainer does."""
    with recording_gradients(False):
        return provider.evaluate(transitions)


def update(provider: RewardProvider, transitions: Transitions) -> Mapping[str, float]:
    """Call ``update`` as a trainer does."""
    with recording_gradients(True):
        return provider.update(transitions)


def arrays_of(transitions: Transitions) -> dict[str, Any]:
    """Return the arrays that a provider sees."""
    names = ("observations", "next_observations", "actions", "reward", "terminated", "truncated")
    return {name: getattr(transitions, name) for name in names}


def in_one_row(transitions: Transitions) -> Transitions:
    """Return a rollout [T, S] as [N] with the slot of each transition."""
    rows, slots = transitions.reward.shape
    row = flattened(transitions)
    all_slots = np.arange(slots)
    row.slot = np.tile(all_slots, rows)
    return row


def flattened(transitions: Transitions) -> Transitions:
    """Flatten the first two axes: return the transitions as [rows * slots]."""

    def flat(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: flat(array) for name, array in value.items()}
        if value is None:
            return None
        return value.reshape(-1, *value.shape[2:])

    actions = transitions.actions
    return Transitions(
        observations=flat(transitions.observations),
        actions=Actions(flat(actions.continuous), flat(actions.discrete)),
        reward=flat(transitions.reward),
        terminated=flat(transitions.terminated),
        truncated=flat(transitions.truncated),
        following=lambda: flat(transitions.next_observations),
    )
