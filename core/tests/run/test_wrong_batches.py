"""A run, an inference and an evaluation refuse what an environment returns against its own description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from rlcore.contracts.batches import AgentBatch
from rlcore.errors import EnvironmentFailed, UnsupportedSpace
from rlcore_devkit import TinyCorridor

Tamper = Callable[[AgentBatch], None]


def wrong_shape(batch: AgentBatch) -> None:
    batch.observations["position"] = batch.observations["position"][:, :1]


@pytest.fixture
def tampered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``tampered(change, at=31)``: every corridor changes the batches of its steps from that one on; 0 is its reset."""

    def tamper(change: Callable[[Any], Any], at: int) -> None:
        reset = TinyCorridor.reset
        step = TinyCorridor.step

        def changed(environment: Any, batches: Mapping[str, AgentBatch]) -> Any:
            environment.count = getattr(environment, "count", -1) + 1
            return change(batches) if environment.count >= at else batches

        monkeypatch.setattr(TinyCorridor, "reset", lambda self, *given: changed(self, reset(self, *given)))
        monkeypatch.setattr(TinyCorridor, "step", lambda self, *given: changed(self, step(self, *given)))

    return tamper


def within(tamper: Tamper) -> Callable[[Any], Any]:
    def change(batches: Any) -> Any:
        for batch in batches.values():
            tamper(batch)
        return batches

    return change


@pytest.mark.parametrize(("at", "when"), [(0, "at step 0"), (31, "at step 60")])
def test_nothing_is_learned_from_a_batch_of_another_shape(
    make_run: Any, files: Any, tampered: Any, at: int, when: str
) -> None:
    tampered(within(wrong_shape), at)
    wrong = r"observation 'position' is an array of float32 of shape \[2, 1\], not .* of shape \[2, 6\]"
    with pytest.raises(EnvironmentFailed, match=rf"^behavior 'Agent': {wrong}.* \({when}\)") as caught:
        make_run().train()
    assert caught.value.exit_code == 3
    assert files().steps == ([40, 60] if at else [])


@pytest.mark.parametrize("at", [0, 31])
def test_a_trainer_that_takes_no_agents_in_turns_never_gets_a_batch_with_turns(
    make_run: Any, files: Any, tampered: Any, at: int
) -> None:
    def second_waits(batch: AgentBatch) -> None:
        batch.needs_action = np.arange(len(batch.reward)) != 1

    tampered(within(second_waits), at)
    trainer = {"behaviors.Agent.trainer_type": "together"}
    with pytest.raises(UnsupportedSpace) as caught:
        make_run(trainer).train()
    assert str(caught.value) == (
        "behavior 'Agent': trainer 'together' of plugin 'stub_plugin' (local) does not learn where agents act in "
        f"turns, and slot 1 (environment 1) needs no action at step {2 * max(at - 1, 0)}; choose another trainer_type"
    )
    assert files().steps == ([40, 60] if at else [])
    tampered(lambda batches: batches, 0)
    make_run({"behaviors.Agent.trainer_type": "numpy", "checkpoint_settings.run_id": "other"}).train()


@pytest.mark.parametrize(
    ("answer", "found"),
    [({}, "batches of no behavior"), ({"Other": 1}, "batches of 'Other'"), (None, "None"), ((1, 2), "a tuple")],
)
@pytest.mark.parametrize(("at", "doing"), [(0, "reset"), (5, "step")])
def test_an_environment_that_returns_no_batch_of_a_behavior_is_named(
    make_run: Any, tampered: Any, answer: Any, found: str, at: int, doing: str
) -> None:
    tampered(lambda batches: answer, at)
    named = r"environment 'corridor' of plugin 'stub_plugin' \(local\)"
    message = f"^(evaluation: )?{named}: {doing} returned {found} and none of behavior 'Agent'; it must"
    with pytest.raises(EnvironmentFailed, match=message):
        make_run().train()
    run = make_run({"checkpoint_settings.run_id": "evaluated"})
    with pytest.raises(EnvironmentFailed, match=message):
        run.evaluate(1)
