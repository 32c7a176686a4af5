"""TrainerConformance fails for a trainer that breaks a rule: each is broken once here, in a PPO that was sound."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import Actions, AgentBatch, Environment, Plugins, Trainer
from rlcore_devkit import TrainerConformance
from rlcore_ppo.trainer import PPOTrainer

Break = Callable[[PPOTrainer], None]


def acts_in_doubles(trainer: PPOTrainer) -> None:
    act = trainer.act

    def broken(batch: AgentBatch) -> Actions:
        actions = act(batch)
        return Actions(None, None if actions.discrete is None else actions.discrete.astype(np.int32))

    trainer.act = broken  # type: ignore[method-assign]


def ignores_masks(trainer: PPOTrainer) -> None:
    parameters = trainer.policy.parameters
    trainer.policy.parameters = lambda observations, mask: parameters(observations, None)  # type: ignore[method-assign]


def draws_from_the_clock(trainer: PPOTrainer) -> None:
    trainer._noise._generator = np.random.default_rng()


def forgets_its_noise(trainer: PPOTrainer) -> None:
    load = trainer.load_state_dict

    def broken(state: Mapping[str, Any]) -> None:
        load({**state, "noise": {name: array[:0] for name, array in state["noise"].items()}})

    trainer.load_state_dict = broken  # type: ignore[method-assign]


def saves_objects(trainer: PPOTrainer) -> None:
    state_dict = trainer.state_dict
    trainer.state_dict = lambda: {**state_dict(), "settings": trainer.settings}  # type: ignore[method-assign]


def keeps_half_of_a_refused_state(trainer: PPOTrainer) -> None:
    load = trainer.load_state_dict

    def broken(state: Mapping[str, Any]) -> None:
        trainer.steps = state["steps"] + 1
        load(state)

    trainer.load_state_dict = broken  # type: ignore[method-assign]


def takes_over_counters(trainer: PPOTrainer) -> None:
    load = trainer.load_model

    def broken(model: Mapping[str, Any]) -> None:
        load(model)
        trainer.steps = 100

    trainer.load_model = broken  # type: ignore[method-assign]


def copies_too_late(trainer: PPOTrainer) -> None:
    observe = trainer.observe
    late: list[AgentBatch] = []

    def broken(actions: Actions, batch: AgentBatch) -> None:
        for earlier in late:
            trainer.buffer.observations["choices"][trainer.buffer.row] = earlier.observations["choices"]
        late[:] = [batch]
        observe(actions, batch)

    trainer.observe = broken  # type: ignore[method-assign]


def acting_changes_it(trainer: PPOTrainer) -> None:
    act = trainer.policy.act

    def broken(*arguments: Any, **keywords: Any) -> Actions:
        trainer.steps += 1
        return act(*arguments, **keywords)

    trainer.policy.act = broken  # type: ignore[method-assign]


def learns_nothing(trainer: PPOTrainer) -> None:
    trainer.optimizer.step = lambda: None  # type: ignore[method-assign]


def starts_a_thread(trainer: PPOTrainer) -> None:
    threading.Thread(target=threading.Event().wait, args=(20.0,), daemon=True).start()


def calls_hooks(trainer: PPOTrainer) -> None:
    update = trainer.update

    def broken() -> Mapping[str, float]:
        plugins = trainer.plugins_of_this_test  # type: ignore[attr-defined]
        plugins.lesson_changed(None, 0, None)
        return update()

    trainer.update = broken  # type: ignore[method-assign]


def lets_no_reward_learn(trainer: PPOTrainer) -> None:
    for provider in trainer.providers:
        provider.update = lambda transitions: {}  # type: ignore[method-assign]


def forgets_what_rewards_learned(trainer: PPOTrainer) -> None:
    for provider in trainer.providers:
        provider.load_state_dict = lambda state: None  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (acts_in_doubles, "test_is_made_for_every_kind_of_action_it_declares"),
        (ignores_masks, "test_never_chooses_a_masked_option"),
        (acting_changes_it, "test_the_policy_acts_by_itself_and_repeats_itself"),
        (draws_from_the_clock, "test_equal_seeds_learn_equally"),
        (learns_nothing, "test_learns"),
        (copies_too_late, "test_reads_a_batch_only_while_it_is_valid"),
        (calls_hooks, "test_steps_call_no_hooks"),
        (starts_a_thread, "test_leaves_no_threads_behind"),
        (forgets_its_noise, "test_goes_on_from_its_state_as_if_never_stopped"),
        (saves_objects, "test_goes_on_from_its_state_as_if_never_stopped"),
        (keeps_half_of_a_refused_state, "test_a_state_that_does_not_fit_is_refused_and_changes_nothing"),
        (lets_no_reward_learn, "test_rewards_that_learn_are_updated_saved_and_restored"),
        (forgets_what_rewards_learned, "test_rewards_that_learn_are_updated_saved_and_restored"),
        (takes_over_counters, "test_weights_start_another_run_without_its_counters"),
    ],
)
def test_a_broken_rule_is_noticed(tmp_path: Path, broken: Break, rule: str) -> None:
    class Conformance(TrainerConformance):
        trainer = "ppo"
        hyperparameters = {"buffer_size": 64, "batch_size": 64, "num_epoch": 1}
        settings = {"network_settings": {"hidden_units": 8, "num_layers": 1}}
        steps = 60
        learns_within = 2000

        def make(
            self, environment: Environment, seed: int = 1, plugins: Plugins | None = None, **settings: Any
        ) -> Trainer:
            made = super().make(environment, seed, plugins, **settings)
            assert isinstance(made, PPOTrainer)
            made.plugins_of_this_test = plugins  # type: ignore[attr-defined]
            broken(made)
            return made

    conformance = Conformance()
    conformance.directory = tmp_path
    with pytest.raises(AssertionError):
        getattr(conformance, rule)()
