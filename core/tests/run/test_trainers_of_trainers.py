"""A plugin wraps a trainer and gives the inner one another behavior: half of the slots, as self-play does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore import hookimpl
from rlcore.contracts.batches import Actions, AgentBatch
from rlcore.contracts.behavior_spec import BehaviorSpec
from rlcore.contracts.trainer import PartialTrainer, Trainer, TrainerWrapper
from rlcore.run.run import Run


class Half(TrainerWrapper):
    """Learns from the first half of the slots; the others act with the same policy."""

    def __init__(self, trainer: Trainer, spec: BehaviorSpec) -> None:
        super().__init__(trainer)
        self.own, self.others = np.split(np.arange(spec.slots), 2)
        self.learning_slots = np.arange(spec.slots) < spec.slots // 2

    def begin(self, batch: AgentBatch) -> None:
        self.trainer.begin(batch.take(self.own))

    def act(self, batch: AgentBatch) -> Actions:
        others = self.policy.act(batch.take(self.others).observations)
        return Actions.joined([(self.own, self.trainer.act(batch.take(self.own))), (self.others, others)])

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        self.trainer.observe(actions.take(self.own), batch.take(self.own))


class Halves:
    """A plugin that gives each trainer half of its slots."""

    def __init__(self, name: str = "halves") -> None:
        self.name = name
        self.asked: list[int] = []

    @hookimpl
    def rlcore_create_trainer(self, spec: Any, settings: Any, behavior: BehaviorSpec, run: Any) -> Half:
        self.asked.append(behavior.slots)
        half = behavior.take(np.arange(behavior.slots // 2))
        return Half(run.plugins.create(spec, settings=settings, behavior=half, run=run, without=self.name), behavior)


def test_the_inner_trainer_has_another_behavior_and_the_run_resumes(make_run: Any, files: Any) -> None:
    halves = Halves()

    def train(changes: Any = None, **behavior: Any) -> Run:
        run: Run = make_run({"environment.num_envs": 4, **(changes or {})}, **behavior, plugins={"halves": halves})
        run.train()
        return run

    run = train(max_steps=100)
    trainer: Any = run.behaviors["Agent"].trainer
    assert isinstance(trainer, Half) and trainer.spec.slots == 2  # an attribute of the inner one
    assert halves.asked == [4] and run.steps == 100  # of the slots that learn
    train({"checkpoint_settings.resume": True}, max_steps=200)
    train({"checkpoint_settings.run_id": "whole"}, max_steps=200)
    assert files().checkpoint(200) == files("whole").checkpoint(200)


def test_episodes_of_slots_that_are_not_learned_from_do_not_count(make_run: Any, files: Any) -> None:
    """Every episode of environment c returns c + 1; two of four learn, in 50 environment steps."""
    run: Run = make_run({"environment.type": "uneven", "environment.num_envs": 4}, max_steps=100, summary_freq=100)
    run.plugins.register(Halves(), "halves")
    run.train()
    assert isinstance(run.behaviors["Agent"].trainer, PartialTrainer)
    result = run.results()["Agent"]
    assert result.episodes == 50 + 25 and result.mean_reward == pytest.approx((50 * 1.0 + 25 * 2.0) / 75)
    (line,) = files().metrics
    assert line["stats"]["Environment/Cumulative Reward"] == pytest.approx(100 / 75)


class PlayingOn(TrainerWrapper):
    """Agents keep acting after ``stop_learning``, and nothing is learned."""

    acted = 0
    stopped_at = -1

    def stop_learning(self) -> None:
        if self.stopped_at < 0:  # called again at every summary
            self.stopped_at = self.acted

    def act(self, batch: AgentBatch) -> Actions:
        self.acted += 1
        return self.trainer.act(batch)

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        if self.stopped_at < 0:
            self.trainer.observe(actions, batch)


def test_a_trainer_may_play_on_after_its_last_step(make_run: Any) -> None:
    """Left has 2 slots and reaches its 32 steps after 16 environment steps; Right needs 32 for its 128."""

    class Wrap:
        @hookimpl(wrapper=True)
        def rlcore_create_trainer(self) -> Any:
            return PlayingOn((yield))

    changes = {"environment.type": "pair", "behaviors.Left.max_steps": 32, "behaviors.Right.max_steps": 128}
    run: Run = make_run(changes, {"wrap": Wrap()}, behaviors=("Left", "Right"), checkpoint_interval=10_000)
    run.train()
    left: Any = run.behaviors["Left"].trainer
    assert (left.stopped_at, left.acted) == (16, 32)
    results = run.results()
    assert (results["Left"].steps, results["Right"].steps) == (32, 128)
