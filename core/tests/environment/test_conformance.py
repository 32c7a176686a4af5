"""EnvironmentConformance fails for an environment that breaks a rule: each is broken once here."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from rlcore.contracts.environment import Environment
from rlcore.errors import ConfigError
from rlcore_devkit import EnvironmentConformance, TinyCorridor

CORRIDOR = {"length": (6.0, 4.0), "goal_reward": (1.0, 5.0)}


class StaleFinalObservation(TinyCorridor):
    def step(self, actions):
        batches = super().step(actions)
        for batch in batches.values():
            batch.final_observations = None
        return batches


class NoFinalMask(TinyCorridor):
    def step(self, actions):
        batches = super().step(actions)
        for batch in batches.values():
            batch.final_action_mask = None
        return batches


class LeavesItsBounds(TinyCorridor):
    def observe(self):
        return {"position": super().observe()["position"] * np.float32(0.5)}


class LeavesItsBoundsAtTheEnd(TinyCorridor):
    def step(self, actions):
        batches = super().step(actions)
        for name, batch in batches.items():
            spec = self.behaviors[name]
            (observation,) = spec.observations
            bounded = attrs.evolve(observation, kind="vector", low=0.0, high=1.0)
            self.behaviors = {name: attrs.evolve(spec, observations=(bounded,))}
            if batch.final_observations:
                batch.final_observations["position"][:] = 2.0
        return batches


class FinalNumbersOfAllSlots(TinyCorridor):
    def step(self, actions):
        batches = super().step(actions)
        for batch in batches.values():
            batch.final_info = {"reward": batch.reward.astype(np.float64)}
        return batches


class FinalNumbersThatDiffer(TinyCorridor):
    made = 0

    def step(self, actions):
        batches = super().step(actions)
        if not hasattr(self, "number"):
            type(self).made += 1
            self.number = float(self.made)
        for batch in batches.values():
            batch.final_info = {"number": np.full(len(batch.ended), self.number)}
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
    def begin(self, env, generator):
        self.order = getattr(self, "order", np.random.default_rng(0))
        super().begin(env, self.order)


class ForgetsToCount(TinyCorridor):
    def reset(self, seeds, episodes):
        return super().reset(seeds, np.zeros_like(episodes))


class KeepsTheArgument(TinyCorridor):
    def reset(self, seeds, episodes):
        batches = super().reset(seeds, episodes)
        self.episodes = episodes
        return batches


class ForgetsStepsOnRestore(TinyCorridor):
    def load_state_dict(self, state):
        return super().load_state_dict({**state, "steps": np.zeros(self.num_envs, np.int64)})


class RewardsInTurnsOfOthers(TinyCorridor):
    """Agents act in every second step and are rewarded in every step."""

    shared = False

    def step(self, actions):
        batches = super().step(actions)
        for batch in batches.values():
            batch.needs_action = (np.arange(self.num_envs) + self._steps) % 2 == 0
            if self.shared:
                batch.group_reward, batch.reward = batch.reward, np.zeros_like(batch.reward)
        return batches


class SharesRewardsInTurnsOfOthers(RewardsInTurnsOfOthers):
    shared = True


class NothingAllowed(TinyCorridor):
    def action_mask(self):
        return np.zeros((self.num_envs, 2), np.bool_)


class ClosesOnce(TinyCorridor):
    closed = False

    def close(self):
        if self.closed:
            raise RuntimeError("closed twice")
        self.closed = True


class TakesAnyParameter(TinyCorridor):
    def set_parameters(self, parameters):
        super().set_parameters({name: values for name, values in parameters.items() if name in self.parameters})


class KeepsQuietAboutWhatThereIs(TinyCorridor):
    def set_parameters(self, parameters):
        try:
            super().set_parameters(parameters)
        except ConfigError as error:
            raise ConfigError("unknown: not_a_parameter") from error


class IgnoresParameters(TinyCorridor):
    def set_parameters(self, parameters):
        super().set_parameters({name: self.parameters[name] for name in parameters if name in self.parameters})


class ChangesOpenEpisodes(TinyCorridor):
    def set_parameters(self, parameters):
        super().set_parameters(parameters)
        for name, values in parameters.items():
            self.parameters[name][:] = values


class ReadsThemOneEpisodeLate(TinyCorridor):
    """A reset takes the new values; an environment that starts an episode by itself keeps the old ones."""

    def _begin(self, env):
        told = {name: values.copy() for name, values in self._next_parameters.items()}
        if self._steps[env]:
            self._next_parameters |= {name: values.copy() for name, values in self.parameters.items()}
        super()._begin(env)
        self._next_parameters = told


class OneValueForAll(TinyCorridor):
    def set_parameters(self, parameters):
        super().set_parameters({name: np.full_like(values, values[0]) for name, values in parameters.items()})


class KnowsWhatWasNamedLast(TinyCorridor):
    def set_parameters(self, parameters):
        defaults = {"length": np.full(self.num_envs, 6.0), "goal_reward": np.ones(self.num_envs)}
        super().set_parameters({**defaults, **parameters})


class WritesIntoTheCallersArrays(TinyCorridor):
    def set_parameters(self, parameters):
        super().set_parameters(parameters)
        for values in parameters.values():
            values[:] = 0.0


class RestoresOtherParameters(TinyCorridor):
    def load_state_dict(self, state):
        return super().load_state_dict({**state, "parameters": state["next_parameters"] | {"goal_reward": 7.0}})


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (StaleFinalObservation, "test_batches_have_the_shapes_types_and_flags_of_the_contract"),
        (LeavesItsBounds, "test_reset_gives_first_observations_without_reward_or_ends"),
        (LeavesItsBoundsAtTheEnd, "test_batches_have_the_shapes_types_and_flags_of_the_contract"),
        (FinalNumbersOfAllSlots, "test_batches_have_the_shapes_types_and_flags_of_the_contract"),
        (FinalNumbersThatDiffer, "test_equal_seeds_and_actions_give_equal_batches"),
        (BothFlags, "test_batches_have_the_shapes_types_and_flags_of_the_contract"),
        (Doubles, "test_reset_gives_first_observations_without_reward_or_ends"),
        (RewardsInTurnsOfOthers, "test_batches_have_the_shapes_types_and_flags_of_the_contract"),
        (SharesRewardsInTurnsOfOthers, "test_batches_have_the_shapes_types_and_flags_of_the_contract"),
        (NoFinalMask, "test_batches_have_the_shapes_types_and_flags_of_the_contract"),
        (NothingAllowed, "test_batches_have_the_shapes_types_and_flags_of_the_contract"),
        (GeneratorInOrderOfEvents, "test_reset_forgets_what_was_played_before"),
        (GeneratorInOrderOfEvents, "test_an_episode_depends_only_on_its_environment_and_number"),
        (ForgetsToCount, "test_episodes_start_at_the_given_numbers_and_count_up"),
        (KeepsTheArgument, "test_episodes_start_at_the_given_numbers_and_count_up"),
        (ForgetsStepsOnRestore, "test_a_restored_environment_goes_on_as_if_never_stopped"),
        (ClosesOnce, "test_close_may_be_called_twice"),
        (TakesAnyParameter, "test_an_unknown_parameter_is_refused_with_the_known_ones"),
        (KeepsQuietAboutWhatThereIs, "test_an_unknown_parameter_is_refused_with_the_known_ones"),
        (IgnoresParameters, "test_parameters_decide_what_is_played"),
        (WritesIntoTheCallersArrays, "test_parameters_decide_what_is_played"),
        (ChangesOpenEpisodes, "test_parameters_apply_from_the_next_episode_of_an_environment_on"),
        (ReadsThemOneEpisodeLate, "test_an_environment_that_resets_itself_plays_what_a_reset_would_play"),
        (OneValueForAll, "test_parameters_are_set_for_each_environment"),
        (KnowsWhatWasNamedLast, "test_a_parameter_that_is_not_named_again_stays"),
        (RestoresOtherParameters, "test_a_restored_environment_has_the_parameters_of_its_open_episodes"),
    ],
)
def test_a_broken_rule_is_noticed(broken: type[TinyCorridor], rule: str) -> None:
    class Conformance(EnvironmentConformance):
        parameters = CORRIDOR

        def make(self, num_envs: int) -> Environment:
            more = {"max_steps": 5} if broken is NoFinalMask else {}
            return broken(num_envs, masked=broken in (NothingAllowed, NoFinalMask), **more)

    with pytest.raises((AssertionError, RuntimeError, ValueError)):
        getattr(Conformance(), rule)()
