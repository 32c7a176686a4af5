"""PPO with memory keeps the rules of every trainer with memory; a broken rule is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore import Environment
from rlcore_devkit import MemoryTrainerConformance


class TestPPOWithMemory(MemoryTrainerConformance):
    trainer = "ppo"
    hyperparameters = {"buffer_size": 256, "batch_size": 64, "learning_rate": 3e-3}
    settings = {
        "network_settings": {"hidden_units": 32, "num_layers": 1, "memory": {"memory_size": 16, "sequence_length": 8}}
    }


# ---------------------------------------------------------------- broken on purpose


def nothing(*arguments: Any) -> None:
    """Do nothing."""


def remembers_across_ends(trainer: Any) -> None:
    observe = trainer.observe

    def broken(actions: Any, batch: Any) -> None:
        before = trainer.memory.copy()
        observe(actions, batch)
        trainer.memory[batch.ended] = before[batch.ended]

    trainer.observe = broken


def remembers_lost_environments(trainer: Any) -> None:
    trainer._forget = nothing


def loses_its_memory_when_it_is_resumed(trainer: Any) -> None:
    load = trainer.load_state_dict

    def broken(state: Any) -> None:
        load(state)
        trainer.memory[:] = 0.0

    trainer.load_state_dict = broken


def overwrites_nothing(trainer: Any) -> None:
    act = trainer.policy.act

    def broken(observations: Any, action_mask: Any = None, deterministic: bool = True, memory: Any = None) -> Any:
        return act(observations, action_mask, deterministic, None if memory is None else memory.copy())

    trainer.policy.act = broken


def ignores_its_memory(trainer: Any) -> None:
    act = trainer.policy.act

    def broken(observations: Any, action_mask: Any = None, deterministic: bool = True, memory: Any = None) -> Any:
        if memory is not None:
            memory[:] = 0.0
        return act(observations, action_mask, deterministic, memory)

    trainer.policy.act = broken


def mixes_rows(trainer: Any) -> None:
    act = trainer.policy.act

    def broken(observations: Any, action_mask: Any = None, deterministic: bool = True, memory: Any = None) -> Any:
        actions = act(observations, action_mask, deterministic, memory)
        if memory is not None:
            memory[:] = memory.mean(axis=0)
        return actions

    trainer.policy.act = broken


class Conformance(MemoryTrainerConformance):
    trainer = "ppo"
    hyperparameters = TestPPOWithMemory.hyperparameters
    settings = TestPPOWithMemory.settings
    broken: Any = None

    def make(self, environment: Environment, seed: int = 1, plugins: Any = None, **settings: Any) -> Any:
        made = super().make(environment, seed, plugins, **settings)
        type(self).broken(made)
        return made


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (remembers_across_ends, "test_an_episode_begins_without_what_was_before"),
        (remembers_lost_environments, "test_an_episode_begins_without_what_was_before"),
        (loses_its_memory_when_it_is_resumed, "test_goes_on_in_the_middle_of_episodes_as_if_never_stopped"),
        (overwrites_nothing, "test_a_policy_reads_and_overwrites_the_memory_of_its_rows"),
        (ignores_its_memory, "test_a_policy_reads_and_overwrites_the_memory_of_its_rows"),
        (mixes_rows, "test_a_row_remembers_nothing_of_other_rows"),
    ],
)
def test_a_broken_memory_is_noticed(tmp_path: Path, broken: Any, rule: str) -> None:
    conformance: Any = type("Broken", (Conformance,), {"broken": staticmethod(broken)})()
    conformance.directory = tmp_path
    with pytest.raises(AssertionError):
        getattr(conformance, rule)()


def test_an_agent_that_cannot_remember_does_not_pass_the_task(tmp_path: Path) -> None:
    conformance: Any = type(
        "Broken", (Conformance,), {"broken": staticmethod(nothing), "settings": {}, "remembers_within": 4000}
    )()
    conformance.directory = tmp_path
    with pytest.raises(AssertionError, match="guessing names half"):
        conformance.test_learns_to_remember()


def test_a_trainer_without_memory_is_noticed(tmp_path: Path) -> None:
    conformance: Any = type("Broken", (Conformance,), {"settings": {}, "broken": staticmethod(nothing)})()
    conformance.directory = tmp_path
    with pytest.raises(AssertionError):
        conformance.test_the_record_declares_memory_and_policies_have_some()
