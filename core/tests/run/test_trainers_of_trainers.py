"""A plugin wraps a trainer and gives the inner one another behavior: half of the slots, as self-play does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore import hookimpl
from rlcore.environment import Actions, AgentBatch, BehaviorSpec
from rlcore.plugins import Plugins
from rlcore.runs.run import Run
from rlcore.trainer import Policy, Trainer


class Half:
    """Learns from the first half of the slots; the others act with the same policy."""

    def __init__(self, inner: Trainer, spec: BehaviorSpec) -> None:
        self.inner, self.slots, self.seen = inner, spec.slots, 0

    def half(self, batch: AgentBatch) -> AgentBatch:
        rows = self.slots // 2
        ended = batch.ended < rows
        return AgentBatch(
            observations={name: array[:rows] for name, array in batch.observations.items()},
            reward=batch.reward[:rows],
            terminated=batch.terminated[:rows],
            truncated=batch.truncated[:rows],
            ended=batch.ended[ended],
            final_observations={name: array[ended] for name, array in (batch.final_observations or {}).items()},
        )

    def begin(self, batch: AgentBatch) -> None:
        self.inner.begin(self.half(batch))

    def act(self, batch: AgentBatch) -> Actions:
        own, other = self.inner.act(self.half(batch)), self.policy.act(batch.observations)
        assert own.discrete is not None and other.discrete is not None
        rows = self.slots // 2
        return Actions(discrete=np.concatenate([own.discrete, other.discrete[rows:]]))

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        assert actions.discrete is not None
        self.inner.observe(Actions(discrete=actions.discrete[: self.slots // 2]), self.half(batch))

    def ready(self) -> bool:
        return self.inner.ready()

    def update(self) -> Mapping[str, Any]:
        return self.inner.update()

    def state_dict(self) -> Mapping[str, Any]:
        return self.inner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.inner.load_state_dict(state)

    def load_model(self, model: Mapping[str, Any]) -> None:
        self.inner.load_model(model)

    def snapshot(self, state: Mapping[str, Any] | None = None) -> Any:
        return self.inner.snapshot(state)

    @property
    def policy(self) -> Policy:
        return self.inner.policy

    @property
    def steps(self) -> int:
        return self.inner.steps


class Halves:
    """A plugin that gives each trainer half of its slots."""

    def __init__(self, name: str = "halves") -> None:
        self.name = name
        self.asked: list[int] = []

    @hookimpl
    def rlcore_create_trainer(self, spec: Any, settings: Any, behavior: BehaviorSpec, run: Any) -> Half:
        self.asked.append(behavior.slots)
        half = attrs.evolve(behavior, env_index=behavior.env_index[: behavior.slots // 2])
        return Half(run.plugins.create_trainer(spec, settings, half, run, without=self.name), behavior)


def test_the_inner_trainer_has_another_behavior_and_the_run_resumes(make_run: Any, files: Any) -> None:
    halves = Halves()

    def train(changes: Any = None, **behavior: Any) -> Run:
        run: Run = make_run({"environment.num_envs": 4, **(changes or {})}, **behavior)
        run.plugins.register(halves, "halves")
        run.train()
        return run

    run = train(max_steps=100)
    trainer: Any = run.behaviors["Agent"].trainer
    assert isinstance(trainer, Half) and trainer.inner.spec.slots == 2  # type: ignore[attr-defined]
    assert halves.asked == [4] and run.steps == 100  # of the slots that learn
    train({"checkpoint_settings.resume": True}, max_steps=200)
    train({"checkpoint_settings.run_id": "whole"}, max_steps=200)
    assert files().checkpoint(200) == files("whole").checkpoint(200)


def test_trainers_of_several_plugins_are_inside_each_other(make_run: Any) -> None:
    run: Run = make_run({"environment.num_envs": 8})
    inner, outer = Halves("inner"), Halves("outer")
    run.plugins.register(inner, "inner")
    run.plugins.register(outer, "outer")
    run.start()
    trainer: Any = run.behaviors["Agent"].trainer
    assert (outer.asked, inner.asked) == ([8], [4]) and trainer.inner.inner.spec.slots == 2
    run.close()


def test_every_behavior_asks_all_plugins_again(make_run: Any) -> None:
    run: Run = make_run({"environment.type": "pair", "environment.num_envs": 2}, behaviors=("Left", "Right"))
    halves = Halves()
    run.plugins.register(halves, "halves")
    run.start()
    assert sorted(halves.asked) == [2, 4]
    run.close()


def test_an_error_leaves_nothing_out_for_the_next_call(make_run: Any) -> None:
    run: Run = make_run({"environment.num_envs": 4})
    halves = Halves("halves")
    run.plugins.register(halves, "halves")
    plugins: Plugins = run.plugins
    with pytest.raises(RuntimeError, match="stop"), plugins._dispatch.leaving_out("halves"):
        raise RuntimeError("stop")
    run.start()
    assert halves.asked == [4]
    run.close()


def test_a_name_that_no_plugin_has_is_refused(make_run: Any) -> None:
    run: Run = make_run({"environment.num_envs": 4})
    run.plugins.register(Halves("halve"), "halves")
    with pytest.raises(Exception, match=r"no plugin is called 'halve'; there are .*did you mean 'halves'"):
        run.start()
