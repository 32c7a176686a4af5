"""The conformance classes of trainers fail for a trainer that breaks a rule: each is broken once here, in a PPO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore_devkit import MemoryTrainerConformance, TrainerConformance

MEMORY = {"memory_size": 16, "sequence_length": 8}


def around(name: str, broken: Callable[..., Any]) -> Callable[[Any], None]:
    """Return what replaces a method of a trainer, or of its policy, by ``broken(trainer, method, *arguments)``."""

    def change(trainer: Any) -> None:
        owner = trainer.policy if name.startswith("policy.") else trainer
        own = getattr(owner, last := name.removeprefix("policy."))
        setattr(owner, last, lambda *arguments, **keywords: broken(trainer, own, *arguments, **keywords))

    return change


def one_step_late(trainer: Any, observe: Any, actions: Any, batch: Any) -> None:
    if (earlier := getattr(trainer, "late_batch", None)) is not None:
        trainer.buffer.observations["choices"][trainer.buffer.row] = earlier.observations["choices"]
    trainer.late_batch = batch
    observe(actions, batch)


def counting(trainer: Any, own: Any, *arguments: Any, **keywords: Any) -> Any:
    trainer.steps += 1
    return own(*arguments, **keywords)


def otherwise_among_others(_: Any, act: Any, seen: Any, *arguments: Any) -> Any:
    actions = act(seen, *arguments)
    if len(actions.discrete) == 1:
        return actions
    return attrs.evolve(actions, discrete=(actions.discrete == 0).astype(np.int64))


def with_an_object(trainer: Any, state_dict: Any) -> dict[str, Any]:
    return {**state_dict(), "settings": trainer.settings}


def loses_its_rollout(trainer: Any) -> None:
    load = trainer.load_state_dict
    empty = trainer.state_dict()["buffer"]
    trainer.load_state_dict = lambda state: load({**state, "buffer": empty})


def draws_from_the_clock(trainer: Any) -> None:
    trainer.action_noise._generator = np.random.default_rng()


def lets_no_reward_learn(trainer: Any) -> None:
    for provider in trainer.providers:
        provider.update = lambda transitions: {}


def lets_nobody_wait(_: Any, observe: Any, actions: Any, batch: Any) -> None:
    observe(actions, attrs.evolve(batch, needs_action=None))


def loads_counters(trainer: Any, load: Any, model: Any) -> None:
    load(model)
    trainer.steps = 100


BROKEN = [
    (around("policy.parameters", lambda _, own, seen, mask: own(seen, None)), "test_never_chooses_a_masked_option"),
    (around("policy.act", counting), "test_the_policy_acts_by_itself_and_repeats_itself"),
    (around("policy.act", otherwise_among_others), "test_the_policy_acts_by_itself_and_repeats_itself"),
    (draws_from_the_clock, "test_equal_seeds_learn_equally"),
    (lambda trainer: setattr(trainer.optimizer, "step", lambda: None), "test_learns"),
    (around("observe", one_step_late), "test_reads_a_batch_only_while_it_is_valid"),
    (around("state_dict", with_an_object), "test_goes_on_from_its_state_as_if_never_stopped"),
    (loses_its_rollout, "test_goes_on_from_its_state_as_if_never_stopped"),
    (around("load_state_dict", counting), "test_a_state_that_does_not_fit_is_refused_and_changes_nothing"),
    (lets_no_reward_learn, "test_rewards_that_learn_are_updated_saved_and_restored"),
    (around("load_model", loads_counters), "test_weights_start_another_run_without_its_counters"),
    (around("observe", lets_nobody_wait), "test_what_an_agent_sees_while_it_waits_does_not_count"),
]


# ---------------------------------------------------------------- with memory


def across_ends(trainer: Any, observe: Any, actions: Any, batch: Any) -> None:
    before = trainer.memory.copy()
    observe(actions, batch)
    trainer.memory[batch.ended] = before[batch.ended]


def on_a_copy(_: Any, act: Any, seen: Any, mask: Any = None, best: bool = True, memory: Any = None) -> Any:
    return act(seen, mask, best, None if memory is None else memory.copy())


BROKEN_MEMORY = [
    (around("observe", across_ends), "test_an_episode_begins_without_what_was_before"),
    (around("_forget", lambda *arguments: None), "test_an_episode_begins_without_what_was_before"),
    (around("policy.act", on_a_copy), "test_a_policy_reads_and_overwrites_the_memory_of_its_rows"),
]


def check(base: type[TrainerConformance], rule: str, path: Path, broken: Any = None, **attributes: Any) -> None:
    """Let one test of a conformance class run with trainers that are ``broken``."""

    def make(self: Any, environment: Any, seed: int = 1, plugins: Any = None, **settings: Any) -> Any:
        made: Any = base.make(self, environment, seed, plugins, **settings)
        if broken is not None:
            broken(made)
        return made

    conformance: Any = type("Conformance", (base,), {"trainer": "ppo", "make": make, **attributes})()
    conformance.directory = path
    getattr(conformance, rule)()


@pytest.mark.parametrize(("broken", "rule"), BROKEN)
def test_a_broken_rule_is_noticed(tmp_path: Path, broken: Any, rule: str) -> None:
    with pytest.raises(AssertionError):
        check(
            TrainerConformance, rule, tmp_path, broken, steps=60, learns_within=2000,
            hyperparameters={"buffer_size": 64, "batch_size": 32, "learning_rate": 0.01},
            settings={"network_settings": {"hidden_units": 8, "num_layers": 1}},
        )  # fmt: skip


def network(memory: Any) -> dict[str, Any]:
    hyperparameters = {"buffer_size": 256, "batch_size": 64, "learning_rate": 3e-3}
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1, "memory": memory}}
    return {"hyperparameters": hyperparameters, "settings": settings, "remembers_within": 4000}


@pytest.mark.parametrize(("broken", "rule"), BROKEN_MEMORY)
def test_a_broken_memory_is_noticed(tmp_path: Path, broken: Any, rule: str) -> None:
    with pytest.raises(AssertionError):
        check(MemoryTrainerConformance, rule, tmp_path, broken, **network(MEMORY))
