"""The rules of :class:`rlcore.RewardProvider` as tests for authors of reward providers to inherit.

::

    class TestMyReward(RewardProviderConformance):
        reward = "acme-rewards/novelty"
        settings = {"strength": 0.5}
"""

from __future__ import annotations

from collections.abc import Mapping
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
    load_checkpoint,
    recording_gradients,
    save_checkpoint,
)
from rlcore_devkit.conformance.rules import RecordRules
from rlcore_devkit.environments import identity_hybrid


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
        plugins = self.plugins()
        behavior = self.behavior()
        learning = BehaviorSettings(reward_signals={self.reward: self.block(**settings)})
        run = RunContext(RunConfig(behaviors={behavior.name: learning}), plugins, self.directory, 1, self.slots)
        [provider] = run.create_reward_providers(behavior, learning)
        return provider

    def transitions(self, seed: int = 0) -> Transitions:
        """Return a random rollout, [rows, slots]."""
        return random_transitions(self.behavior(), (self.rows, self.slots), seed)

    def test_has_the_discount_and_strength_it_was_given(self) -> None:
        provider = self.make(gamma=0.5, strength=0.25)
        assert provider.name == self.reward.rpartition("/")[2]
        assert (provider.gamma, provider.strength) == (0.5, 0.25)
        assert isinstance(provider.ignore_done, bool)

    def test_rewards_are_finite_and_one_for_each_transition(self) -> None:
        given = self.transitions()
        reward = evaluate(self.make(), given)
        assert reward.shape == (self.rows, self.slots) and reward.dtype == np.float32
        assert np.isfinite(reward).all()

    def test_a_minibatch_is_rewarded_like_the_rollout_it_is_of(self) -> None:
        given = self.transitions()
        flat = first_axes_joined(given)
        np.testing.assert_allclose(
            evaluate(self.make(), flat), evaluate(self.make(), given).reshape(-1), rtol=1e-5, atol=1e-6
        )

    def test_an_update_does_not_depend_on_the_shape_that_transitions_in_order_have(self) -> None:
        """A rollout is [N] with slots instead of [T, S] where agents do not act together."""
        provider = self.make()
        other = self.make()
        given = self.transitions()
        update(provider, given)
        update(other, in_one_row(given))
        np.testing.assert_allclose(evaluate(other, given), evaluate(provider, given), rtol=1e-5, atol=1e-6)

    def test_an_update_takes_a_minibatch_beside_what_was_collected_or_beside_nothing_new(self) -> None:
        provider = self.make()
        for new in (self.transitions(1), None):
            minibatch = first_axes_joined(self.transitions(2))
            minibatch.collecting = lambda new=new: new
            stats = update(provider, minibatch)
            assert np.isfinite(list(stats.values())).all()
        assert np.isfinite(evaluate(provider, self.transitions(3))).all()

    def test_what_it_is_shown_stays_as_it_is(self) -> None:
        provider = self.make()
        given = self.transitions()
        untouched = self.transitions()
        evaluate(provider, given)
        update(provider, given)
        for ours, theirs in zip(arrays_of(given), arrays_of(untouched), strict=True):
            np.testing.assert_array_equal(ours, theirs)

    def test_an_update_returns_finite_scalars_by_tag(self) -> None:
        stats = update(self.make(), self.transitions())
        assert all(isinstance(tag, str) and np.isfinite(value) for tag, value in stats.items())

    def test_goes_on_from_its_state_as_if_never_stopped(self) -> None:
        provider = self.make()
        resumed = self.make()
        for seed in range(3):
            evaluate(provider, self.transitions(seed))
            update(provider, self.transitions(seed))
        path = save_checkpoint(self.directory, 1, {"provider": provider.state_dict()})
        resumed.load_state_dict(load_checkpoint(path)["provider"])
        for seed in range(3, 6):
            given = self.transitions(seed)
            np.testing.assert_array_equal(evaluate(provider, given), evaluate(resumed, given))
            assert dict(update(provider, given)) == dict(update(resumed, given))


def random_transitions(behavior: BehaviorSpec, lead: tuple[int, ...], seed: int = 0) -> Transitions:
    """Return transitions with random values and the leading shape ``lead``."""
    random = np.random.default_rng(seed)

    def values() -> dict[str, Any]:
        return {
            o.name: (random.random((*lead, *o.shape)) * (255 if o.dtype.kind == "u" else 1)).astype(o.dtype)
            for o in behavior.observations
        }

    terminated = random.random(lead) < 0.2
    observations = values()
    following = values()
    return Transitions(
        observations=observations,
        actions=Actions(
            random.uniform(-1, 1, (*lead, behavior.continuous)).astype(np.float32) if behavior.continuous else None,
            random.integers(behavior.discrete, size=(*lead, len(behavior.discrete))) if behavior.discrete else None,
        ),
        reward=random.standard_normal(lead).astype(np.float32),
        terminated=terminated,
        truncated=(random.random(lead) < 0.2) & ~terminated,
        following=lambda: following,
    )


def evaluate(provider: RewardProvider, transitions: Transitions) -> NDArray[np.float32]:
    """Call ``evaluate`` as a trainer does."""
    with recording_gradients(False):
        return provider.evaluate(transitions)


def update(provider: RewardProvider, transitions: Transitions) -> Mapping[str, float]:
    """Call ``update`` as a trainer does."""
    with recording_gradients(True):
        return provider.update(transitions)


def arrays_of(transitions: Transitions) -> list[Any]:
    actions = (transitions.actions.continuous, transitions.actions.discrete)
    return [
        *transitions.observations.values(),
        *transitions.next_observations.values(),
        *(part for part in actions if part is not None),
        transitions.reward,
        transitions.terminated,
        transitions.truncated,
    ]


def in_one_row(transitions: Transitions) -> Transitions:
    """Return a rollout [T, S] as [N] with the slot of each transition."""
    joined = first_axes_joined(transitions)
    rows, slots = transitions.reward.shape
    joined.slot = np.tile(np.arange(slots), rows)
    return joined


def first_axes_joined(transitions: Transitions) -> Transitions:
    """Flatten the first two axes: return the transitions as [rows * slots]."""

    def joined(array: Any) -> Any:
        return None if array is None else array.reshape(-1, *array.shape[2:])

    return Transitions(
        observations={name: joined(array) for name, array in transitions.observations.items()},
        actions=Actions(joined(transitions.actions.continuous), joined(transitions.actions.discrete)),
        reward=joined(transitions.reward),
        terminated=joined(transitions.terminated),
        truncated=joined(transitions.truncated),
        following=lambda: {name: joined(array) for name, array in transitions.next_observations.items()},
    )
