"""EnvironmentConformance fails for an environment that breaks a rule: each is broken once here."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore.environment import Environment
from rlcore.testing import EnvironmentConformance, TinyCorridor


class StaleFinalObservation(TinyCorridor):
    def step(self, actions):
        batches = super().step(actions)
        for batch in batches.values():
            batch.final_observations = None
        return batches


class BothFlags(TinyCorridor):
    def step(self, actions):
        batches = super().step(actions)
        for batch in batches.values():
            batch.truncated |= batch.terminated
        return batches


class Doubles(TinyCorridor):
    def observe(self):
        return {name: array.astype(np.float64) for name, array in super().observe().items()}


class GeneratorInOrderOfEvents(TinyCorridor):
    def begin(self, copy, generator):
        self.order = getattr(self, "order", np.random.default_rng(0))
        super().begin(copy, self.order)


class ForgetsToCount(TinyCorridor):
    def reset(self, seeds, episodes, parameters=None):
        return super().reset(seeds, np.zeros_like(episodes), parameters)


class KeepsTheArgument(TinyCorridor):
    def reset(self, seeds, episodes, parameters=None):
        batches = super().reset(seeds, episodes, parameters)
        self.episodes = episodes
        return batches


class ForgetsStepsOnRestore(TinyCorridor):
    def load_state_dict(self, state):
        return super().load_state_dict({**state, "steps": np.zeros(self.num_envs, np.int64)})


class NothingAllowed(TinyCorridor):
    def action_mask(self):
        return np.zeros((self.num_envs, 2), np.bool_)


class ClosesOnce(TinyCorridor):
    closed = False

    def close(self):
        if self.closed:
            raise RuntimeError("closed twice")
        self.closed = True


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (StaleFinalObservation, "test_batches_have_the_shapes_types_and_flags_of_the_contract"),
        (BothFlags, "test_batches_have_the_shapes_types_and_flags_of_the_contract"),
        (Doubles, "test_reset_gives_first_observations_without_reward_or_ends"),
        (NothingAllowed, "test_batches_have_the_shapes_types_and_flags_of_the_contract"),
        (GeneratorInOrderOfEvents, "test_reset_forgets_what_was_played_before"),
        (GeneratorInOrderOfEvents, "test_an_episode_depends_on_its_copy_and_number_only"),
        (ForgetsToCount, "test_episodes_start_at_the_given_numbers_and_count_up"),
        (KeepsTheArgument, "test_episodes_start_at_the_given_numbers_and_count_up"),
        (ForgetsStepsOnRestore, "test_a_restored_environment_goes_on_as_if_never_stopped"),
        (ClosesOnce, "test_close_may_be_called_twice"),
    ],
)
def test_a_broken_rule_is_noticed(broken: type[TinyCorridor], rule: str) -> None:
    class Conformance(EnvironmentConformance):
        def make(self, num_envs: int) -> Environment:
            return broken(num_envs, masked=broken is NothingAllowed)

    with pytest.raises((AssertionError, RuntimeError)):
        getattr(Conformance(), rule)()
