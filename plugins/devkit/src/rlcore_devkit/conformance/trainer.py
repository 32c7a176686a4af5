"""The rules of :class:`rlcore.Trainer` as tests for authors of trainers to inherit.

::

    class TestMyTrainer(TrainerConformance):
        trainer = "acme-ppo/ppo"
        hyperparameters = {"buffer_size": 256}
        learns_within = 20_000
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pytest

from rlcore import (
    Actions,
    ConfigError,
    Environment,
    Plugins,
    Policy,
    RunStateError,
    Trainer,
    TrainerSpec,
    UnsupportedSpace,
    config_from_mapping,
    dump_config,
)
from rlcore_devkit.conformance.differences import TrainerDifferences
from rlcore_devkit.conformance.learning_rewards import LearningReward, LearningRewards
from rlcore_devkit.conformance.loop import (
    act,
    act_twice,
    begun,
    check_actions,
    first_batch,
    learn,
    learn_on,
    mean_reward,
    play,
    spoil_arrays,
)
from rlcore_devkit.conformance.rules import Rules, doctor, installed, messages_about
from rlcore_devkit.conformance.script import ScriptedSlots
from rlcore_devkit.conformance.states import (
    assert_equal,
    assert_resumes,
    check_statistics,
    check_storable,
    copied,
    equal,
)
from rlcore_devkit.environments import (
    ConstantReward,
    IdentityEnvironment,
    TinyCorridor,
    identity_continuous,
    identity_discrete,
    identity_hybrid,
    identity_multi_branch,
)
from rlcore_devkit.trainings import create_trainer

NOT_RESUMED = (
    "a trainer that resumed from its state learned differently than one that never stopped: state_dict lacks something "
    "that learning uses; is the replay buffer saved (for OffPolicyTrainer: save_replay_buffer in hyperparameters), and "
    "are all random generators? The first difference of updates and states is at"
)

SPACES: dict[str, Callable[[int], IdentityEnvironment]] = {
    "continuous": identity_continuous,
    "discrete": identity_multi_branch,
    "hybrid": identity_hybrid,
}


class TrainerRules(Rules):
    """Tests of the record, the settings and the states of every trainer, of environments or recordings.

    Attributes:
        trainer: The trainer, NAME or DIST/NAME, as installed.
        hyperparameters: Small values, so that updates come early.
        settings: Other keys of the behavior's block.
        num_envs: N, the number of environments.
    """

    trainer: ClassVar[str] = ""
    hyperparameters: ClassVar[Mapping[str, Any]] = {}
    settings: ClassVar[Mapping[str, Any]] = {}
    num_envs: ClassVar[int] = 4

    def untrained(self, environment: Environment) -> Trainer:
        """Create the trainer of the only behavior of an environment."""
        raise NotImplementedError

    def plugins(self) -> Plugins:
        """Return the plugins that the trainer is created with."""
        return installed(self.trainer)

    def block(self, **hyperparameters: Any) -> dict[str, Any]:
        """Return the block of a behavior; ``hyperparameters`` override those of the class."""
        chosen = {**self.hyperparameters, **hyperparameters}
        block: dict[str, Any] = {"trainer_type": self.trainer}
        block["hyperparameters"] = chosen
        return {**block, **self.settings}

    @cached_property
    def _spec(self) -> TrainerSpec:
        """The record of the trainer."""
        return self.plugins().record(TrainerSpec, self.trainer)

    @property
    def spaces(self) -> frozenset[str]:
        """Return the kinds of actions that the record declares."""
        return self._spec.spaces

    def environment(self) -> Environment:
        """Return the simplest environment whose actions the trainer declares."""
        return self._declared("discrete", "continuous", "hybrid")

    def _declared(self, *kinds: str, slots: int | None = None) -> IdentityEnvironment:
        """Return the environment with the first of these kinds of actions that the trainer declares."""
        slots = slots or self.num_envs
        for kind in kinds:
            if kind in self.spaces:
                return SPACES[kind](slots)
        raise AssertionError(f"spaces has none of {kinds}")

    def _need_discrete_actions(self) -> None:
        """Skip the test of a trainer that has no discrete actions alone."""
        if "discrete" not in self.spaces:
            pytest.skip("has no discrete actions")

    def test_its_record_is_complete_and_light(self) -> None:
        spec = self._spec
        assert spec.summary, "a record needs a summary for `rlcore plugins list`"
        assert spec.spaces and spec.spaces <= SPACES.keys(), f"spaces are any of {sorted(SPACES)}"
        assert callable(spec.resolve())
        assert spec.plugin is not None
        findings = doctor(spec.plugin.label)
        assert messages_about("light", findings) == []

    def test_its_settings_are_written_and_read_back_alike(self) -> None:
        plugins = self.plugins()
        document = {"behaviors": {"Walker": self.block()}}
        config = config_from_mapping(document, plugins)
        hyperparameters = config.behaviors["Walker"].hyperparameters
        assert isinstance(hyperparameters, self._spec.resolve("settings"))
        written = dump_config(config)
        assert config_from_mapping(written, plugins) == config

    def test_unknown_hyperparameters_are_refused(self) -> None:
        plugins = self.plugins()
        block = self.block(no_such_key=1)
        document = {"behaviors": {"Walker": block}}
        with pytest.raises(ConfigError, match="no_such_key"):
            config_from_mapping(document, plugins)

    def test_refuses_actions_it_does_not_declare(self) -> None:
        for kind in SPACES.keys() - self.spaces:
            environment = SPACES[kind](self.num_envs)
            with pytest.raises(UnsupportedSpace):
                self.untrained(environment)

    def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(self) -> None:
        trainer = self.untrained(self.environment())
        before = copied(trainer.state_dict())
        state = self.untrained(self._wider()).state_dict()
        loads = (
            (trainer.load_state_dict, state),
            (trainer.load_model, state["model"]),
        )
        for load, part in loads:
            with pytest.raises(RunStateError):
                load(part)
            after = trainer.state_dict()
            assert_equal(before, after, "a refused state changed the trainer")

    def _wider(self) -> IdentityEnvironment:
        """Return an environment like :meth:`environment`, with one more real part or one more option in each branch."""
        [behavior] = self.environment().behaviors.values()
        # A kind of action that is not there stays away: a trainer may refuse to be made with it.
        reals = behavior.continuous
        if reals:
            reals += 1
        options = [count + 1 for count in behavior.discrete]
        return IdentityEnvironment(self.num_envs, continuous=reals, discrete=options)


class TrainerConformance(TrainerRules, TrainerDifferences):
    """Tests of trainers: set ``trainer`` and ``hyperparameters``.

    Attributes:
        steps: Environment steps that are enough for two updates.
        learns_within: Agent steps to learn one branch of four options.
        skip: Names of tests that cannot hold, with the reason.
    """

    steps: ClassVar[int] = 300
    learns_within: ClassVar[int] = 20_000

    # ------------------------------------------------------------ making

    def make(self, environment: Environment, seed: int = 1, plugins: Plugins | None = None, **settings: Any) -> Trainer:
        """Create the trainer of the only behavior as a run does; ``settings`` override those of the class.

        A subclass may give the slots of ``environment.behaviors`` other environments and teams first.
        """
        [behavior] = environment.behaviors.values()
        context: dict[str, Any] = {}
        if isinstance(environment, ScriptedSlots):
            context["ranks"] = environment.ranks
            context["first_env"] = environment.first_env
        block = self.block() | settings
        plugins = plugins or self.plugins()
        num_envs = environment.num_envs
        return create_trainer(behavior, block, plugins, self.directory, seed, num_envs, **context)

    def untrained(self, environment: Environment) -> Trainer:
        """Create the trainer of the only behavior of an environment."""
        return self.make(environment)

    # ------------------------------------------------------------ creation

    def test_is_made_for_every_kind_of_action_it_declares(self) -> None:
        for kind in self.spaces:
            environment = SPACES[kind](self.num_envs)
            self._play_and_check(environment, 5)

    def _play_and_check(self, environment: Environment, steps: int) -> None:
        [behavior] = environment.behaviors.values()
        trainer = self.make(environment)
        for step in play(trainer, environment, steps):
            check_actions(behavior, step.mask, step.actions)

    # ------------------------------------------------------------ acting

    def test_never_chooses_a_masked_option(self) -> None:
        self._need_discrete_actions()
        corridor = TinyCorridor(self.num_envs, masked=True)
        self._play_and_check(corridor, self.steps)

    def test_the_policy_acts_by_itself_and_repeats_itself(self) -> None:
        environment = self.environment()
        [behavior] = environment.behaviors.values()
        trainer = self.make(environment)
        batch = begun(trainer, environment)
        before = trainer.state_dict()
        for deterministic in (True, False):
            actions = act_twice(trainer.policy, batch, deterministic)
            check_actions(behavior, batch.action_mask, actions)
        first_row = np.arange(1)
        one_row = batch.take(first_row)
        actions = act(trainer.policy, one_row)
        among_others = act(trainer.policy, batch)
        for alone, of_all in (
            (actions.continuous, among_others.continuous),
            (actions.discrete, among_others.discrete),
        ):
            if alone is None or of_all is None:
                continue
            assert len(alone) == 1, "a policy takes any number of rows"
            depends = "the action of a row depends on the rows beside it; does a network normalize over rows?"
            np.testing.assert_allclose(alone, of_all[:1], rtol=1e-4, atol=1e-5, err_msg=depends)
        after = trainer.state_dict()
        assert_equal(before, after, "using the policy changed the trainer")

    # ------------------------------------------------------------ learning

    def test_counts_agent_steps_and_updates_with_finite_statistics(self) -> None:
        environment = self.environment()
        trainer = self.make(environment)
        everyone = np.ones(self.num_envs, np.bool_)
        batch = begun(trainer, environment)  # which decides who learns
        updates = []
        learned = 0
        for _ in range(self.steps):
            learning = getattr(trainer, "learning_slots", everyone)
            learned += int(np.sum(learning))
            batch, update = learn_on(trainer, environment, batch, 1)
            updates += update
        assert trainer.steps == learned
        played = self.steps * self.num_envs
        assert updates, f"no update in {played} agent steps; choose smaller hyperparameters"
        for stats in updates:
            check_statistics(stats)

    def test_equal_seeds_learn_equally(self) -> None:
        outcomes = []
        for _ in range(2):
            environment = self.environment()
            trainer = self.make(environment)
            updates = learn(trainer, environment, self.steps)
            state = trainer.state_dict()
            outcomes.append({"updates": updates, "state": state})
        assert_equal(outcomes[0], outcomes[1])

    def test_learns(self) -> None:
        environment = self._task()
        measured = self._task()
        assert isinstance(environment, IdentityEnvironment)
        for seed in range(1, 10):
            trainer = self.make(environment, seed)
            # Initial weights sometimes solve the task, which would prove nothing.
            if mean_reward(trainer, environment) < 0.7:
                break
        batch = begun(trainer, environment)
        steps = self.learns_within // self.num_envs
        reward = 0.0
        for _ in range(4):  # a trainer that learns sooner is done sooner
            batch, _ = learn_on(trainer, environment, batch, steps // 4)
            reward = mean_reward(trainer, measured)
            if reward > 0.8:
                break
        assert reward > 0.8, f"mean reward {reward:.2f} of at most 1 after {trainer.steps} steps"

    def _task(self) -> Environment:
        if "discrete" in self.spaces:
            return identity_discrete(self.num_envs)
        return self.environment()

    @pytest.mark.parametrize("case", ["episodes of one step", "time limits only", "cut by a reset"])
    def test_handles_episodes_of_every_kind(self, case: str) -> None:
        self._need_discrete_actions()
        resets = 1
        environment: Environment
        if case == "episodes of one step":
            environment = IdentityEnvironment(self.num_envs, discrete=(2,), episode_length=1)
        elif case == "time limits only":
            environment = ConstantReward(self.num_envs, max_steps=3)
        else:
            environment = TinyCorridor(self.num_envs)
            resets = 4
        trainer = self.make(environment)
        steps = self.steps // 3
        for _ in range(resets):
            updates = learn(trainer, environment, steps)
            for stats in updates:
                check_statistics(stats)

    def test_reads_a_batch_only_while_it_is_valid(self) -> None:
        """An environment writes its next step into the memory of the previous one."""
        outcomes = []
        for spoil in (False, True):
            environment = self.environment()
            trainer = self.make(environment)
            [name] = environment.behaviors
            batch = begun(trainer, environment)
            for _ in range(self.steps):
                actions = trainer.act(batch)
                before = batch
                batch = environment.step({name: actions})[name]
                if spoil:
                    spoil_arrays(before)
                trainer.observe(actions, batch)
                if trainer.ready():
                    trainer.update()
            outcomes.append(trainer.state_dict())
        assert_equal(outcomes[0], outcomes[1], "a batch was read after it became invalid")

    def test_steps_call_no_hooks(self) -> None:
        environment = self.environment()
        plugins = self.plugins()
        trainer = self.make(environment, plugins=plugins)
        before = dict(plugins.hook_calls)
        learn(trainer, environment, self.steps)
        assert dict(plugins.hook_calls) == before

    def test_leaves_no_threads_behind(self) -> None:
        before = set(threading.enumerate())
        environment = self.environment()
        trainer = self.make(environment)
        learn(trainer, environment, self.steps)
        del trainer
        gc.collect()  # a trainer may be in a cycle of references, and end its threads when it is freed
        assert set(threading.enumerate()) <= before

    # ------------------------------------------------------------ saving

    def test_goes_on_from_its_state_as_if_never_stopped(self) -> None:
        environment = self.environment()
        trainer = self.make(environment)
        learn(trainer, environment, self.steps // 2 + 3)  # to the middle of a rollout
        resumed = self.make(self.environment())
        assert_resumes(trainer, resumed, self.directory, self._learn_on, NOT_RESUMED)

    def _learn_on(self, trainer: Trainer) -> list[Mapping[str, float]]:
        return learn(trainer, self.environment(), self.steps, seed=7)

    def test_snapshots_do_not_change_and_are_restored_from_their_content(self) -> None:
        environment = self.environment()
        trainer = self.make(environment)
        batch = copied(first_batch(environment))

        def actions_of(policy: Policy) -> list[Actions]:
            return [act(policy, batch), act(policy, batch, deterministic=False)]

        before = trainer.snapshot()
        at_first = actions_of(before)
        learn(trainer, environment, self.steps)
        after = trainer.snapshot()
        later = actions_of(before)
        assert_equal(at_first, later, "a snapshot changed while its trainer learned")
        current = actions_of(trainer.policy)
        newest = actions_of(after)
        assert_equal(newest, current, "a snapshot acts differently from the current policy")
        content = copied(before.state_dict())
        check_storable(content)
        snapshot = trainer.snapshot(content)
        restored = actions_of(snapshot)
        assert_equal(at_first, restored, "snapshot(state) does not restore what state_dict gave")
        still = actions_of(trainer.policy)
        assert_equal(current, still, "restoring a snapshot changed the current policy")

    def test_rewards_that_learn_are_updated_saved_and_restored(self) -> None:
        """PyTorch records gradients as :class:`rlcore.RewardProvider` says."""
        environment = self.environment()
        trainer, reward = self.make_with_a_reward_that_learns(environment)
        untrained = copied(reward.state_dict())
        updates = learn(trainer, environment, self.steps)
        assert not equal(untrained, reward.state_dict()), "the provider's update() was not called"
        assert reward.rewarded, "the provider's evaluate() was not called"
        assert any(LearningReward.TAG in stats for stats in updates), "the statistics of the provider are missing"
        resumed, restored = self.make_with_a_reward_that_learns(self.environment())
        lost = "the provider's state was not saved and restored"
        assert_resumes(trainer, resumed, self.directory, self._learn_on, lost)
        assert_equal(reward.state_dict(), restored.state_dict(), lost)

    def test_rewards_that_learn_are_shown_each_collected_transition_once_and_in_order(self) -> None:
        """Minibatches have it beside them, in :attr:`rlcore.Transitions.collected`."""
        environment = self.environment()
        trainer, reward = self.make_with_a_reward_that_learns(environment)
        if hasattr(trainer, "learning_slots"):
            pytest.skip("where a trainer learns from some slots, one may continue with another agent")
        batch = begun(trainer, environment)
        acted_on: list[list[bytes]] = [[] for _ in batch.reward]  # of each slot
        for _ in range(self.steps):
            for slot, observations in enumerate(acted_on):
                parts = [array[slot].tobytes() for array in batch.observations.values()]
                content = b"".join(parts)
                observations.append(content)
            batch, _ = learn_on(trainer, environment, batch, 1)
        assert reward.collected, "update() was called with transitions whose `collected` is always None"
        collected: list[list[bytes]] = [[] for _ in acted_on]
        for slot, content in reward.collected:
            collected[slot].append(content)
        for slot, rewarded in enumerate(collected):
            # The last rollout is not complete, so its transitions are not collected.
            count = len(rewarded)
            expected = acted_on[slot][:count]
            assert rewarded == expected, f"the transitions of slot {slot} are not those that it collected"

    def make_with_a_reward_that_learns(self, environment: Environment) -> tuple[Trainer, Any]:
        """Create a trainer with two rewards with different discounts; the second one changes with every update."""
        plugins = self.plugins()
        maker = LearningRewards()
        plugins.register(maker, "learning-reward")
        signals = {"extrinsic": {}, LearningReward.name: {"gamma": 0.5, "strength": 0.1}}
        trainer = self.make(environment, plugins=plugins, reward_signals=signals)
        assert len(maker.made) == 1, "reward providers come from run.create_reward_providers(behavior, settings)"
        return trainer, maker.made[0]

    def test_weights_start_another_run_without_its_counters(self) -> None:
        environment = self.environment()
        trainer = self.make(environment)
        learn(trainer, environment, self.steps)
        weights = copied(trainer.state_dict()["model"])
        fresh = self.make(self.environment(), seed=2)
        fresh.load_model(weights)
        assert fresh.steps == 0
        batch = first_batch(environment)
        expected = act(trainer.policy, batch)
        actions = act(fresh.policy, batch)
        assert_equal(expected, actions)
