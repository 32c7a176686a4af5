"""The rules of policies with memory as tests for authors of trainers to inherit, beside those of every trainer.

::

    class TestMyTrainerWithMemory(MemoryTrainerConformance):
        trainer = "acme-ppo/ppo"
        hyperparameters = {"buffer_size": 256}
        settings = {"network_settings": {"memory": {"memory_size": 16, "sequence_length": 8}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    Environment,
    MemoryPolicy,
    Player,
    Trainer,
)
from rlcore_devkit.conformance.loop import begun, first_batch, learn_on
from rlcore_devkit.conformance.states import assert_equal, copied, through_a_file
from rlcore_devkit.conformance.trainer import TrainerConformance
from rlcore_devkit.environments import RememberedCue, TinyCorridor
from rlcore_devkit.playing import random_observations

# steps of a scripted game, and the step in which episodes end
STEPS = 8
END = 3
TERMINATED, TRUNCATED, ABORTED, OPEN = range(4)  # the slots of a scripted game


class MemoryTrainerConformance(TrainerConformance):
    """Tests of trainers whose policies have memory: set the attributes of :class:`TrainerConformance`.

    ``settings`` has the ``network_settings`` that turn the memory on.

    Attributes:
        remembers_within: Agent steps to learn to name a cue that was seen two steps before.
    """

    remembers_within: ClassVar[int] = 40_000

    def remembering(self, environment: Environment, seed: int = 1) -> tuple[Trainer, MemoryPolicy]:
        """Create a trainer without normalization of observations, and return it with its policy."""
        network = dict(self.settings.get("network_settings", {}))
        network["normalize"] = False
        trainer = self.make(environment, seed, network_settings=network)
        return trainer, cast(MemoryPolicy, trainer.policy)

    # ------------------------------------------------------------ the policy

    def test_the_record_declares_memory_and_policies_have_some(self) -> None:
        assert self._spec.memory, "set memory=True in the record"
        trainer, policy = self.remembering(self.environment())
        assert isinstance(policy, MemoryPolicy)
        assert policy.memory_size > 0
        snapshot = trainer.snapshot()
        assert getattr(snapshot, "memory_size", 0) == policy.memory_size

    def test_a_policy_reads_and_overwrites_the_memory_of_its_rows(self) -> None:
        environment = self.environment()
        [behavior] = environment.behaviors.values()
        _, policy = self.remembering(environment)
        first = random_observations(behavior, 3, np.random.default_rng(0))
        second = random_observations(behavior, 3, np.random.default_rng(1))
        memory = np.zeros((3, policy.memory_size), np.float32)
        actions = copied(policy.act(first, None, True, memory))
        without = policy.act(first)
        assert_equal(actions, without, "without memory, an episode begins in every row")
        overwritten = memory.any(axis=1)
        assert overwritten.all(), "the memory must be overwritten with what the rows remember next"
        fresh = np.zeros_like(memory)
        policy.act(second, None, True, memory)
        policy.act(second, None, True, fresh)
        assert not np.allclose(memory, fresh), "the memory has no effect"

    def test_a_row_remembers_nothing_of_other_rows(self) -> None:
        environment = self.environment()
        [behavior] = environment.behaviors.values()
        _, policy = self.remembering(environment)
        generator = np.random.default_rng(1)
        together = np.zeros((5, policy.memory_size), np.float32)
        alone = together.copy()
        for _ in range(4):
            observations = random_observations(behavior, 5, generator)
            policy.act(observations, None, True, together)
            for row in range(5):
                only = slice(row, row + 1)
                memory = alone[only].copy()
                of_row = {name: array[only] for name, array in observations.items()}
                policy.act(of_row, None, True, memory)
                alone[only] = memory
            # One row may take another kernel than five, whose sums are in another order.
            np.testing.assert_allclose(together, alone, rtol=0.0, atol=1e-5)

    # ------------------------------------------------------------ the trainer

    def test_an_episode_begins_without_what_was_before(self) -> None:
        """After an end of the task, a time limit, and a lost environment; an open episode is not cut."""
        played = []
        for other in (False, True):
            environment = self._declared("hybrid", "continuous", "discrete", slots=4)
            [behavior] = environment.behaviors.values()
            trainer, policy = self.remembering(environment)
            # Initial policies often draw every option with about the same probability; these do not.
            weights = trainer.state_dict()["model"]
            trainer.load_model(_larger(weights))
            script = _script(behavior, other)
            trainer.begin(script[0])
            actions: list[Actions] = []
            for batch, following in pairwise(script):
                chosen = trainer.act(batch)
                trainer.observe(chosen, following)
                actions.append(chosen)
            memories = self._expected(behavior, policy, script)
            played.append((actions, memories))
        (ours, our_memories), (theirs, their_memories) = played
        our_last = our_memories[END - 1]
        their_last = their_memories[END - 1]
        for slot in (TERMINATED, TRUNCATED, ABORTED):
            alike = np.allclose(our_last[slot], their_last[slot])
            assert not alike, "the first episodes must differ"
        for step in range(END, STEPS):
            for slot, end in enumerate(("terminated", "truncated", "aborted", "open")):
                message = f"an action after the {end} episode depends on that episode"
                if slot == OPEN:
                    message = "slots mix"
                row = np.array([slot])
                our_action = ours[step].take(row)
                their_action = theirs[step].take(row)
                assert_equal(our_action, their_action, message)

    def _expected(self, behavior: BehaviorSpec, policy: MemoryPolicy, script: list[AgentBatch]) -> list[NDArray[Any]]:
        """Return what a player remembers after each step of the script."""
        player = Player(policy, behavior.slots)
        memories = []
        for batch, following in pairwise(script):
            player.act(batch)
            assert player.memory is not None
            memories.append(player.memory.copy())
            player.observe(following)
        return memories

    def test_goes_on_in_the_middle_of_episodes_as_if_never_stopped(self) -> None:
        """An environment that saves its state continues its episodes, and the agents remember them."""
        self._need_discrete_actions()
        environment = TinyCorridor(self.num_envs, max_steps=50)
        other = TinyCorridor(self.num_envs, max_steps=50)
        trainer = self.make(environment)
        first = begun(trainer, environment)
        steps = self.steps // 2 + 3  # to the middle of a rollout
        batch, _ = learn_on(trainer, environment, first, steps)
        states = {"trainer": trainer.state_dict(), "environment": environment.state_dict()}
        loaded = through_a_file(copied(states), self.directory)
        resumed = self.make(other)
        resumed.load_state_dict(loaded["trainer"])
        [restored_batch] = other.load_state_dict(loaded["environment"]).values()
        ours = learn_on(trainer, environment, batch, self.steps)
        theirs = learn_on(resumed, other, restored_batch, self.steps)
        message = "what the agents remember is a part of the state"
        assert_equal(ours, theirs, message)
        assert_equal(trainer.state_dict(), resumed.state_dict(), message)

    def test_learns_to_remember(self) -> None:
        self._need_discrete_actions()
        environment = RememberedCue(self.num_envs)
        measured = RememberedCue(50)
        trainer = self.make(environment)
        batch = begun(trainer, environment)
        steps = self.remembers_within // self.num_envs
        share = 0.0
        for _ in range(8):  # a trainer that learns sooner is done sooner
            batch, _ = learn_on(trainer, environment, batch, steps // 8)
            share = _mean_return(trainer, measured)
            if share > 0.9:
                break
        assert share > 0.9, f"named {share:.0%} of the cues after {trainer.steps} steps; guessing names half"


def _script(behavior: BehaviorSpec, other: bool) -> list[AgentBatch]:
    """Batches in which three slots begin an episode at step END; the one before differs with ``other``."""
    batches = []
    for step in range(STEPS + 1):
        observations = random_observations(behavior, 4, np.random.default_rng(step))
        if other and step < END:
            generator = np.random.default_rng(100 + step)
            changed = random_observations(behavior, 4, generator)
            for name, array in observations.items():
                array[:OPEN] = changed[name][:OPEN]
        reward = np.zeros(4, np.float32)
        terminated, truncated, aborted = np.zeros((3, 4), np.bool_)
        if step == END:
            terminated[TERMINATED] = True
            truncated[TRUNCATED] = True
            aborted[ABORTED] = True
        batch = AgentBatch(observations, reward, terminated, truncated)
        if step == END:
            batch.aborted = aborted
            # Of the two episodes that ended; a lost one has none.
            batch.final_observations = {name: array[:2].copy() for name, array in observations.items()}
        batches.append(batch)
    return batches


def _larger(weights: Any) -> Any:
    """Return the weights of a policy times 4: what it sees and remembers has a great effect on what it draws."""
    if isinstance(weights, Mapping):
        return {name: _larger(value) for name, value in weights.items()}
    if isinstance(weights, np.ndarray) and weights.dtype.kind == "f":
        return 4 * weights
    return weights


def _mean_return(trainer: Trainer, environment: RememberedCue) -> float:
    """Return the mean reward of two episodes in each environment, from new episodes on."""
    [name] = environment.behaviors
    batch = first_batch(environment, seed=99)
    player = Player(trainer.policy, environment.num_envs)
    episodes = 2
    rewards = 0.0
    for _ in range(episodes * RememberedCue.LENGTH):
        actions = player.act(batch)
        batch = environment.step({name: actions})[name]
        player.observe(batch)
        rewards += float(batch.reward.sum())
    return rewards / (episodes * environment.num_envs)
