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
import pytest
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    Environment,
    MemoryPolicy,
    Player,
    Trainer,
    TrainerSpec,
)
from rlcore_devkit.conformance.states import assert_equal, copied, through_a_file
from rlcore_devkit.conformance.trainer import SPACES, TrainerConformance, as_state, first_batch, play_on
from rlcore_devkit.environments import RememberedCue, TinyCorridor
from rlcore_devkit.playing import random_observations

__all__ = ["MemoryTrainerConformance"]

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
        network = {**self.settings.get("network_settings", {}), "normalize": False}
        trainer = self.make(environment, seed, network_settings=network)
        return trainer, cast(MemoryPolicy, trainer.policy)

    # ------------------------------------------------------------ the policy

    def test_the_record_declares_memory_and_policies_have_some(self) -> None:
        assert self.plugins().record(TrainerSpec, self.trainer).memory, "set memory=True in the record"
        trainer, policy = self.remembering(self.environment())
        assert isinstance(policy, MemoryPolicy) and policy.memory_size > 0
        assert getattr(trainer.snapshot(), "memory_size", 0) == policy.memory_size

    def test_a_policy_reads_and_overwrites_the_memory_of_its_rows(self) -> None:
        environment = self.environment()
        [behavior] = environment.behaviors.values()
        _, policy = self.remembering(environment)
        seen = [random_observations(behavior, 3, np.random.default_rng(step)) for step in range(2)]
        memory = np.zeros((3, policy.memory_size), np.float32)
        first = policy.act(seen[0], None, True, memory)
        assert_equal(as_state(first), as_state(policy.act(seen[0])), "without memory, an episode begins in every row")
        assert memory.any(axis=1).all(), "the memory must be overwritten with what the rows remember next"
        later = memory.copy()
        fresh = np.zeros_like(memory)
        policy.act(seen[1], None, True, later)
        policy.act(seen[1], None, True, fresh)
        assert not np.allclose(later, fresh), "the memory has no effect"

    def test_a_row_remembers_nothing_of_other_rows(self) -> None:
        environment = self.environment()
        [behavior] = environment.behaviors.values()
        _, policy = self.remembering(environment)
        generator = np.random.default_rng(1)
        together = np.zeros((5, policy.memory_size), np.float32)
        alone = together.copy()
        for _ in range(4):
            seen = random_observations(behavior, 5, generator)
            policy.act(seen, None, True, together)
            for row in range(5):
                kept = alone[row : row + 1].copy()
                policy.act({name: array[row : row + 1] for name, array in seen.items()}, None, True, kept)
                alone[row] = kept[0]
            np.testing.assert_allclose(together, alone, rtol=0.0, atol=1e-5)

    # ------------------------------------------------------------ the trainer

    def test_an_episode_begins_without_what_was_before(self) -> None:
        """After an end of the task, a time limit, and a lost environment; an open episode is not cut."""
        played = []
        for other in (False, True):
            kind = next(kind for kind in ("hybrid", "continuous", "discrete") if kind in self.spaces)
            environment = SPACES[kind](4)
            [behavior] = environment.behaviors.values()
            trainer, policy = self.remembering(environment)
            # Initial policies often draw every option with about the same probability; these do not.
            trainer.load_model(_larger(trainer.state_dict()["model"]))
            script = _script(behavior, other)
            trainer.begin(script[0])
            actions: list[Actions] = []
            for batch in script[1:]:
                actions.append(trainer.act(script[len(actions)]))
                trainer.observe(actions[-1], batch)
            played.append((actions, self._expected(behavior, policy, script)))
        (ours, memories), (theirs, others) = played
        for slot in (TERMINATED, TRUNCATED, ABORTED):
            assert not np.allclose(memories[END - 1][slot], others[END - 1][slot]), "the first episodes must differ"
        for step in range(END, STEPS):
            for slot in (TERMINATED, TRUNCATED, ABORTED, OPEN):
                what = ("terminated", "truncated", "aborted", "open")[slot]
                message = f"an action after the {what} episode depends on that episode" if slot != OPEN else "slots mix"
                assert_equal(_row(ours[step], slot), _row(theirs[step], slot), message)

    def _expected(
        self, behavior: BehaviorSpec, policy: MemoryPolicy, script: list[AgentBatch]
    ) -> list[NDArray[np.float32]]:
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
        if "discrete" not in self.spaces:
            pytest.skip("has no discrete actions")
        environment, other = (TinyCorridor(self.num_envs, max_steps=50) for _ in range(2))
        trainer = self.make(environment)
        batch = first_batch(environment)
        trainer.begin(batch)
        batch, _ = _continue(trainer, environment, batch, self.steps // 2 + 3)
        state = copied({"trainer": trainer.state_dict(), "environment": environment.state_dict()})
        loaded = through_a_file(state, self.directory)
        resumed = self.make(other)
        resumed.load_state_dict(loaded["trainer"])
        [again] = other.load_state_dict(loaded["environment"]).values()
        ours = [*_continue(trainer, environment, batch, self.steps)[1], trainer.state_dict()]
        theirs = [*_continue(resumed, other, again, self.steps)[1], resumed.state_dict()]
        assert_equal({"all": ours}, {"all": theirs}, "what the agents remember is a part of the state")

    def test_learns_to_remember(self) -> None:
        if "discrete" not in self.spaces:
            pytest.skip("has no discrete actions")
        environment = RememberedCue(self.num_envs)
        measured = RememberedCue(50)
        trainer = self.make(environment)
        batch = first_batch(environment)
        trainer.begin(batch)
        steps = self.remembers_within // self.num_envs
        reached = 0.0
        for _ in range(8):  # a trainer that learns sooner is done sooner
            batch, _ = _continue(trainer, environment, batch, steps // 8)
            reached = _mean_return(trainer, measured)
            if reached > 0.9:
                break
        assert reached > 0.9, f"named {reached:.0%} of the cues after {trainer.steps} steps; guessing names half"


def _script(behavior: BehaviorSpec, other: bool) -> list[AgentBatch]:
    """Batches in which three slots begin an episode at step END; the one before differs with ``other``."""
    batches = []
    for step in range(STEPS + 1):
        seen = random_observations(behavior, 4, np.random.default_rng(step))
        if other and step < END:
            changed = random_observations(behavior, 4, np.random.default_rng(100 + step))
            for name, array in seen.items():
                array[:OPEN] = changed[name][:OPEN]
        flags = np.zeros((3, 4), np.bool_)
        if step == END:
            flags[[0, 1, 2], [TERMINATED, TRUNCATED, ABORTED]] = True
        final = {name: array[:2].copy() for name, array in seen.items()} if step == END else None
        terminated, truncated, aborted = flags
        batches.append(
            AgentBatch(
                seen,
                np.zeros(4, np.float32),
                terminated,
                truncated,
                np.flatnonzero(terminated | truncated),
                final,
                aborted=aborted if aborted.any() else None,
            )
        )
    return batches


def _larger(weights: Any) -> Any:
    """Return the weights of a policy times 4: what it sees and remembers has a great effect on what it draws."""
    if isinstance(weights, Mapping):
        return {name: _larger(value) for name, value in weights.items()}
    return 4 * weights if isinstance(weights, np.ndarray) and weights.dtype.kind == "f" else weights


def _row(actions: Actions, slot: int) -> dict[str, Any]:
    return {name: part[slot] for name, part in as_state(actions).items()}


def _continue(
    trainer: Trainer, environment: Environment, batch: AgentBatch, steps: int
) -> tuple[AgentBatch, list[Any]]:
    """Train for some steps from ``batch``; return the last batch and the statistics of updates."""
    played = list(play_on(trainer, environment, batch, steps))
    return played[-1][3], [stats for _, _, stats, _ in played if stats is not None]


def _mean_return(trainer: Trainer, environment: RememberedCue) -> float:
    """Return the mean reward of two episodes in each environment, from new episodes on."""
    [name] = environment.behaviors
    batch = first_batch(environment, seed=99)
    player = Player(trainer.policy, environment.num_envs)
    rewards = 0.0
    for _ in range(2 * RememberedCue.LENGTH):
        batch = environment.step({name: player.act(batch)})[name]
        player.observe(batch)
        rewards += float(batch.reward.sum())
    return rewards / (2 * environment.num_envs)
