"""Environments whose batches go from step to trainer without a look at them (``KeepsBatches``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore.contracts.batches import AgentBatch
from rlcore.errors import EnvironmentFailed
from rlcore.run.run import Run
from rlcore_devkit.conformance.states import copied
from rlcore_devkit.environments import TinyCorridor

KEYS = {"max_steps": 200, "summary_freq": 60, "checkpoint_interval": 100}


@attrs.define(eq=False)
class Box:
    """A batch that nothing can read but those who know the box."""

    inside: AgentBatch

    def on_host(self) -> AgentBatch:
        return self.inside


class Corridor(TinyCorridor):
    def __init__(self) -> None:
        super().__init__(2, "Agent", length=6)


class BoxedCorridor(Corridor):
    """Puts its batches in boxes in trainings of trainers, which it teaches to open them."""

    kept: Sequence[Any] = ()
    waiting: list[AgentBatch]
    wrong = False

    def keep_batches(self, trainers: Sequence[Any]) -> bool:
        self.kept, self.waiting = trainers, []
        (trainer,) = trainers
        act = trainer.act
        observe = trainer.observe
        begin = trainer.begin
        trainer.act = lambda box: act(box.inside)
        trainer.observe = lambda actions, box: observe(actions, box.inside)
        trainer.begin = lambda box: begin(box.inside)
        return True

    def played(self) -> Mapping[str, Sequence[AgentBatch]]:
        played, self.waiting = self.waiting, []
        return {"Agent": played}

    def reset(self, *arguments: Any) -> dict[str, Any]:
        return self._boxed(super().reset(*arguments))

    def load_state_dict(self, state: Any) -> dict[str, Any]:
        return self._boxed(super().load_state_dict(state))

    def step(self, actions: Any) -> dict[str, Any]:
        batches = super().step(actions)
        if self.kept:
            self.waiting.append(copied(batches)["Agent"])
        return self._boxed(batches)

    def _boxed(self, batches: dict[str, AgentBatch]) -> dict[str, Any]:
        if self.wrong:
            batches["Agent"].reward = np.zeros(5, np.float32)
        return {"Agent": Box(batches["Agent"])} if self.kept else batches


@pytest.fixture
def config(configure: Any) -> dict[str, Any]:
    document: dict[str, Any] = configure(**KEYS)
    document["environment"] = {"num_envs": 2}
    document["evaluation"] = {"interval": 100, "episodes": 2}
    return document


def of_run(files: Any) -> tuple[Any, ...]:
    """Return the weights, statistics and results of a run, without times and speeds."""
    found = files()
    stats = [
        {tag: value for tag, value in line["stats"].items() if not tag.startswith("Performance")}
        for line in found.metrics
    ]
    return found.checkpoint(200)["Agent.safetensors"], stats, found.result["behaviors"]


@pytest.mark.parametrize("stops", [False, True])
def test_a_run_whose_batches_stay_on_a_device_learns_and_reports_as_any_other(
    config: Any, files: Any, stops: bool
) -> None:
    Run(config, environment=Corridor).train()
    expected = of_run(files)
    config["checkpoint_settings"]["force"] = True
    if stops:  # at step 74, between two boundaries
        run: Any = Run(config, environment=BoxedCorridor)
        run.start()
        step = run.environment.step

        def stopping(actions: Any) -> Any:
            if run.behaviors["Agent"].trainer.steps == 72:
                run.request_stop()
            return step(actions)

        run.environment.step = stopping
        run.train()
        assert run.outcome == "interrupted" and files().steps == [74]
        config["checkpoint_settings"] = {**config["checkpoint_settings"], "force": False, "resume": True}
    Run(config, environment=BoxedCorridor).train()
    assert of_run(files) == expected


def test_the_first_batch_is_checked(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoxedCorridor, "wrong", True)
    with pytest.raises(EnvironmentFailed, match=r"reward is an array of float32 of shape \[5\]"):
        Run(config, environment=BoxedCorridor).train()
