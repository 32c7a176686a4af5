"""EnvironmentConformance fails for an environment that breaks a rule: each is broken once here."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore.contracts.environment import Environment
from rlcore.errors import ConfigError
from rlcore_devkit import EnvironmentConformance, TinyCorridor

CORRIDOR = {"length": (6.0, 4.0), "goal_reward": (1.0, 5.0)}


class ChangedBatches(TinyCorridor):
    def step(self, actions):
        batches = super().step(actions)
        self.change(batches["Corridor"])
        return batches


class NoFinalMask(ChangedBatches):
    def change(self, batch):
        batch.final_action_mask = None


class NoFinalObservations(ChangedBatches):
    def change(self, batch):
        batch.final_observations = None


class FinalNumbersOfAllSlots(ChangedBatches):
    def change(self, batch):
        batch.final_info = {"reward": batch.reward.astype(np.float64)}


class RewardsInTurnsOfOthers(ChangedBatches):
    """Agents act in every second step and are rewarded in every step."""

    def change(self, batch):
        batch.needs_action = (np.arange(self.num_envs) + self._steps) % 2 == 0


class SharesRewardsInTurnsOfOthers(RewardsInTurnsOfOthers):
    def change(self, batch):
        super().change(batch)
        batch.group_reward, batch.reward = batch.reward, np.zeros_like(batch.reward)


class NothingAllowed(TinyCorridor):
    def action_mask(self):
        return np.zeros((self.num_envs, 2), np.bool_)


class LeavesItsBounds(TinyCorridor):
    def observe(self):
        return {"position": super().observe()["position"] * np.float32(0.5)}


class FinalNumbersThatDiffer(ChangedBatches):
    numbers = iter(range(1, 1_000))

    def change(self, batch):
        self.number = getattr(self, "number", None) or float(next(self.numbers))
        batch.final_info = {"number": np.full(len(batch.ended), self.number)}


class BothFlags(ChangedBatches):
    def change(self, batch):
        batch.truncated |= batch.terminated


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


class ClosesOnce(TinyCorridor):
    closed = False

    def close(self):
        if self.closed:
            raise RuntimeError("closed twice")
        self.closed = True


class TakesAnyParameter(TinyCorridor):
    def set_parameters(self, parameters):
        super().set_parameters({name: values for name, values in parameters.items() if name in self.parameters})


class NamesNoKnownParameter(TinyCorridor):
    def set_parameters(self, parameters):
        if "not_a_parameter" in parameters:
            raise ConfigError("unknown: not_a_parameter")
        super().set_parameters(parameters)


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


RULES: dict[str, tuple[type[TinyCorridor], ...]] = {
    "test_batches_have_the_shapes_types_and_flags_of_the_contract": (
        BothFlags, NoFinalMask, NoFinalObservations, FinalNumbersOfAllSlots, RewardsInTurnsOfOthers,
        SharesRewardsInTurnsOfOthers, NothingAllowed,
    ),
    "test_reset_gives_first_observations_without_reward_or_ends": (LeavesItsBounds,),
    "test_equal_seeds_and_actions_give_equal_batches": (FinalNumbersThatDiffer,),
    "test_reset_forgets_what_was_played_before": (GeneratorInOrderOfEvents,),
    "test_an_episode_depends_only_on_its_environment_and_number": (GeneratorInOrderOfEvents,),
    "test_episodes_start_at_the_given_numbers_and_count_up": (ForgetsToCount, KeepsTheArgument),
    "test_a_restored_environment_goes_on_as_if_never_stopped": (ForgetsStepsOnRestore,),
    "test_close_may_be_called_twice": (ClosesOnce,),
    "test_an_unknown_parameter_is_refused_with_the_known_ones": (TakesAnyParameter, NamesNoKnownParameter),
    "test_parameters_decide_what_is_played": (IgnoresParameters, WritesIntoTheCallersArrays),
    "test_parameters_apply_from_the_next_episode_of_an_environment_on": (ChangesOpenEpisodes,),
    "test_an_environment_that_resets_itself_plays_what_a_reset_would_play": (ReadsThemOneEpisodeLate,),
    "test_parameters_are_set_for_each_environment": (OneValueForAll,),
    "test_a_parameter_that_is_not_named_again_stays": (KnowsWhatWasNamedLast,),
    "test_a_restored_environment_has_the_parameters_of_its_open_episodes": (RestoresOtherParameters,),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "broken"), [(rule, each) for rule, classes in RULES.items() for each in classes])
def test_a_broken_rule_is_noticed(broken: type[TinyCorridor], rule: str) -> None:
    class Conformance(EnvironmentConformance):
        parameters = CORRIDOR

        def make(self, num_envs: int) -> Environment:
            more = {"max_steps": 5} if broken is NoFinalMask else {}
            return broken(num_envs, masked=broken in (NoFinalMask, NothingAllowed), **more)

    with pytest.raises((AssertionError, RuntimeError, ValueError, pytest.fail.Exception)):
        getattr(Conformance(), rule)()
