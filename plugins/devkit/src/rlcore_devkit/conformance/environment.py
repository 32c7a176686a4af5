"""The rules of :class:`rlcore.Environment` as tests for authors of environments to inherit.

::

    class TestMyEnvironment(EnvironmentConformance):
        parameters = {"gravity": (9.8, 20.0)}  # two values per parameter with different episodes

        def make(self, num_envs):
            return MyEnvironment(num_envs)
"""

from __future__ import annotations

import numpy as np

from rlcore import Environment, EpisodeSeeds, SavesState
from rlcore_devkit.conformance.environment_parameters import ParameterRules
from rlcore_devkit.conformance.states import assert_equal, check_storable, copied
from rlcore_devkit.playing import SEEN, Batches, check_batch, first_batches, of_env, play, random_actions


class EnvironmentConformance(ParameterRules):
    """Tests of environments: override :meth:`make`, and adjust the attributes of :class:`ParameterRules`."""

    # ------------------------------------------------------------ shapes

    def test_implements_the_environment_protocol(self) -> None:
        environment = self.opened()
        assert isinstance(environment, Environment)
        assert environment.num_envs == self.num_envs
        assert environment.behaviors
        for name, spec in environment.behaviors.items():
            assert spec.name == name
            assert spec.observations, "a behavior needs at least one observation"
            assert spec.continuous or spec.discrete, "a behavior needs an action"
            assert spec.low.shape == spec.high.shape == (spec.continuous,)
            assert (spec.low < spec.high).all()
            assert (spec.env_index >= 0).all()
            assert (spec.env_index < self.num_envs).all()

    def test_reset_gives_first_observations_without_reward_or_ends(self) -> None:
        environment = self.opened()
        batches = first_batches(environment)
        assert set(batches) == set(environment.behaviors)
        for name, batch in batches.items():
            check_batch(environment.behaviors[name], batch)
            assert not batch.reward.any()
            assert not batch.ended.size

    def test_batches_have_the_shapes_types_and_flags_of_the_contract(self) -> None:
        environment = self.opened()
        ends = 0
        for batches in play(environment, self.steps):
            for name, batch in batches.items():
                check_batch(environment.behaviors[name], batch)
                ends += len(batch.ended)
        enough = ends or not self.episodes_end
        assert enough, f"no episode ended within {self.steps} steps; set `steps` higher"

    # ------------------------------------------------------------ episodes and seeds

    def test_episodes_start_at_the_given_numbers_and_count_up(self) -> None:
        environment = self.opened()
        numbers = np.arange(self.num_envs, dtype=np.int64) + 5
        expected = numbers.tolist()
        batches: Batches = environment.reset(EpisodeSeeds(1), numbers)
        assert environment.episodes.tolist() == expected
        before = environment.episodes.copy()
        generator = np.random.default_rng(0)
        for _ in range(self.steps):
            actions = random_actions(environment.behaviors, batches, generator)
            batches = environment.step(actions)
            ended = np.zeros(self.num_envs, np.bool_)
            for name, batch in batches.items():
                env_index = environment.behaviors[name].env_index
                envs = env_index[batch.ended]
                ended[envs] = True
            after = environment.episodes.copy()
            assert (after >= before).all()
            assert (after <= before + 1).all()
            began = after > before
            too_early = began & ~ended
            assert not too_early.any(), "an environment started an episode before its agents ended theirs"
            before = after
        assert numbers.tolist() == expected, "reset must not keep or change its argument"

    def test_equal_seeds_and_actions_give_equal_batches(self) -> None:
        if self.deterministic:
            self._assert_play_alike(self.opened(), self.opened())

    def test_reset_forgets_what_was_played_before(self) -> None:
        if not self.deterministic:
            return
        environment = self.opened()
        fresh = [copied(batches) for batches in play(environment, 10)]
        for _ in play(environment, 7, run_seed=2):
            pass
        repeated = [copied(batches) for batches in play(environment, 10)]
        assert_equal(fresh, repeated)

    def test_an_episode_depends_only_on_its_environment_and_number(self) -> None:
        """An episode that the environment starts by itself equals the episode with this number after a reset.

        An agent may end its episode before others of its environment; the environment has started no episode then.
        """
        if self.one_generator or not self.deterministic:
            return
        environment = self.opened()
        other = self.opened()
        checked = 0
        before = np.zeros(self.num_envs, np.int64)
        for batches in play(environment, self.steps):
            began = environment.episodes > before  # [N]
            before = environment.episodes.copy()
            if not began.any():
                continue
            fresh = other.reset(EpisodeSeeds(1), environment.episodes)
            for env in np.flatnonzero(began).tolist():
                ours = of_env(environment.behaviors, batches, env, SEEN)
                theirs = of_env(environment.behaviors, fresh, env, SEEN)
                assert_equal(ours, theirs, "the episode differs from that with this number after a reset")
            checked += 1
        assert checked or not self.episodes_end

    # ------------------------------------------------------------ saving and closing

    def test_close_may_be_called_twice(self) -> None:
        environment = self.opened()
        first_batches(environment)
        environment.close()
        environment.close()

    def test_a_restored_environment_goes_on_as_if_never_stopped(self) -> None:
        environment = self.opened()
        if not isinstance(environment, SavesState):
            return
        *_, batches = play(environment, self.steps // 2)
        last: Batches = copied(batches)
        state = environment.state_dict()
        check_storable(state)
        restored = self.opened()
        assert isinstance(restored, SavesState)
        first = restored.load_state_dict(state)
        assert restored.episodes.tolist() == environment.episodes.tolist()
        for name, batch in first.items():
            check_batch(restored.behaviors[name], batch)
            assert_equal(batch.observations, last[name].observations)
            assert_equal(batch.action_mask, last[name].action_mask)
        self._assert_step_alike(environment, restored, last)
